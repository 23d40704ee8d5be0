"""A WebSocket server on this machine, which records frames and breaks connections on request.

The scripted servers of the Responses and Realtime APIs extend it. It needs the extra `realtime`.
"""

import asyncio
import json
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Self, cast
from urllib.parse import parse_qs, urlsplit

from outlast.edges import lazy
from outlast.loop.values import JsonObject

if TYPE_CHECKING:
    from websockets.asyncio.server import Server, ServerConnection, serve
    from websockets.http11 import Request, Response

ABNORMAL = 1006
"""The close code of a connection that breaks off: no closing frame is sent."""

_GOING_AWAY = 1001
_INTERNAL_ERROR = 1011

_UNAVAILABLE = 503
"""The HTTP status of a response whose status is then replaced."""

_CLOSE_SECONDS = 1.0
"""How long a closing handshake may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketFrame:
    """One frame that a server received or sent.

    Attributes:
        socket: the number of the connection, from 1.
        body: the JSON in the frame, or its text or bytes if they are no JSON.
        at_s: when, on the monotonic clock.
        size: the length of the frame in bytes.
    """

    socket: int
    sender: Literal["client", "server"]
    body: Any
    at_s: float
    size: int

    @property
    def type(self) -> str | None:
        """The `type` of the JSON in the frame, or None."""
        body: object = self.body
        kind = cast("JsonObject", body).get("type") if isinstance(body, dict) else None
        return kind if isinstance(kind, str) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Break:
    """A connection's planned end, at the first frame of a type after `skip` others."""

    type: str
    instead: bool
    code: int
    reason: str
    skip: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refusal:
    status: int
    body: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class SocketEnded(Exception):
    """A connection has ended, so that no frame can be sent or received."""


class _FrameLog:
    """The frames of all connections, and where connections are to break."""

    def __init__(self) -> None:
        self.frames: list[SocketFrame] = []
        self._counts: Counter[str | None] = Counter()
        self._breaks: list[_Break] = []
        self._changed = asyncio.Condition()

    async def add(self, frame: SocketFrame) -> None:
        """Record a frame, and wake those who wait for it."""
        async with self._changed:
            self.frames.append(frame)
            self._counts[frame.type] += 1
            self._changed.notify_all()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition on the frames is true."""
        async with self._changed:
            await self._changed.wait_for(condition)

    def plan(self, planned: _Break) -> None:
        """Plan a break, counted from the frames so far."""
        self._breaks.append(replace(planned, skip=planned.skip + self._counts[planned.type]))

    def take_break(self, kind: str | None, *, instead: bool) -> _Break | None:
        """Return the break that is due at a frame, once; `instead` means before it is sent."""
        earlier = self._counts[kind] - (not instead)
        for planned in self._breaks:
            if (planned.type, planned.instead) == (kind, instead) and earlier >= planned.skip:
                self._breaks.remove(planned)
                return planned
        return None


class ServerSocket:
    """The server's end of one connection.

    Attributes:
        number: the number of the connection, from 1.
        path: the path of the URL that the client opened, such as `/v1/responses`.
        query: the parameters of that URL.
        headers: the request's headers, with names in lower case.
    """

    def __init__(self, connection: "ServerConnection", number: int, log: _FrameLog) -> None:
        self.number = number
        request = connection.request
        url = urlsplit(request.path if request is not None else "")
        self.path: str = url.path
        self.query: dict[str, list[str]] = parse_qs(url.query)
        headers = request.headers.raw_items() if request is not None else ()
        self.headers: dict[str, str] = {name.lower(): value for name, value in headers}
        self._connection = connection
        self._log = log

    @property
    def is_closed(self) -> bool:
        """Whether either side has closed the connection."""
        return self._connection.close_code is not None

    async def __aiter__(self) -> AsyncGenerator[Any]:
        with suppress(SocketEnded):
            while True:
                yield await self.receive()

    async def receive(self) -> Any:
        """Return the JSON of the client's next frame, or its text or bytes if they are no JSON.

        Raises:
            SocketEnded: the connection has ended.
        """
        with _endings():
            frame = self._frame("client", await self._connection.recv())
        await self._log.add(frame)
        await self._break_at(frame.type, instead=False)
        return frame.body

    async def send(self, event: JsonObject | str | bytes) -> None:
        """Send an event as JSON, or a text or bytes unchanged.

        Raises:
            SocketEnded: the connection has ended.
        """
        data = event if isinstance(event, str | bytes) else json.dumps(event)
        frame = self._frame("server", data)
        await self._break_at(frame.type, instead=True)
        with _endings():
            await self._connection.send(data)
        await self._log.add(frame)
        await self._break_at(frame.type, instead=False)

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the connection; the code 1006 drops it without a closing frame."""
        if code == ABNORMAL:
            self._connection.transport.close()  # what was sent before still arrives
        else:
            await self._connection.close(code, reason)

    def _frame(self, sender: Literal["client", "server"], data: str | bytes) -> SocketFrame:
        try:
            body: Any = json.loads(data)
        except ValueError:
            body = data
        return SocketFrame(
            socket=self.number,
            sender=sender,
            body=body,
            at_s=time.monotonic(),
            size=len(data.encode() if isinstance(data, str) else data),
        )

    async def _break_at(self, kind: str | None, *, instead: bool) -> None:
        planned = self._log.take_break(kind, instead=instead)
        if planned is not None:
            await self.close(planned.code, planned.reason)
            raise SocketEnded(f"the test ended the connection at {kind}")


class SocketServer:
    """A WebSocket server on this machine for tests. Subclasses write its replies in `serve`.

        async with MyServer() as server:
            ...  # connect to server.websocket_base_url

    Attributes:
        sockets: every connection so far, in order.
    """

    def __init__(self) -> None:
        self.sockets: list[ServerSocket] = []
        self._log = _FrameLog()
        self._refusals: deque[_Refusal] = deque()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._failures: list[Exception] = []
        self._server: Server | None = None
        self._port = 0

    @property
    def port(self) -> int:
        """The port on 127.0.0.1."""
        return self._port

    @property
    def websocket_base_url(self) -> str:
        """The base URL of WebSockets, for `OPENAI_WEBSOCKET_BASE_URL`."""
        return f"ws://127.0.0.1:{self._port}/v1"

    @property
    def frames(self) -> list[SocketFrame]:
        """Every frame so far, of all connections, in order."""
        return self._log.frames

    async def serve(self, socket: ServerSocket) -> None:
        """Serve one connection; it is closed at the end. By default, frames are only recorded."""
        async for _ in socket:
            pass

    def received(self, kind: str | None = None) -> list[Any]:
        """Return the JSON of the clients' frames, of one type or of all."""
        return self._bodies("client", kind)

    def sent(self, kind: str | None = None) -> list[Any]:
        """Return the JSON of the server's frames, of one type or of all."""
        return self._bodies("server", kind)

    async def until_received(self, kind: str, count: int = 1) -> Any:
        """Wait for a client's frame of a type, and return its JSON.

        Args:
            kind: the type.
            count: how many such frames to wait for, counted from the start; the last is returned.
        """
        await self._log.until(lambda: len(self.received(kind)) >= count)
        return self.received(kind)[count - 1]

    async def until_sent(self, kind: str, count: int = 1) -> Any:
        """Wait for a server's frame of a type, and return its JSON.

        The arguments are those of `until_received`.
        """
        await self._log.until(lambda: len(self.sent(kind)) >= count)
        return self.sent(kind)[count - 1]

    def close_before(
        self, kind: str, code: int = ABNORMAL, *, reason: str = "", skip: int = 0
    ) -> None:
        """Close one connection instead of sending a frame.

        Args:
            kind: the type of the server's frame, such as `response.completed`.
            code: the close code; 1006 drops the connection without a closing frame.
            reason: the close reason.
            skip: how many frames of the type to let pass before, on any connection.
        """
        self._log.plan(_Break(type=kind, instead=True, code=code, reason=reason, skip=skip))

    def close_after(
        self, kind: str, code: int = ABNORMAL, *, reason: str = "", skip: int = 0
    ) -> None:
        """Close one connection after a frame, which may be the client's or the server's.

        A client's frame is recorded, and `serve` does not see it. The arguments are those of
        `close_before`.
        """
        self._log.plan(_Break(type=kind, instead=False, code=code, reason=reason, skip=skip))

    def refuse_connection(
        self, status: int, body: object = "", headers: Mapping[str, str] | None = None
    ) -> None:
        """Answer the next opening handshake with an HTTP status instead of opening a WebSocket.

        Args:
            status: the HTTP status, such as 401.
            body: the text of the response, or a value to send as JSON.
            headers: further headers of the response.
        """
        text = body if isinstance(body, str) else json.dumps(body)
        self._refusals.append(_Refusal(status=status, body=text, headers=headers or {}))

    async def __aenter__(self) -> Self:
        """Start to listen on a free port.

        Raises:
            ModuleNotFoundError: the extra `realtime` is not installed.
        """
        listen = cast("type[serve]", lazy.load("websockets.asyncio.server:serve"))
        self._server = await listen(
            self._connected,
            "127.0.0.1",
            0,
            compression=None,
            max_size=None,
            close_timeout=_CLOSE_SECONDS,
            ping_interval=None,
            process_request=self._opening,
        )
        self._port = next(iter(self._server.sockets)).getsockname()[1]
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Close all connections.

        Raises:
            Exception: the first error that `serve` raised, unless the test has failed anyway.
        """
        if self._server is not None:
            for task in self._tasks:
                task.cancel()
            self._server.close()
            await self._server.wait_closed()
        if error is None and self._failures:
            raise self._failures[0]

    def _bodies(self, sender: str, kind: str | None) -> list[Any]:
        frames = (frame for frame in self.frames if frame.sender == sender)
        return [frame.body for frame in frames if kind in {None, frame.type}]

    def _opening(self, connection: "ServerConnection", request: "Request") -> "Response | None":
        del request
        if not self._refusals:
            return None
        refusal = self._refusals.popleft()
        response = connection.respond(_UNAVAILABLE, refusal.body)
        response.status_code = refusal.status  # also one that the standard library does not know
        for name, value in refusal.headers.items():
            if name in response.headers:
                del response.headers[name]
            response.headers[name] = value
        return response

    async def _connected(self, connection: "ServerConnection") -> None:
        socket = ServerSocket(connection, len(self.sockets) + 1, self._log)
        self.sockets.append(socket)
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._tasks.add(task)
        try:
            await self.serve(socket)
        except SocketEnded:
            pass
        except asyncio.CancelledError:  # the test is over
            await socket.close(_GOING_AWAY)
        except Exception as failure:  # noqa: BLE001  raised at the end of the test
            self._failures.append(failure)
            await socket.close(_INTERNAL_ERROR)
        finally:
            self._tasks.discard(task)


@contextmanager
def _endings() -> Generator[None]:
    closed = cast("type[Exception]", lazy.load("websockets.exceptions:ConnectionClosed"))
    try:
        yield
    except closed as error:
        raise SocketEnded(str(error)) from None
