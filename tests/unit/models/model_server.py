"""A web server on loopback that answers what a test tells it to, and records what it was asked."""

import asyncio
import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ssl import SSLContext
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True, slots=True)
class Received:
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True, slots=True)
class _Answer:
    data: bytes
    keep_open: bool = True
    hang: bool = False
    played: asyncio.Event = field(default_factory=asyncio.Event)


class ModelServer:
    """Plays its answers in order; asked once more than it has answers, it drops the connection.

    Attributes:
        requests: what it was asked.
        connections: how many connections were opened.
        left: set once somebody has left a connection on which the server hangs.
    """

    def __init__(self, certificate: SSLContext | None = None) -> None:
        self._certificate = certificate
        self.requests: list[Received] = []
        self.connections = 0
        self.left = asyncio.Event()
        self.port = 0
        self._answers: deque[_Answer] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def request(self) -> Received:
        """The only request so far."""
        assert len(self.requests) == 1
        return self.requests[0]

    def reset(self) -> None:
        self.requests.clear()
        self._answers.clear()
        self.connections = 0
        self.left.clear()

    def answer(
        self,
        body: object,
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        cut: bool = False,
        hang: bool = False,
        close: bool = False,
    ) -> None:
        """Answer with a body; with `cut` or `hang`, one byte less of it than announced.

        `close` closes the connection after the response, without announcing that.
        """
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = [f"HTTP/1.1 {status} Whatever", f"content-type: {content_type}"]
        head += [f"{name}: {value}" for name, value in (headers or {}).items()]
        head.append(f"content-length: {len(data)}")
        whole = "\r\n".join(head).encode() + b"\r\n\r\n" + data
        sent = whole[:-1] if cut or hang else whole
        self._answers.append(_Answer(sent, keep_open=not (cut or close), hang=hang))

    def stream(
        self,
        events: Sequence[object],
        *,
        done: bool = False,
        cut: bool = False,
        hang: bool = False,
    ) -> None:
        """Answer with server-sent events; bytes go out as they are.

        `done` ends with the `[DONE]` of Chat Completions; `cut` drops the connection in the
        middle of the stream; `hang` leaves it open and silent.
        """
        lines: list[bytes] = []
        for event in events:
            data = event if isinstance(event, bytes) else json.dumps(event).encode()
            lines.append(b"event: something\ndata: " + data + b"\n\n")
        if done:
            lines.append(b"data: [DONE]\n\n")
        data = b"".join(lines)
        chunked = f"{len(data):x}\r\n".encode() + data + b"\r\n"
        if not cut and not hang:
            chunked += b"0\r\n\r\n"
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-request-id: req_s\r\n"
        head += b"transfer-encoding: chunked\r\n\r\n"
        self._answers.append(_Answer(head + chunked, keep_open=not cut, hang=hang))

    def drop(self) -> None:
        """Close the connection without a word."""
        self._answers.append(_Answer(b"", keep_open=False))

    def hang(self) -> asyncio.Event:
        """Say nothing, for ever; the event tells when the request has come."""
        answer = _Answer(b"", hang=True)
        self._answers.append(answer)
        return answer.played

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._connected, "127.0.0.1", 0, ssl=self._certificate
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._serve_one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        url = urlsplit(head[0].split(" ")[1])
        pairs = (line.partition(":") for line in head[1:] if line)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        data = await reader.readexactly(int(headers.get("content-length", "0")))
        body = json.loads(data) if data else None
        self.requests.append(Received(url.path, parse_qs(url.query), headers, body))
        answer = self._answers.popleft() if self._answers else _Answer(b"", keep_open=False)
        answer.played.set()
        writer.write(answer.data)
        await writer.drain()
        if answer.hang:
            # Until the other side has had enough.
            await reader.read()
            self.left.set()
            return False
        return answer.keep_open
