"""WebSockets to one server, kept open between the requests of runs.

A server keeps the last response of a connection, so that the next request can continue it with new
items only. The pool gives a request the socket with the response that it continues, and else one
that no other run is about to continue. Only requests with equal routes share a socket: the route
holds the address and every header, so the key and the organization, too.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from outlast.agents.json_values import as_object, as_text
from outlast.loop.values import JsonObject

if TYPE_CHECKING:
    from ssl import SSLContext

    from openai.resources.responses.responses import AsyncResponsesConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    """How many sockets a pool has, and for how long.

    Attributes:
        idle_s: how long a socket may be unused.
        age_s: how old a socket may be when a request begins; OpenAI closes it after an hour.
        reserved_s: how long a socket waits for the outputs of the tools that its response calls,
            before requests of other runs may use it.
    """

    sockets: int = 100
    idle_s: float = 300.0
    age_s: float = 55 * 60.0
    reserved_s: float = 30.0


DEFAULT_LIMITS: Final = PoolLimits()

_KEY_HEADERS: Final = ("authorization", "api-key")

_BEGINNING: Final = "response.created"
"""The type of a response's first event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldResponse:
    """The response that a server holds for a connection.

    Attributes:
        response_id: the provider's id.
        model: the model that made it.
        items: the digests of the items of the request and the response; None if the request
            itself continued a response, so that only a request which names this one continues it.
        calls_tools: whether the next request is going to bring outputs.
        is_only_here: whether no other connection can continue it, because it is not stored.
    """

    response_id: str
    model: object
    items: Sequence[bytes] | None
    calls_tools: bool
    is_only_here: bool


class Socket:
    """One connection, which carries one response at a time.

    A server may send events of an ended response again. Taken for those of the next response, they
    would answer its request. So events are matched by the id of their response, and a socket with
    an event of another one is not used any more.
    """

    def __init__(self, connection: "AsyncResponsesConnection", route: Hashable) -> None:
        self.route = route
        self.held: HeldResponse | None = None
        self.opened_at: float = asyncio.get_running_loop().time()
        self.reserved_until: float = 0.0
        self.is_reusable = True
        self.is_free: asyncio.Event = asyncio.Event()
        self.expiry: asyncio.TimerHandle | None = None
        self._connection = connection
        self._current: str | None = None
        self._ended: set[str] = set()

    def was_opened_with(self, key: str | None) -> bool:
        """Whether the connection was opened with a key; None stands for any."""
        if key is None:
            return True
        opened = self._connection._connection.request  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        return opened is not None and any(
            key in opened.headers.get(name, "") for name in _KEY_HEADERS
        )

    def has(self, response_id: str) -> bool:
        """Whether the connection holds a response, or is receiving it."""
        return response_id in {self._current, self.held and self.held.response_id}

    async def send(self, text: str) -> None:
        """Send the text frame of a request; the response before has ended."""
        if self._current:
            self._ended.add(self._current)
        self._current = None
        await self._connection.send_raw(text)

    def belongs(self, event: JsonObject) -> bool:
        """Whether an event is not known to be of another response; most do not name theirs."""
        response_id = response_id_of(event)
        if response_id is None:
            if self._current is None and event.get("type") == _BEGINNING:
                self._current = ""
            is_before = self._current is None and bool(self._ended)
            return not (is_before and is_of_response(event))
        if not self._current and response_id not in self._ended:
            self._current = response_id
        return response_id == self._current

    async def receive(self) -> bytes:
        """Return the data of the next frame."""
        return await self._connection.recv_bytes()

    async def is_usable(self) -> bool:
        """Whether the connection is still open, and the ended response has no more events.

        Other frames that have come since are dropped.
        """
        from pydantic_core import from_json
        from websockets.exceptions import ConnectionClosed

        try:
            async with asyncio.timeout(0):
                while True:
                    event = as_object(from_json(await self._connection.recv_bytes()))
                    if event is None or is_of_response(event):
                        return False
        except TimeoutError:
            return True
        except (ValueError, ConnectionClosed):
            return False

    async def close(self) -> None:
        """Close the connection in any state."""
        with suppress(Exception):
            await self._connection.close()


def is_of_response(event: JsonObject) -> bool:
    """Whether an event concerns a response, by its type."""
    return str(event.get("type")).startswith("response.")


def response_id_of(event: JsonObject) -> str | None:
    """Return the id of an event's response, if the event names it."""
    response = as_object(event.get("response")) or {}
    return as_text(response.get("id")) or as_text(event.get("response_id"))


class SocketPool:
    """The sockets of one event loop; `continues` is false once a server has refused to continue."""

    def __init__(self, limits: PoolLimits = DEFAULT_LIMITS) -> None:
        self.continues = True
        self.ssl: SSLContext | None = None
        self._limits = limits
        self._places = asyncio.Semaphore(limits.sockets)
        self._idle: list[Socket] = []  # the least recently used first
        self._busy: set[Socket] = set()
        self._opening = 0
        self._is_closed = False
        self._closing: set[asyncio.Task[None]] = set()

    async def acquire(
        self,
        route: Hashable,
        *,
        fits: Callable[[HeldResponse], bool] | None,
        connect: Callable[[], Awaitable["AsyncResponsesConnection"]],
        only_with: str | None = None,
    ) -> Socket:
        """Return a socket for one request, which no other request uses meanwhile.

        It waits while every place is taken. The caller returns the socket with `release` or `drop`.

        Args:
            route: only a socket that was opened with an equal route is used.
            fits: whether the request continues the response that a socket holds; None means that
                the request needs a new socket.
            connect: opens a connection.
            only_with: the id of a response that no other connection can continue: while the socket
                with it is busy, the request waits.
        """
        while True:
            await self._places.acquire()
            busy = self._busy_with(route, only_with)
            if busy is None:
                break
            self._places.release()
            await busy.is_free.wait()
        try:
            socket = None if fits is None else await self._acquire_idle(route, fits)
            if socket is None:
                socket = await self._open(route, connect)
        except BaseException:  # also cancelled: the place is free again
            self._places.release()
            raise
        self._busy.add(socket)
        socket.is_free.clear()
        return socket

    def release(self, socket: Socket) -> None:
        """Keep a socket with a complete response for a later request."""
        if socket not in self._busy:
            return  # the pool was closed
        self._set_free(socket)
        loop = asyncio.get_running_loop()
        left_s = socket.opened_at + self._limits.age_s - loop.time()
        if left_s <= 0 or self._is_closed or not socket.is_reusable:
            self._close(socket)
            return
        socket.expiry = loop.call_later(min(self._limits.idle_s, left_s), self._discard, socket)
        socket.reserved_until = self._reserved_until(socket)
        self._idle.append(socket)

    def drop(self, socket: Socket) -> None:
        """Close a socket after a failed or abandoned request, without waiting."""
        if socket in self._busy:
            self._set_free(socket)
        self._close(socket)

    async def aclose(self) -> None:
        """Close all sockets, also those with a request; one that is being opened closes after it."""
        self._is_closed = True
        for socket in list(self._idle):
            self._discard(socket)
        for socket in list(self._busy):
            self.drop(socket)
        await asyncio.gather(*self._closing)

    async def _acquire_idle(
        self, route: Hashable, fits: Callable[[HeldResponse], bool]
    ) -> Socket | None:
        while (socket := self._find(route, fits)) is not None:
            self._remove(socket)
            self._busy.add(socket)  # another request may have to wait for it
            socket.is_free.clear()
            is_usable = False
            try:
                is_usable = await socket.is_usable() and not self._is_closed
            finally:
                if not is_usable:
                    self._busy.discard(socket)
                    socket.is_free.set()
                    self._close(socket)
            if is_usable:
                return socket
        return None

    def _busy_with(self, route: Hashable, response_id: str | None) -> Socket | None:
        if response_id is None:
            return None
        same_route = (socket for socket in self._busy if socket.route == route)
        return next((socket for socket in same_route if socket.has(response_id)), None)

    def _set_free(self, socket: Socket) -> None:
        self._busy.remove(socket)
        self._places.release()
        socket.is_free.set()

    def _reserved_until(self, socket: Socket) -> float:
        """Return when requests that do not continue the socket's response may use it."""
        held = socket.held
        if held is None or not held.calls_tools:
            return 0.0
        reserved_s = self._limits.idle_s if held.is_only_here else self._limits.reserved_s
        return asyncio.get_running_loop().time() + reserved_s

    async def _open(
        self, route: Hashable, connect: Callable[[], Awaitable["AsyncResponsesConnection"]]
    ) -> Socket:
        if self._is_full():
            self._discard(self._idle[0])  # there is one, because this request has a place
        self._opening += 1
        try:
            return Socket(await connect(), route)
        finally:
            self._opening -= 1

    def _is_full(self) -> bool:
        return len(self._idle) + len(self._busy) + self._opening >= self._limits.sockets

    def _find(self, route: Hashable, fits: Callable[[HeldResponse], bool]) -> Socket | None:
        same_route = [socket for socket in self._idle if socket.route == route]
        for socket in reversed(same_route):
            if socket.held is not None and fits(socket.held):
                return socket
        now = asyncio.get_running_loop().time()
        free = [socket for socket in same_route if socket.reserved_until <= now]
        if self._is_full():
            free = free or same_route
        return free[0] if free else None

    def _discard(self, socket: Socket) -> None:
        self._remove(socket)
        self._close(socket)

    def _remove(self, socket: Socket) -> None:
        self._idle.remove(socket)
        if socket.expiry is not None:
            socket.expiry.cancel()
            socket.expiry = None

    def _close(self, socket: Socket) -> None:
        task = asyncio.get_running_loop().create_task(socket.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
