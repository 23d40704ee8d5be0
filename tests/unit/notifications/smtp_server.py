"""A small SMTP server: the commands that a client needs, and failures on request."""

import asyncio
import base64
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import EmailMessage, Message
from email.policy import default
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HANGS = "hangs"
BREAKS = "breaks"


@dataclass
class SmtpServer:
    """A server with the mails that it has received.

    Attributes:
        port: its port.
        tls: the certificate for STARTTLS; None if the server does not offer it.
        password: the password of the user `desk`; None if anybody may send.
        greeting: the first line.
        rcpt: the answer for each recipient that is not accepted.
        outcomes: the answers to the next mails: a line, `HANGS` or `BREAKS`.
        received: the mails, with the address of the recipient.
    """

    port: int = 0
    tls: ssl.SSLContext | None = None
    password: str | None = None
    greeting: str = "220 mail.example"
    rcpt: dict[str, str] = field(default_factory=dict[str, str])
    outcomes: list[str] = field(default_factory=list[str])
    received: list[tuple[str, EmailMessage]] = field(default_factory=list[tuple[str, EmailMessage]])
    secure: list[bool] = field(default_factory=list[bool])
    connections: int = 0
    released: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await _Conversation(self, reader, writer).hold()
        writer.close()


class _Conversation:
    def __init__(
        self, server: SmtpServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._server = server
        self._reader = reader
        self._writer = writer
        self._is_secure = writer.get_extra_info("sslcontext") is not None
        self._may_send = server.password is None
        self._to = ""

    async def hold(self) -> None:
        await self._say(self._server.greeting)
        while line := (await self._reader.readline()).decode().strip():
            verb, _, rest = line.partition(" ")
            if verb.upper() == "QUIT":
                await self._say("221 Bye")
                return
            if not await self._answer(verb.upper(), rest):
                return

    async def _answer(self, verb: str, rest: str) -> bool:
        match verb:
            case "EHLO":
                offers = ["250-mail.example", "250-AUTH PLAIN LOGIN"]
                if self._server.tls is not None and not self._is_secure:
                    offers.append("250-STARTTLS")
                await self._say(*offers, "250 8BITMIME")
            case "STARTTLS":
                await self._say("220 Go ahead")
                assert self._server.tls is not None
                await self._writer.start_tls(self._server.tls)
                self._is_secure = True
            case "AUTH":
                sent = base64.b64decode(rest.partition(" ")[2]).decode().split("\0")
                self._may_send = sent[-2:] == ["desk", self._server.password]
                await self._say("235 Welcome" if self._may_send else "535 Wrong password")
            case "MAIL":
                await self._say("250 OK" if self._may_send else "530 Who are you?")
            case "RCPT":
                self._to = rest.partition("<")[2].partition(">")[0]
                await self._say(self._server.rcpt.get(self._to, "250 OK"))
            case "DATA":
                return await self._take_mail()
            case _:
                await self._say("250 OK")
        return True

    async def _take_mail(self) -> bool:
        await self._say("354 Go on")
        data = (await self._reader.readuntil(b"\r\n.\r\n"))[:-3]
        outcome = self._server.outcomes.pop(0) if self._server.outcomes else "250 Queued"
        if outcome == HANGS:
            await self._server.released.wait()
        if outcome in {BREAKS, HANGS}:
            self._writer.transport.abort()
            return False
        if outcome.startswith("250"):
            mail: Message = message_from_bytes(data.replace(b"\r\n..", b"\r\n."), policy=default)
            assert isinstance(mail, EmailMessage)
            self._server.received.append((self._to, mail))
            self._server.secure.append(self._is_secure)
        await self._say(outcome)
        return True

    async def _say(self, *lines: str) -> None:
        self._writer.write("".join(f"{line}\r\n" for line in lines).encode())
        await self._writer.drain()


@asynccontextmanager
async def smtp_server(
    *, tls: ssl.SSLContext | None = None, from_first_byte: bool = False
) -> AsyncGenerator[SmtpServer]:
    """Serve mail."""
    server = SmtpServer(tls=None if from_first_byte else tls)
    context = tls if from_first_byte else None
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        server.released.set()
        listening.close()


def certificate(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return the contexts of a server at `localhost` and of a client that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.fromtimestamp(1_700_000_000, UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=36_500))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "mail.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(path)
    return server, ssl.create_default_context(cafile=str(path))
