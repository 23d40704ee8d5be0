"""Reading a model's stream of events in a test."""

from collections.abc import AsyncIterator

from outlast.loop.values import JsonObject
from outlast.ports.model import ModelError


async def collect(events: AsyncIterator[JsonObject]) -> list[JsonObject]:
    return [event async for event in events]


async def collect_until_failure(
    events: AsyncIterator[JsonObject],
) -> tuple[list[JsonObject], ModelError]:
    """Return what a stream said before it failed, and the failure."""
    said: list[JsonObject] = []
    try:
        async for event in events:
            said.append(event)  # noqa: PERF401 - a comprehension would lose what came first
    except ModelError as error:
        return said, error
    raise AssertionError(f"the stream did not fail; it said {said}")
