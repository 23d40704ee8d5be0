"""Connections of the desk's own server: how many there are, and how slow a client may be.

Uvicorn waits for the head of a request, and for a client to take an answer, without end. A client
that sends a byte now and then, or reads nothing, would keep a connection as long as it likes.
"""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from outlast.agents.errors import UserError
from outlast.agents.logs import get_logger

try:
    import resource
except ImportError:  # pragma: no cover  Windows has no limit of files
    resource = None

logger: Final = get_logger(__name__)

SMALLEST_STEP: Final = 32_768
"""How many bytes of an answer a client takes, or all of it, within the time that it has."""

OWN_FILES: Final = 200
"""How many files the process opens beside its connections: its own, and those that come in at once."""

BACKLOG: Final = 64
"""How many connections come in at once, before the first of them is counted."""

_RETRY_SECONDS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """How many connections the desk's own server takes, and how slow their clients may be.

    Attributes:
        connections: how many there are at once. Where one more comes, the one ends that has sent no
            request for the longest time; if all have one in work, the new one is refused.
        head: how long a client may take for the head of a request.
        stalled: how long a client may take nothing of an answer.
    """

    connections: int = 2_000
    head: timedelta = timedelta(seconds=10)
    stalled: timedelta = timedelta(seconds=30)

    def __post_init__(self) -> None:
        """Check the bounds.

        Raises:
            UserError: one of them is not positive.
        """
        for name in ("connections", "head", "stalled"):
            if not getattr(self, name) > type(getattr(self, name))(0):
                raise UserError(f"ConnectionLimits({name}=) must be positive.")


class Connections:
    """The connections of one server.

    Args:
        limits: their bounds; fewer connections count where the process may not open as many files.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.most = min(limits.connections, _files(limits.connections + OWN_FILES) - OWN_FILES)
        self._open: set[BoundedConnection] = set()
        self._waiting: dict[BoundedConnection, float] = {}  # those without a request, oldest first

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, one: "BoundedConnection") -> bool:
        """Take a new connection; return whether there is room for it."""
        if len(self._open) >= self.most:
            if not self._waiting:
                return False
            idle = (one for one in self._waiting if not one.is_sending)
            self._end(next(idle, None) or next(iter(self._waiting)))
        self._open.add(one)
        self.waits(one)
        return True

    def waits(self, one: "BoundedConnection") -> None:
        """Note that a connection waits for a request from now on."""
        if one in self._open:
            self._waiting.pop(one, None)
            self._waiting[one] = one.loop.time()

    def works(self, one: "BoundedConnection") -> None:
        """Note that a connection has a request in work."""
        self._waiting.pop(one, None)

    def forget(self, one: "BoundedConnection") -> None:
        """Forget a connection that has ended."""
        self._open.discard(one)
        self._waiting.pop(one, None)

    def end_silent(self, now: float) -> None:
        """End the connections whose clients are too slow with the head of a request."""
        for one, since in tuple(self._waiting.items()):
            if now - since < self.limits.head.total_seconds():
                break
            if one.is_sending:
                self.waits(one)  # the time begins when the client has the answer before
            else:
                self._end(one)

    def end_stalled(self, now: float) -> None:
        """End the connections whose clients do not take their answers."""
        for one in tuple(self._open):
            if one.stands_since(now) <= now - self.limits.stalled.total_seconds():
                self._end(one)

    def _end(self, one: "BoundedConnection") -> None:
        self.forget(one)
        one.end()


class BoundedConfig(uvicorn.Config):
    """The configuration of a server with bounded connections."""

    def __init__(self, app: Any, connections: Connections, **options: Any) -> None:
        super().__init__(app, http=BoundedConnection, ws="none", backlog=BACKLOG, **options)
        self.connections = connections


class BoundedConnection(H11Protocol):
    """A connection of HTTP, as Uvicorn has it, with bounds."""

    def __init__(self, config: uvicorn.Config, *args: Any, **options: Any) -> None:
        super().__init__(config, *args, **options)
        self._all = cast("BoundedConfig", config).connections
        self._mark = 0
        self._marked_at = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Take the connection, or refuse it."""
        super().connection_made(transport)
        self._marked_at = self.loop.time()
        if not self._all.admit(self):
            self._refuse(503, "This desk has as many connections as it may. Try again in a moment.")

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._all.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on; the time of a head ends with it."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self._has_request():
            self._all.works(self)

    def on_response_complete(self) -> None:
        """Wait for the next request, which may be there."""
        super().on_response_complete()
        if not self._has_request():
            self._all.waits(self)

    @property
    def is_sending(self) -> bool:
        """Whether the client has not taken all that it was sent."""
        return self.transport.get_write_buffer_size() > 0

    def end(self) -> None:
        """End the connection; who has sent half a head reads why."""
        if not self._has_request() and self.conn.trailing_data[0]:
            self._refuse(408, "The request did not come in time.")
        self.transport.abort()

    def stands_since(self, now: float) -> float:
        """Return since when the client has taken nothing of what it was sent; now if it reads."""
        size = self.transport.get_write_buffer_size()
        if not (size and self._mark) or size <= self._mark - SMALLEST_STEP:
            self._mark, self._marked_at = size, now
        self._mark = max(self._mark, size)
        return self._marked_at

    def _has_request(self) -> bool:
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete

    def _should_upgrade(self) -> bool:
        return False  # there are no web sockets, and a line of the log for each is for nobody

    def _refuse(self, status: int, words: str) -> None:
        retry = f"Retry-After: {_RETRY_SECONDS}\r\n" if status == 503 else ""
        phrase = {408: "Request Timeout", 503: "Service Unavailable"}[status]
        head = (
            f"HTTP/1.1 {status} {phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n{retry}"
            f"Content-Length: {len(words)}\r\nConnection: close\r\n\r\n"
        )
        self.transport.write(f"{head}{words}".encode())
        self.transport.close()


def _files(wanted: int) -> int:
    """Let the process open so many files, if it may; return how many it may open."""
    if resource is None:  # pragma: no cover
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        if most < wanted:
            found = max(most, OWN_FILES + 1)
            logger.warning(
                "This process may open %d files, so the desk takes %d connections at once. "
                "Allow more with `ulimit -n`.",
                most,
                found - OWN_FILES,
            )
            return found
    return wanted
