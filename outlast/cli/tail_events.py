"""A run as it is read along: what happened, under the numbers of its stream, and what models say.

Owns: putting the two into one sequence, and where to begin. Must not know: how it is shown.
Everything comes from the history and from heartbeats, so it needs no worker.
"""

from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from temporalio.client import Client

from outlast.cli.run_events import RunEvent, run_events
from outlast.client.deltas import with_deltas
from outlast.client.handle import RunHandle
from outlast.client.history import Progress
from outlast.client.stream import ApprovalStreamEvent, NumberedEvent, changes
from outlast.loop.state import RunState
from outlast.loop.values import JsonObject

_WITHOUT_NUMBER = frozenset({"failed", "ignored"})


@dataclass(frozen=True, slots=True)
class Happened:
    """An entry of the run.

    Attributes:
        number: what `--from-event` calls it; None for what the stream of a run does not number.
        event: what happened.
    """

    number: int | None
    event: RunEvent

    def record(self) -> JsonObject:
        """Return the entry as a line of JSON lines."""
        number = {} if self.number is None else {"id": self.number}
        return {**number, **self.event.record()}


@dataclass(frozen=True, slots=True)
class Said:
    """A piece of what a model says, as it says it.

    Attributes:
        agent: whose model.
        raw: the event of the provider's stream.
    """

    agent: str
    raw: JsonObject

    def record(self) -> JsonObject:
        """Return the piece as a line of JSON lines."""
        return {"type": "raw_response_event", "who": self.agent, "data": self.raw}


TailEvent: TypeAlias = Happened | Said


async def tail_events(
    client: Client, run_id: str, *, from_event: int = 0
) -> AsyncGenerator[TailEvent]:
    """Yield what has happened and what happens, until the run is closed.

    Args:
        client: connected to the run's server.
        run_id: which run.
        from_event: the number of the first entry wanted; what led to older ones is left out, too.

    Raises:
        RunNotFound: there is no such run.
    """
    before, number = RunState(), 0
    handle = RunHandle(client, run_id)
    async for one in with_deltas(handle.follow(), client, run_id):
        if not isinstance(one, Progress):
            if number >= from_event:
                yield Said(before.agent, one)
            continue
        for happened in _entries(one, before, number):
            if (number if happened.number is None else happened.number) >= from_event:
                yield happened
            number = number if happened.number is None else max(number, happened.number + 1)
        before = one.state
    if before.outcome is None:
        for event in await _end_past_the_loop(handle, before):
            yield Happened(None, event)


async def _end_past_the_loop(handle: RunHandle, last: RunState) -> list[RunEvent]:
    """Return how the engine ended a run, such as when somebody terminated it."""
    closed = (await handle.check()).close_time
    at_ms = int(closed.timestamp() * 1000) if closed is not None else 0
    return list(run_events(at_ms, last, await handle.state()))


def _entries(step: Progress, before: RunState, number: int) -> Iterator[Happened]:
    # Of a run whose first history is gone, nobody knows when it happened.
    at_ms = step.event.at_ms if step.event is not None else 0
    numbers = (
        change.id for change in sorted(changes(before, step.state, number), key=_after_decisions)
    )
    for event in run_events(at_ms, before, step.state):
        yield Happened(None if event.type in _WITHOUT_NUMBER else next(numbers, None), event)


def _after_decisions(change: NumberedEvent) -> bool:
    """The order in which people are told, as `run_events` has it."""
    return not (isinstance(change, ApprovalStreamEvent) and change.request.decision is not None)
