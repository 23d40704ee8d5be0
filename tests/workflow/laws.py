"""What has to hold of every run, whatever a test did to it.

Owns: the laws, checked on each run of each test after it: the fold of the history is the
workflow's own state, no workflow task has failed, the invariants hold after every event, and the
history replays. Must not know: what a particular test is about.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from temporalio import workflow
from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowHandle,
    WorkflowHistory,
    WorkflowQueryFailedError,
)
from temporalio.service import RPCError
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    Replayer,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from outlast.client.read.history import HistoryReader, RunReader
from outlast.contract import history, names, records
from outlast.loop.invariants import violations
from outlast.loop.state import LoopState
from outlast.temporal.payloads.readable import readable
from outlast.workflows.agent_run import AgentRun
from outlast.workflows.people_notices import PeopleNotices
from outlast.workflows.scheduled_message import ScheduledMessage
from outlast.workflows.team import Team
from tests.laws.step_laws import check_items

COMMANDS = {
    EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED,
    EventType.EVENT_TYPE_ACTIVITY_TASK_CANCEL_REQUESTED,
    EventType.EVENT_TYPE_MARKER_RECORDED,
    EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES,
    EventType.EVENT_TYPE_TIMER_STARTED,
    EventType.EVENT_TYPE_TIMER_CANCELED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED,
    EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED,
    EventType.EVENT_TYPE_REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED,
    EventType.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED,
}
"""The records of what a workflow asked for."""

BY_DESIGN = {
    WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND,
    WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW,
    # More than 2 MB of results arrived while one task was running: the server takes them first.
    WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND,
}
STALLED = "[TMPRL1101]"
"""Begins the SDK's message when the machine gave a workflow task no CPU for two seconds.

The task is tried again; a query is not. How long our own tasks take is measured in `benchmarks/`.
"""

THREADS: Final = ThreadPoolExecutor(5)
"""Run the steps of workflows that are replayed: one pool for all replayers."""


@dataclass(frozen=True, slots=True)
class Execution:
    """What the server has of one execution of a run.

    Attributes:
        run_id: the run.
        events: its history.
        snapshot: the state that a worker has, while the run is open. A worker would have to replay a
            closed run to know it: then the state at the end of our own replay is as good.
    """

    run_id: str
    events: list[HistoryEvent]
    snapshot: LoopState | None


async def check_runs(client: Client, run_ids: Iterable[str]) -> None:
    """Check every law on runs and those nested in them; a worker of their task queues has to run."""
    runs = list(run_ids)
    found: dict[str, list[Execution]] = {}
    for run_id in runs:  # grows
        if run_id in found:
            continue
        found[run_id] = [one async for one in executions(client, run_id)]
        runs += [nested for one in found[run_id] for nested in nested_runs(one.events)]
    each = [one for ones in found.values() for one in ones]
    for one in each:
        assert not (failed := failed_tasks(one.events)), failed
    states = await replay(client, [(one.run_id, one.events) for one in each])
    for one, replayed in zip(each, states, strict=True):
        folded = await fold(client, one.run_id, one.events)
        if own := one.snapshot or replayed:
            if merged_by_replay(one.events):
                folded, own = timeless(folded), timeless(own)
            assert not (wrong := differences(folded, own)), wrong
    newest = {one.run_id: one.snapshot or state for one, state in zip(each, states, strict=True)}
    for run_id in found:
        await _check_reader(client, run_id, newest[run_id])


async def check_run(client: Client, run_id: str) -> None:
    """Check every law on a run and those nested in it; a worker of its task queue has to run."""
    await check_runs(client, [run_id])


async def executions(client: Client, run_id: str) -> AsyncGenerator[Execution]:
    """Yield a run's executions, across continue-as-new: the oldest first."""
    found: list[Execution] = []
    execution: str | None = (await client.get_workflow_handle(run_id).describe()).run_id
    while execution:
        handle = client.get_workflow_handle(run_id, run_id=execution)
        events, snapshot = await _history_and_snapshot(handle)
        found.append(Execution(run_id, events, snapshot))
        started = events[0].workflow_execution_started_event_attributes
        execution = started.continued_execution_run_id
    for one in reversed(found):
        yield one


async def _check_reader(client: Client, run_id: str, state: LoopState | None) -> None:
    """Check that somebody who reads a whole run has the state of its workflow.

    The workflow is asked anew where the run may have gone on since.
    """
    newest = await RunReader(client, run_id).catch_up()
    if state is None or differences(timeless(newest), timeless(state)):
        state = await snapshot_of(client.get_workflow_handle(run_id))
    if newest.outcome == "terminated" or (newest.outcome == "failed" and state.phase == "new"):
        return  # The engine ended the run, or its input was unreadable: the loop took no event.
    if state.run_id not in {"", run_id}:  # begun with a copied state: readers name the run itself
        named = replace(state.start, chain_id=newest.start.chain_id)
        state = replace(state, run_id=run_id, start=named)
    assert not (wrong := differences(timeless(newest), timeless(state))), wrong


class KeepsRuns(Interceptor):
    """Keeps the workflows of runs that a replayer runs.

    Attributes:
        newest: the last one; None before it.
    """

    def __init__(self) -> None:
        self.newest: AgentRun | None = None

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: A002  the SDK's name
    ) -> type[WorkflowInboundInterceptor]:
        keeper = self

        class Keeps(WorkflowInboundInterceptor):
            async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:  # noqa: A002
                one = workflow.instance()
                keeper.newest = one if isinstance(one, AgentRun) else None
                return await super().execute_workflow(input)

        return Keeps


async def replay(
    client: Client, histories: Iterable[tuple[str, list[HistoryEvent]]]
) -> list[LoopState | None]:
    """Run workflows again along their histories, as a worker does that has not seen them yet.

    Returns:
        The state that each run has at the end of its history; None for another workflow.
    """
    keeper = KeepsRuns()
    replayer = Replayer(
        workflows=[AgentRun, PeopleNotices, ScheduledMessage, Team],
        build_id="test",
        data_converter=readable(client.data_converter),
        interceptors=[keeper],
        workflow_task_executor=THREADS,
        debug_mode=True,  # a slow machine needs more than two seconds for a step, with invariants
    )

    async def each() -> AsyncGenerator[WorkflowHistory]:
        for run_id, events in histories:
            keeper.newest = None
            yield WorkflowHistory(run_id, events)

    states: list[LoopState | None] = []
    async with replayer.workflow_replay_iterator(each()) as results:
        async for result in results:
            if result.replay_failure is not None:
                raise result.replay_failure
            states.append(None if keeper.newest is None else keeper.newest._state)
    return states


def nested_runs(events: list[HistoryEvent]) -> list[str]:
    """Return the ids of the runs that one history has started."""
    return [
        started.workflow_execution.workflow_id
        for event in events
        if event.event_type == EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED
        and (started := event.child_workflow_execution_started_event_attributes)
        and started.workflow_type.name == names.WORKFLOW
    ]


async def fold(client: Client, run_id: str, events: list[HistoryEvent]) -> LoopState:
    """Fold one history, and check the invariants of every state on the way."""
    reader = HistoryReader(client.data_converter)
    tasks = await reader.feed(events)
    state = history.opening(reader.start_payload)
    for event, after in history.fold(state, run_id, tasks):
        assert not (broken := violations(after)), f"{broken} after {event}"
        check_items(state, after)
        state = after
    return state


def failed_tasks(events: list[HistoryEvent]) -> list[str]:
    """Return the messages of workflow tasks that failed through a fault of ours.

    A task whose end was overtaken by a signal, by a message or by many results is tried again by
    design, so that nothing is lost; Temporal calls that a failure of the task, too, and a reset.
    """
    return [
        f"{WorkflowTaskFailedCause.Name(event.workflow_task_failed_event_attributes.cause)}: "
        f"{event.workflow_task_failed_event_attributes.failure.message}"
        for event in events
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
        and event.workflow_task_failed_event_attributes.cause not in BY_DESIGN
        and not event.workflow_task_failed_event_attributes.failure.message.startswith(STALLED)
    ]


def merged_by_replay(events: list[HistoryEvent]) -> bool:
    """Whether the SDK takes two workflow tasks of this history for one when it replays it.

    It does where neither a task nor the one before it led to a command and another task follows
    at once, as after an update that was refused or a look-up that outlasted its task. What the first one delivered is then replayed
    at the time of the second, so the times in a replayed state are not those of the first run.
    """
    types = [event.event_type for event in events]
    commands = False
    for at, kind in enumerate(types):
        if kind == EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED:
            completed = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
            scheduled = EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED
            if not commands and types[at + 1 : at + 3] == [completed, scheduled]:
                return True
            commands = False
        elif kind in COMMANDS:
            commands = True
    return False


def timeless(state: LoopState) -> LoopState:
    """Return a state in which everything happened at once."""
    record: Any = json.loads(records.dump(state), object_hook=_without_time)
    return records.load(LoopState, [json.dumps(record)])


def _without_time(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: 0 if key.endswith("at_ms") else value for key, value in fields.items()}


def differences(folded: LoopState, snapshot: LoopState) -> dict[str, tuple[Any, Any]]:
    """Return the fields in which two states differ."""
    pairs = {
        one.name: (getattr(folded, one.name), getattr(snapshot, one.name)) for one in fields(folded)
    }
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


async def snapshot_of(handle: WorkflowHandle[Any, Any]) -> LoopState:
    """Return the workflow's own state, by query."""
    pages: list[str] = []
    more = True
    while more:
        page = await _page_of_snapshot(handle, len(pages))
        pages.append(page["data"])
        more = page["more"]
    return records.load(LoopState, pages)


async def _page_of_snapshot(handle: WorkflowHandle[Any, Any], number: int) -> dict[str, Any]:
    while True:
        try:
            return await handle.query(names.QUERY_SNAPSHOT, number)
        except WorkflowQueryFailedError as error:
            if not error.message.startswith(STALLED):
                raise


async def _history_and_snapshot(
    handle: WorkflowHandle[Any, Any],
) -> tuple[list[HistoryEvent], LoopState | None]:
    """Return a run's history, and its state at the same moment where it is open.

    A run that is open may go on between the two questions; then they are asked again.
    """
    async with asyncio.timeout(30):
        while True:
            described = await handle.describe()
            is_open = described.status is WorkflowExecutionStatus.RUNNING
            snapshot = await snapshot_of(handle) if is_open else None
            events = list((await handle.fetch_history()).events)
            if len(events) == described.history_length:
                return events, snapshot


async def terminate_if_open(client: Client, run_id: str) -> None:
    """End what a test left open, so that it costs the next ones nothing."""
    try:
        await client.get_workflow_handle(run_id).terminate("the test has ended")
    except RPCError:
        return  # closed already
