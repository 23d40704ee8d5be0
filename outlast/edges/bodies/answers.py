"""Counts what servers answer to an HTTP client of `httpx2` before anybody parses it."""

import re
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import httpx2

from outlast.edges.bodies import BodyRefused, Door, Scan

_EVENT_END: Final = re.compile(rb"\r?\n\r?\n")


class AnswerTooLarge(httpx2.StreamError):
    """An answer goes beyond the limits of its door."""


class _CountedAnswer(httpx2.AsyncByteStream):
    """Counts an answer as it is read.

    Args:
        stream: the answer.
        door: the limits.
        is_events: whether it is a stream of events, each of which has the limits for itself.
    """

    def __init__(self, stream: Any, door: Door, *, is_events: bool) -> None:
        self._stream = stream
        self._door = door
        self._is_events = is_events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        scan = Scan(self._door)
        async for chunk in self._stream:
            try:
                *ended, rest = _EVENT_END.split(chunk) if self._is_events else [chunk]
                for one in ended:
                    scan.feed(one)
                    scan = Scan(self._door)
                scan.feed(rest)
            except BodyRefused as error:
                kind = httpx2.SSEError if self._is_events else AnswerTooLarge
                raise kind(str(error)) from None
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _ask_for_plain(request: Any) -> None:
    # A compressed answer could be a thousand times as large as what was counted.
    request.headers["Accept-Encoding"] = "identity"


def bound_answers(client: Any, door: Door) -> Callable[[], None]:
    """Bound the answers to a client, and return what ends that.

    Reading an answer beyond the limits raises `AnswerTooLarge`, or httpx2's `SSEError` in a stream
    of events; an answer that is compressed raises httpx2's `DecodingError`.
    """

    async def count(response: Any) -> None:
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            raise httpx2.DecodingError(
                "The server compresses its answer, although it was asked not to. Switch its "
                "compression off.",
                request=response.request,
            )
        kind = response.headers.get("content-type", "").lower()
        is_events = kind.startswith("text/event-stream")
        response.stream = _CountedAnswer(response.stream, door, is_events=is_events)

    def end() -> None:
        client.event_hooks["request"].remove(_ask_for_plain)
        client.event_hooks["response"].remove(count)

    client.event_hooks["request"].append(_ask_for_plain)
    client.event_hooks["response"].append(count)
    return end
