"""Server-sent events over HTTP: how live streams reach browsers and programs."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import AbstractContextManager, aclosing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from outlast.deliveries.problems import json_text
from outlast.serve.feed import FeedLimits
from outlast.serve.login import session_end
from outlast.views.records import Json

HEARTBEAT_SECONDS: Final = 15.0
"""Proxies close a connection on which nothing comes for a minute or less."""

SEND_SECONDS: Final = 30.0
"""How long one piece may take to be taken; a reader that is slower comes back by its position."""

_HEADERS: Final = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # nginx would keep the text until it is a few kilobytes
}


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event.

    Attributes:
        data: its content, as text.
        event: its type; empty for `message`.
        id: what a browser sends as `Last-Event-ID` when it comes back; None to leave it as it is.
    """

    data: str
    event: str = ""
    id: str | None = None

    def encoded(self) -> bytes:
        """Return the event as it is sent. No text can end it early or begin another one."""
        lines = [f"event: {_line(self.event)}"] if self.event else []
        lines += [f"id: {_line(self.id)}"] if self.id is not None else []
        # Also splits at the other line ends that readers know.
        data = self.data.replace("\r\n", "\n").replace("\r", "\n")
        lines += [f"data: {one}" for one in data.split("\n")]
        return ("\n".join(lines) + "\n\n").encode("utf-8", "replace")


def _line(text: str) -> str:
    return "".join(text.splitlines()).replace("\0", "")


def json_event(value: Json, *, event: str = "", cursor: str | None = None) -> ServerSentEvent:
    """Return an event whose data is JSON."""
    data = json_text(value, ascii_only=False)
    return ServerSentEvent(data, event, cursor)


class EventStream(Response):
    """Sends events as they come, and ends with its events, its reader or its time.

    Args:
        events: the events; closed at the end.
        until: when the stream ends in any case, in the time of the event loop; None for never.
        headers: further headers.
    """

    def __init__(
        self,
        events: AsyncGenerator[ServerSentEvent],
        *,
        until: float | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(None, headers={**_HEADERS, **(headers or {})})
        del self.headers["Content-Length"]
        self._events = events
        self._until = until
        self._counted: AbstractContextManager[None] = nullcontext()

    def count_in(self, counted: AbstractContextManager[None]) -> None:
        """Be counted among the streams while it is sent."""
        self._counted = counted

    async def aclose(self) -> None:
        """Close a stream that is not sent."""
        await self._events.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream, no longer than the session of its reader lasts."""
        with self._counted:
            await self._run(scope, receive, send)

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("method") == "HEAD":
            await self._events.aclose()
            await Response(None, headers=dict(self.headers))(scope, receive, send)
            return
        if (ends_at := session_end(scope)) is not None:
            now = asyncio.get_running_loop().time()
            until = now + max(0.0, ends_at - time.time())
            self._until = until if self._until is None else min(until, self._until)
        reader = asyncio.create_task(_gone(receive))
        sender = asyncio.create_task(self._send(send))
        try:
            await asyncio.wait({reader, sender}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            reader.cancel()
            sender.cancel()
            await asyncio.gather(reader, sender, return_exceptions=True)
        if sender.done() and not sender.cancelled() and (error := sender.exception()) is not None:
            raise error

    async def _send(self, send: Send) -> None:
        headers = self.raw_headers
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await _piece(send, b": outlast\n\n")  # a proxy passes the headers on with the first bytes
        async with aclosing(self._events):
            try:
                async with asyncio.timeout_at(self._until):
                    async for piece in _with_heartbeats(self._events):
                        await _piece(send, piece)
            except TimeoutError:
                pass  # the reader is too slow, or its time is over
        with suppress(TimeoutError):  # of a reader that takes nothing at all
            async with asyncio.timeout(SEND_SECONDS):
                await send({"type": "http.response.body", "body": b"", "more_body": False})


async def stream_of(
    events: AsyncGenerator[ServerSentEvent], *, until: float | None = None
) -> EventStream:
    """Return a stream without its first event, before which a problem is an answer of its own."""
    await anext(events)
    return EventStream(events, until=until)


async def _piece(send: Send, body: bytes) -> None:
    async with asyncio.timeout(SEND_SECONDS):
        await send({"type": "http.response.body", "body": body, "more_body": True})


async def _with_heartbeats(events: AsyncIterator[ServerSentEvent]) -> AsyncGenerator[bytes]:
    """Yield events as bytes, and a comment where none comes for a while."""
    waiting = asyncio.ensure_future(anext(events, None))
    try:
        while True:
            done, _ = await asyncio.wait({waiting}, timeout=HEARTBEAT_SECONDS)
            if not done:
                yield b": waiting\n\n"
                continue
            event = waiting.result()
            if event is None:
                return
            yield event.encoded()
            waiting = asyncio.ensure_future(anext(events, None))
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    """Wait until the reader has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


class Streams:
    """Counts the streams that a process sends, of every kind: of all, and of each reader.

    Args:
        limits: how many there may be.
    """

    def __init__(self, limits: FeedLimits | None = None) -> None:
        self.limits = limits or FeedLimits()
        self._of: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._of.total()

    def of(self, reader: str) -> int:
        """Return how many streams a reader has."""
        return self._of[reader]

    @property
    def are_full(self) -> bool:
        """Whether no further stream may begin."""
        return len(self) >= self.limits.streams

    @contextmanager
    def counted(self, reader: str) -> Generator[None]:
        """Count a stream of a reader while it is sent."""
        self._of[reader] += 1
        try:
            yield
        finally:
            self._of[reader] -= 1
            self._of += Counter()  # forgets who has none
