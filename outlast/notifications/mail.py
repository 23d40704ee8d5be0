"""Notifications by mail, with a link to the request on the desk."""

import asyncio
import hashlib
import re
import smtplib
import ssl
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from email.message import EmailMessage
from email.utils import formatdate
from typing import ClassVar, Final, Literal, TypeAlias

from outlast.agents.errors import UserError
from outlast.agents.hosts import check_port, is_this_machine
from outlast.edges.rendering import excerpt
from outlast.notifications import texts
from outlast.notifications.links import check_link_base, request_address
from outlast.notifications.signatures import SeenIds
from outlast.notifications.texts import Detail
from outlast.notifications.webhook import check_events
from outlast.ports.notifier import (
    DigestNotice,
    DigestNotifier,
    Notification,
    NotifierRejected,
    NotifierUnavailable,
)
from outlast.views.acts import same_person
from outlast.views.records import NoticeEvent

Security: TypeAlias = Literal["starttls", "tls", "none"]

_ADDRESS: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,253}")
_LONGEST_SUBJECT: Final = 150  # mail programs show no more
_SMTP_SECONDS: Final = 10.0
_NO_AUDIENCE: Final = "belongs to the request's audience"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    """A person who gets mail.

    Attributes:
        subject: the person's name in audiences.
        address: the mail address.
        groups: the groups that the person belongs to.
    """

    subject: str
    address: str
    groups: tuple[str, ...] = ()


class MailNotifier(DigestNotifier):
    """Sends each person who may decide a mail of their own, as plain text.

    With `link_base`, the mail has a link to the request on the desk (`outlast serve`). The link
    gives nobody a right: who opens it logs in, and decides there as themselves.

    Args:
        host: the SMTP server.
        port: its port.
        sender: the sender's address.
        to: the recipients. Those outside of a request's audience get no mail about it.
        link_base: the address of the desk, such as `https://desk.example.com`; None for mails
            without links.
        security: `starttls`, `tls` from the first byte, or `none`.
        username: the user for the server, if it wants one.
        password: the user's password.
        tls_context: checks the server's certificate; default: the system's authorities.
        events: the events to deliver; default: all.
        name: tells it from the worker's other notifiers.
    """

    timeout: ClassVar[timedelta] = timedelta(seconds=60)

    def __init__(  # noqa: PLR0913  the options of a mail account
        self,
        host: str,
        port: int = 587,
        *,
        sender: str,
        to: Sequence[Recipient],
        link_base: str | None = None,
        security: Security = "starttls",
        username: str | None = None,
        password: str | None = None,
        tls_context: ssl.SSLContext | None = None,
        events: Collection[NoticeEvent] | None = None,
        name: str = "mail",
    ) -> None:
        if security not in {"starttls", "tls", "none"}:
            raise UserError(f"security= must be starttls, tls or none, not {security!r}.")
        if password is not None and security == "none" and not is_this_machine(host):
            raise UserError(
                "password= would travel without encryption. Use security='starttls' or 'tls'."
            )
        check_port(port, "port", least=1)
        self.host, self.security = host, security
        self._server = _Server(host, port, security, username, password, tls_context)
        self._sender = _checked_address(sender, "sender")
        self._to = _checked_recipients(to)
        self._base = None if link_base is None else check_link_base(link_base)
        self.events: frozenset[NoticeEvent] = check_events(events)
        self.name = name
        self._sent = SeenIds()

    async def notify(self, notice: Notification) -> None:
        """Send a notification to everybody who may decide.

        Raises:
            NotifierUnavailable: the server does not answer, or wants another attempt.
            NotifierRejected: nobody may decide, or the server refuses the mail.
        """
        people = [one for one in self._to if _belongs(one, notice)]
        if not people:
            whom = "is mentioned" if notice.event == "mentioned" else _NO_AUDIENCE
            raise NotifierRejected(f"none of its recipients {whom}")
        mails = [self._mail(notice, one) for one in people]
        await self._send(notice.id, mails)

    async def notify_digest(self, digest: DigestNotice) -> None:
        """Send everybody the requests that they may decide.

        Raises:
            NotifierUnavailable: the server does not answer, or wants another attempt.
            NotifierRejected: the server refuses the mail.
        """
        mails: list[EmailMessage] = []
        for one in self._to:
            theirs = [notice for notice in digest.pending if _belongs(one, notice)]
            if theirs:
                title = texts.digest_headline(theirs)
                body = _paragraphs(title, texts.digest_lines(theirs))
                mails.append(self._message(one, title, body, digest.id))
        await self._send(digest.id, mails)

    def _mail(self, notice: Notification, to: Recipient) -> EmailMessage:
        title = texts.headline(notice)
        parts = [_paragraphs(title, texts.details(notice))]
        shown = texts.arguments_shown(notice)
        if shown.text:
            lines = (f"> {line}" for line in shown.text.split("\n"))
            parts.append("\n".join(["Arguments:" if shown.is_whole else "Arguments, cut:", *lines]))
        if self._base is not None and (link := request_address(self._base, notice)):
            verb = "Look at it, and decide" if texts.is_open(notice) else "Look at it"
            parts.append(f"{verb}:\n{link}")
        if lines := texts.command_lines(notice):
            parts.append("\n".join(["Or in a terminal:", *lines]))
        if notice.url:
            parts.append(f"The run:\n{notice.url}")
        what = f": {excerpt(texts.what_asked(notice), 120)}" if notice.name else ""
        mail = self._message(to, f"{title}{what}", "\n\n".join(parts), notice.id)
        if notice.event != "created" and notice.request_id:
            first = f"{notice.run_id}/{notice.request_id}/created/1@{notice.requested_at_ms}"
            mail["References"] = self._message_id(first, to)
        return mail

    def _message(self, to: Recipient, title: str, body: str, notice_id: str) -> EmailMessage:
        mail = EmailMessage()
        mail["From"] = self._sender
        mail["To"] = to.address
        mail["Subject"] = excerpt(title, _LONGEST_SUBJECT)
        mail["Date"] = formatdate(localtime=False)
        mail["Message-ID"] = self._message_id(notice_id, to)
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(f"{body}\n", cte="quoted-printable")
        return mail

    def _message_id(self, notice_id: str, to: Recipient) -> str:
        """Return the id of a mail: the same on every attempt, and without a text of others."""
        text = f"{notice_id}/{to.address}".encode(errors="surrogatepass")
        return f"<{hashlib.sha256(text).hexdigest()[:40]}@{self._sender.rpartition('@')[2]}>"

    async def _send(self, notice_id: str, mails: Sequence[EmailMessage]) -> None:
        keys = {str(mail["Message-ID"]): mail for mail in mails}
        fresh = [mail for key, mail in keys.items() if self._sent.add(key)]
        unsent = fresh
        try:
            failed = await asyncio.to_thread(self._server.send, fresh)
            unsent = [mail for mail, _ in failed]
        finally:  # after a time-out, twice is better than never
            for mail in unsent:
                self._sent.forget(str(mail["Message-ID"]))
        if not failed:
            return
        reasons = "; ".join(dict.fromkeys(str(error) for _, error in failed))
        if any(isinstance(error, NotifierUnavailable) for _, error in failed):
            raise NotifierUnavailable(reasons)
        raise NotifierRejected(reasons)


@dataclass(frozen=True, slots=True)
class _Server:
    host: str
    port: int
    security: Security
    username: str | None
    password: str | None
    tls_context: ssl.SSLContext | None

    def send(self, mails: Sequence[EmailMessage]) -> list[tuple[EmailMessage, Exception]]:
        """Send mails over one connection, and return those that failed, with the reason."""
        left = list(mails)
        failed: list[tuple[EmailMessage, Exception]] = []
        if not left:
            return failed
        try:
            with self._connected() as server:
                while left:
                    error = _sent(server, left[0])
                    mail = left.pop(0)
                    if error is not None:
                        failed.append((mail, error))
        except (smtplib.SMTPException, OSError) as error:
            failed += [(mail, self._unavailable(error)) for mail in left]
        return failed

    def _connected(self) -> smtplib.SMTP:
        if self.security == "tls":
            server: smtplib.SMTP = smtplib.SMTP_SSL(
                self.host, self.port, timeout=_SMTP_SECONDS, context=self._certificates()
            )
        else:
            server = smtplib.SMTP(self.host, self.port, timeout=_SMTP_SECONDS)
        try:
            if self.security == "starttls":  # before the password is sent
                server.starttls(context=self._certificates())
            if self.username is not None:
                server.login(self.username, self.password or "")
        except BaseException:  # also a cancellation leaves no connection open
            server.close()
            raise
        return server

    def _certificates(self) -> ssl.SSLContext:
        return self.tls_context or ssl.create_default_context()

    def _unavailable(self, error: Exception) -> NotifierUnavailable:
        reason = excerpt(str(error) or type(error).__name__, 200)
        return NotifierUnavailable(f"the mail server {self.host}:{self.port} failed: {reason}")


def _sent(server: smtplib.SMTP, mail: EmailMessage) -> Exception | None:
    try:
        server.send_message(mail)
    except smtplib.SMTPServerDisconnected:
        raise
    except smtplib.SMTPRecipientsRefused as error:
        code, text = next(iter(error.recipients.values()))
    except smtplib.SMTPResponseException as error:
        code, text = error.smtp_code, error.smtp_error
    except smtplib.SMTPException as error:
        code, text = 500, str(error)
    else:
        return None
    shown = text.decode(errors="replace") if isinstance(text, bytes) else text
    reason = f"the mail server answered {code} {excerpt(shown, 200)} for {mail['To']}"
    return NotifierUnavailable(reason) if 400 <= code < 500 else NotifierRejected(reason)


def _belongs(person: Recipient, notice: Notification) -> bool:
    if not (notice.subjects or notice.groups):
        return True
    in_groups = not set(person.groups).isdisjoint(notice.groups)
    if notice.event == "mentioned":  # people write names as they like
        return any(same_person(person.subject, one) for one in notice.subjects)
    return person.subject in notice.subjects or in_groups


def _paragraphs(title: str, details: Sequence[Detail]) -> str:
    lines = "\n".join(f"{one.label}: {one.text}" for one in details)
    return f"{title}.\n\n{lines}"


def _checked_address(address: object, name: str) -> str:
    if not isinstance(address, str) or not _ADDRESS.fullmatch(address):
        raise UserError(
            f"{name}= must be a mail address such as desk@example.com, not {address!r}."
        )
    return address


def _checked_recipients(to: object) -> tuple[Recipient, ...]:
    people = tuple(to) if isinstance(to, list | tuple) else ()  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    found: list[Recipient] = []
    for one in people:  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(one, Recipient):
            raise UserError(f"to= holds {one!r}: pass Recipient(subject=..., address=...).")
        _checked_address(one.address, f"The address of {one.subject!r}")
        found.append(one)
    if not found:
        raise UserError("to= must be a list of recipients: [Recipient(subject=..., address=...)].")
    return tuple(found)
