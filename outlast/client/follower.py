"""Follows a run at a terminal, by its history and heartbeats: no worker is needed."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias, cast

from temporalio.client import Client, WorkflowExecutionDescription
from temporalio.service import RPCError

from outlast.archive import workflow_handle
from outlast.client.costs import CostFold
from outlast.client.handle import RunHandle, past_progress, progress_of
from outlast.client.moments import RunEvent, redacted, run_events
from outlast.client.read.delta_poller import with_deltas
from outlast.client.read.history import Progress
from outlast.client.read.read_range import CaughtUp, HistoryPlace, is_settled
from outlast.client.read.run_end import result_or_raise
from outlast.client.results.result_members import NOBODY
from outlast.client.results.run_result import RunResult
from outlast.edges.tasks import meanwhile
from outlast.loop.state import LoopState
from outlast.loop.values import JsonObject
from outlast.views.redaction import NOTHING, redaction_of
from outlast.views.run import RunSnapshot, loop_state, snapshot_of
from outlast.views.transcript import without_call_texts

if TYPE_CHECKING:
    from temporalio.api.failure.v1 import Failure

RETRY_CHECK_INTERVAL = timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that happened in the run.

    Attributes:
        number: the entry's number in the run's stream, which `tail --from-event` takes; None for
            entries that the stream does not have.
    """

    number: int | None
    event: RunEvent

    def record(self) -> JsonObject:
        """Return the entry as a line of JSON lines."""
        number = {} if self.number is None else {"id": self.number}
        return {**number, **self.event.record()}


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a model's reply, while the model writes it."""

    agent: str
    raw: JsonObject

    def record(self) -> JsonObject:
        """Return the piece as a line of JSON lines."""
        return {"type": "raw_response_event", "who": self.agent, "data": self.raw}


TailEvent: TypeAlias = Entry | Delta


@dataclass(frozen=True, slots=True)
class FollowedState:
    """The run's next state, its place in the history, and the entries that led to it."""

    state: RunSnapshot
    entries: tuple[Entry, ...]
    place: HistoryPlace


@dataclass(frozen=True, slots=True)
class Retry:
    """A failed attempt of an effect that Temporal retries."""

    activity: str
    attempt: int
    reason: str

    def __str__(self) -> str:
        reason = self.reason.rstrip()
        if not reason.endswith((".", "!", "?")):
            reason += "."
        return f"{self.activity}, attempt {self.attempt} failed: {reason} It will be retried."


class Follower:
    """Follows one run.

    Attributes:
        state: its state as far as it was read.
        lost: the histories that neither the server nor the archive has, each the last of a gap.
    """

    def __init__(self, client: Client, run_id: str) -> None:
        self.state = RunSnapshot()
        self.lost: tuple[str, ...] = ()
        self._hides = NOTHING  # what the run hides at the present, for what was said before
        self._client = client
        self._run_id = run_id

    async def steps(self, *, from_start: bool = True) -> AsyncGenerator[FollowedState]:
        """Yield each state of the run with its entries, until the run is closed.

        Without `from_start`, begin with its newest history, whose first state has no entries.
        """
        progress = progress_of(RunHandle(self._client, self._run_id), from_start=from_start)
        async with aclosing(self._read(progress, from_start=from_start)) as read:
            async for entry in read:
                if isinstance(entry, FollowedState):
                    yield entry

    async def tail(self, *, from_event: int = 0) -> AsyncGenerator[TailEvent]:
        """Yield entries from a number on, with deltas before replies, until the run is closed."""
        number = 0
        self._hides = redaction_of(await RunHandle(self._client, self._run_id).state())
        progress = progress_of(RunHandle(self._client, self._run_id))
        both = with_deltas(progress, self._client, self._run_id)
        async with aclosing(self._read(both, from_start=True)) as read:
            async for one in read:
                if isinstance(one, Delta):
                    if number >= from_event:
                        yield one
                    continue
                for entry in one.entries:
                    if (number if entry.number is None else entry.number) >= from_event:
                        yield entry
                    number = _after(number, entry)

    async def events(
        self,
        until: Callable[[RunSnapshot], bool],
        *,
        since: Callable[[RunSnapshot], bool] | None = None,
    ) -> AsyncGenerator[RunEvent]:
        """Yield events, from `since` on, until a condition holds or the run is closed.

        `until` is not checked on past states: a run that once waited for a person and was approved
        long ago does not count as waiting.
        """
        state, place = await RunHandle(self._client, self._run_id).present()
        self._hides = redaction_of(state)
        present = CaughtUp(place, from_start=since is None)
        async with aclosing(self.steps(from_start=since is None)) as steps:
            async for step in steps:
                if since is None or since(step.state):
                    for entry in step.entries:
                        yield entry.event
                if present.is_reached(step.place) and until(step.state):
                    return

    async def past(self, costs: CostFold) -> tuple[RunSnapshot, tuple[RunEvent, ...]]:
        """Return the run's present state, and everything that happened so far.

        Args:
            costs: collects the costs.
        """

        async def counted() -> AsyncGenerator[Progress]:
            async with aclosing(past_progress(RunHandle(self._client, self._run_id))) as steps:
                async for progress in steps:
                    costs.take(progress)
                    yield progress

        async with aclosing(self._read(counted(), from_start=True)) as read:
            found = [
                entry.event
                async for one in read
                if isinstance(one, FollowedState)
                for entry in one.entries
            ]
        hides = redaction_of(self.state)
        return self.state, tuple(redacted(event, hides) for event in found)

    async def result(self) -> RunResult:
        """Return the result of the run after the events read so far."""
        state = loop_state(self.state)
        if not is_settled(state):
            return await RunHandle(self._client, self._run_id).result()
        return result_or_raise(state, NOBODY, None)

    @asynccontextmanager
    async def report_retries(self, report: Callable[[Retry], None]) -> AsyncGenerator[None]:
        """Call `report` once for each failed attempt while the block runs.

        A wrong address or key is retried for minutes: without a report the command seems to hang.
        """

        async def report_new() -> None:
            reported: set[tuple[str, int]] = set()
            while True:
                await asyncio.sleep(RETRY_CHECK_INTERVAL.total_seconds())
                with suppress(RPCError):
                    for activity_id, retry in await self._retries():
                        if (activity_id, retry.attempt) not in reported:
                            reported.add((activity_id, retry.attempt))
                            report(retry)

        with meanwhile(report_new()):
            yield

    async def _read(
        self, source: AsyncIterator[Progress | JsonObject], *, from_start: bool
    ) -> AsyncGenerator[FollowedState | Delta]:
        before, number, silent = LoopState(), 0, not from_start
        try:
            async for update in source:
                if not isinstance(update, Progress):
                    piece = cast("JsonObject", self._hides.json(without_call_texts(update)))
                    yield Delta(before.agent, piece)
                    continue
                entries = () if silent else tuple(self._entries(update, before, number))
                for entry in entries:
                    number = _after(number, entry)
                self.lost += (update.lost,) if update.lost else ()
                before, self.state = update.state, snapshot_of(update.state)
                if len((newest := redaction_of(update.state)).texts) > len(self._hides.texts):
                    self._hides = newest
                silent = False
                yield FollowedState(self.state, entries, update.place)
        finally:
            if isinstance(source, AsyncGenerator):
                await source.aclose()

    def _entries(self, step: Progress, before: LoopState, number: int) -> Iterator[Entry]:
        # The first state of a run whose first history was deleted has no event, and so no time.
        at_ms = step.event.at_ms if step.event is not None else 0
        for event in run_events(at_ms, before, step.state, step.event):
            place = None if event.place is None else number + event.place
            yield Entry(place, redacted(event, self._hides))

    async def _retries(self) -> list[tuple[str, Retry]]:
        return retries_of(await workflow_handle(self._client, self._run_id).describe())


def retries_of(description: WorkflowExecutionDescription) -> list[tuple[str, Retry]]:
    """Return the newest failed attempt of each effect that is retried, with its activity's id."""
    return [
        (info.activity_id, Retry(info.activity_type.name, info.attempt - 1, _reason(failure)))
        for info in description.raw_description.pending_activities
        if info.attempt > 1 and info.HasField("last_failure")
        for failure in (info.last_failure,)
    ]


def _after(number: int, entry: Entry) -> int:
    return number if entry.number is None else max(number, entry.number + 1)


def _reason(failure: "Failure") -> str:
    if failure.HasField("server_failure_info") and failure.HasField("cause"):
        failure = failure.cause
    return failure.message
