"""One conversation whose workers are killed at chosen moments, and what is left of it.

Owns: a run with its own id, task queue, shop and workers; the moments; the report. Must not know:
what the report has to look like.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

from support_desk.shop import Shop
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHandle

from outlast import RunHandle
from outlast.client.handle import progress_of
from outlast.loop.state import LoopState
from outlast.views.run import loop_state
from tests.crash.conversation import DESK, Talk
from tests.crash.desk_worker import DeskSettings, DeskWorker
from tests.workflow.laws import nested_runs, snapshot_of

TRIAL_SECONDS = 300
"""Longer than a busy machine needs for ten conversations at once; only a failing one waits for it."""
LANES = 10
"""How many conversations are held at the same time."""
_LOOK_SECONDS = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Nested:
    """What is left of a nested run: folded from its history, as the workflow has it, and raw."""

    state: LoopState
    own_state: LoopState
    events: list[HistoryEvent]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is left of a conversation.

    Attributes:
        state: the run, folded from its history.
        own_state: the run as the workflow has it.
        followed_state: the run as somebody saw it who followed it from its start.
        outcome: what has to be the same in every run.
        ledger_keys: the keys of the side effects there were, in order.
        expected_keys: the keys of those there should have been.
        nested: the same of the runs nested in it.
        events: the whole history.
        killed_at: how long the history was when each worker had been killed.
    """

    state: LoopState
    own_state: LoopState
    followed_state: LoopState
    outcome: Any
    ledger_keys: list[str]
    expected_keys: list[str]
    nested: "list[Nested]"
    events: list[HistoryEvent]
    killed_at: list[int]

    def count(self, kind: EventType.ValueType) -> int:
        """Return how many events of a kind the history has."""
        return count(self.events, kind)

    @property
    def repeated_activities(self) -> list[str]:
        """The types of the activities that took more than one attempt."""
        names = activity_types(self.events)
        return [
            names[started.scheduled_event_id]
            for event in self.events
            if (started := event.activity_task_started_event_attributes).attempt > 1
        ]


@dataclass(slots=True, kw_only=True)
class Trial:
    """A conversation that has not been held yet.

    Attributes:
        client: connected to the server.
        address: the server, for the workers.
        model_url: the model's base URL, for the workers.
        folder: where its shop and its workers' logs are.
        talk: what is said, and who serves it.
        tool_delay: how long a side effect takes, half of it before its commit.
    """

    client: Client
    address: str
    model_url: str
    folder: Path
    talk: Talk = DESK
    tool_delay: timedelta = timedelta(milliseconds=200)
    run_id: str = field(default_factory=lambda: f"crash-{secrets.token_hex(4)}")
    killed_at: list[int] = field(default_factory=list[int])

    @property
    def workflow(self) -> WorkflowHandle[Any, Any]:
        """The run as Temporal has it."""
        return self.client.get_workflow_handle(self.run_id)

    @property
    def database(self) -> Path:
        """The shop."""
        return self.folder / f"{self.run_id}.db"

    @property
    def log(self) -> Path:
        """What its workers wrote to their standard error."""
        return self.folder / f"{self.run_id}.log"

    async def hold(
        self,
        kills: "Sequence[Moment]" = (),
        *,
        instead: Callable[[], Awaitable[None]] | None = None,
    ) -> Report:
        """Hold the conversation, killing a worker at each moment and starting another.

        Args:
            kills: the moments, in order.
            instead: what is done at each moment instead. What goes wrong in the conversation ends
                the trial at once, also while a moment is waited for.

        Raises:
            AssertionError: a moment never came.
            TimeoutError: the conversation does not end.
        """
        async with asyncio.timeout(TRIAL_SECONDS), AsyncExitStack() as workers:
            worker = await workers.enter_async_context(self._worker())
            handle = await self.talk.begin(self.client, self.run_id, self.run_id, self.database)
            talking = asyncio.create_task(self.talk.carry_on(self.client, handle))
            following = asyncio.create_task(_follow(handle))
            try:
                for kill in kills:
                    await self._await_moment(kill, talking)
                    if instead is not None:
                        await instead()
                        continue
                    await worker.kill()
                    assert worker.was_killed
                    self.killed_at.append(await self.history_length())
                    worker = await workers.enter_async_context(self._worker())
                await talking
                return await self._report(handle, await following)
            finally:
                talking.cancel()
                following.cancel()

    async def history_length(self) -> int:
        """Return how many events the history has now."""
        return (await self.workflow.describe()).history_length

    def _worker(self) -> DeskWorker:
        return DeskWorker(
            DeskSettings(
                address=self.address,
                task_queue=self.run_id,
                model_url=self.model_url,
                database=self.database,
                tool_delay=self.tool_delay,
                log=self.log,
            ),
            self.talk.serve,
        )

    async def _await_moment(self, moment: "Moment", talking: asyncio.Task[None]) -> None:
        watching = asyncio.create_task(moment(self))
        try:
            await asyncio.wait({watching, talking}, return_when=asyncio.FIRST_COMPLETED)
            if talking.done():
                talking.result()
            assert await watching, f"{self.run_id} ended before the moment came"
        finally:
            watching.cancel()

    async def _report(self, handle: RunHandle, followed_state: LoopState) -> Report:
        state = await handle.state()
        events = list((await self.workflow.fetch_history()).events)
        nested = [await self._nested(one) for one in nested_runs(events)]
        return Report(
            state=loop_state(state),
            own_state=await snapshot_of(self.workflow),
            followed_state=followed_state,
            outcome=await self.talk.outcome_of(loop_state(state), self.database),
            ledger_keys=self.talk.ledger_keys(self.database),
            expected_keys=self.talk.keys_of([loop_state(state), *(one.state for one in nested)]),
            nested=nested,
            events=events,
            killed_at=self.killed_at,
        )

    async def _nested(self, run_id: str) -> Nested:
        history = await self.client.get_workflow_handle(run_id).fetch_history()
        return Nested(
            state=loop_state(await RunHandle(self.client, run_id).state()),
            own_state=await snapshot_of(self.client.get_workflow_handle(run_id)),
            events=list(history.events),
        )


async def _follow(handle: RunHandle) -> LoopState:
    state = LoopState()
    async for progress in progress_of(handle):
        state = progress.state
    return state


def count(events: Sequence[HistoryEvent], kind: EventType.ValueType) -> int:
    """Return how many events of a kind a history has."""
    return sum(event.event_type == kind for event in events)


async def hold_together(
    trials: Mapping[str, Callable[[], Awaitable[Report]]], lanes: int = LANES
) -> list[Report]:
    """Hold trials by name, some at a time, and return their reports.

    Raises:
        ExceptionGroup: what was wrong with which of them.
    """
    free = asyncio.Semaphore(lanes)

    async def hold(name: str) -> Report:
        async with free:
            try:
                return await trials[name]()
            except Exception as error:
                error.add_note(name)
                raise

    results = await asyncio.gather(*map(hold, trials), return_exceptions=True)
    wrong = [one for one in results if isinstance(one, Exception)]
    if wrong:
        raise ExceptionGroup(f"{len(wrong)} of {len(trials)} conversations went wrong", wrong)
    return [one for one in results if isinstance(one, Report)]


NewTrial: TypeAlias = Callable[..., Trial]
"""Makes a trial; takes those of its attributes that are to differ from the usual."""

Moment: TypeAlias = Callable[[Trial], Coroutine[Any, Any, bool]]
"""Returns when it has come; False when it cannot come any more, because the run has ended."""


def at_event(number: int) -> Moment:
    """Return the moment when the history has this many events."""

    async def has_come(trial: Trial) -> bool:
        async for event in trial.workflow.fetch_history_events(wait_new_event=True):
            if event.event_id >= number:
                return True
        return False

    return has_come


def at_labels(*labels: str) -> Moment:
    """Return the moment when events with these labels have come, each after the one before."""

    async def has_come(trial: Trial) -> bool:
        missing, seen = list(labels), list[HistoryEvent]()
        async for event in trial.workflow.fetch_history_events(wait_new_event=True):
            seen.append(event)
            if label(event, activity_types(seen)) == missing[0]:
                missing.pop(0)
                if not missing:
                    return True
        return False

    return has_come


def at_nested_event(number: int) -> Moment:
    """Return the moment when the history of the first nested run has this many events."""

    async def has_come(trial: Trial) -> bool:
        async for event in trial.workflow.fetch_history_events(wait_new_event=True):
            for run_id in nested_runs([event]):
                nested = trial.client.get_workflow_handle(run_id)
                async for inner in nested.fetch_history_events(wait_new_event=True):
                    if inner.event_id >= number:
                        return True
                return False
        return False

    return has_come


def after_the_last_kill(further_events: int) -> Moment:
    """Return the moment when the history has grown by so many events since the last kill."""

    async def has_come(trial: Trial) -> bool:
        return await at_event(trial.killed_at[-1] + further_events)(trial)

    return has_come


def at_commit(number: int) -> Moment:
    """Return the moment when so many side effects have been committed to the shop."""

    async def has_come(trial: Trial) -> bool:
        shop = Shop.open(trial.database)
        # Another process writes, and SQLite tells nobody.
        while len(shop.ledger()) < number:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_SECONDS)
        return True

    return has_come


def activity_types(events: Sequence[HistoryEvent]) -> dict[int, str]:
    """Return the activities of a history: their types by the number of their first event."""
    return {
        event.event_id: event.activity_task_scheduled_event_attributes.activity_type.name
        for event in events
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
    }


def label(event: HistoryEvent, activities: dict[int, str]) -> str:
    """Return what kind of moment an event is: its type, and which activity or message."""
    kind = EventType.Name(event.event_type).removeprefix("EVENT_TYPE_").lower()
    scheduled = (
        event.activity_task_started_event_attributes.scheduled_event_id
        or event.activity_task_completed_event_attributes.scheduled_event_id
        or event.event_id
    )
    name = (
        activities.get(scheduled) or event.workflow_execution_signaled_event_attributes.signal_name
    )
    return f"{kind} {name}".strip()


def first_event(events: Sequence[HistoryEvent], wanted: str) -> int:
    """Return the number of the first event with this label."""
    activities = activity_types(events)
    return next(event.event_id for event in events if label(event, activities) == wanted)


def telling_moments(events: Sequence[HistoryEvent]) -> list[int]:
    """Return the last event of the first transaction of each kind, and the last event of all.

    The server writes several events at once; between those, nothing can be killed.
    """
    activities = activity_types(events)
    transactions: list[list[HistoryEvent]] = []
    for event in events:
        if not transactions or event.event_type in _OPENING_EVENTS:
            transactions.append([])
        transactions[-1].append(event)
    first: dict[tuple[str, ...], int] = {}
    for transaction in transactions:
        kind = tuple(label(event, activities) for event in transaction)
        first.setdefault(kind, transaction[-1].event_id)
    return sorted({*first.values(), events[-1].event_id})


_OPENING_EVENTS = {
    EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
    # Written only when the activity has ended.
    EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED,
}
