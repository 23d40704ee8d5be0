"""Reads a run's history: from Temporal's event records to the loop's events.

`outlast.contract.history` decodes the records. Needs no worker.
"""

import json
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any, Final, Literal, TypeAlias, TypeVar

from temporalio.api.common.v1 import Payloads
from temporalio.api.enums.v1 import EventType, StartChildWorkflowExecutionFailedCause
from temporalio.api.failure.v1 import Failure as FailureRecord
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.update.v1 import Request as UpdateRequest
from temporalio.client import Client, WorkflowHandle
from temporalio.converter import DataConverter
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.errors import UserError
from outlast.archive import archive_of, workflow_handle
from outlast.client.transport.executions import describe_newest, is_of, last_execution
from outlast.client.transport.outages import Outage, patience_of, retry_during_outage, watched
from outlast.contract import failures, history, names
from outlast.contract.failures import EngineFailure
from outlast.contract.records import NOT_JSON, Unreadable
from outlast.loop.events import Event, RunEnded
from outlast.loop.machine import advance
from outlast.loop.start import Start
from outlast.loop.state import LoopState
from outlast.loop.values import Failure, Json
from outlast.temporal.payloads.failures import failure_of_cause
from outlast.temporal.payloads.readable import decode_failure, values_of

T = TypeVar("T")

LOCAL_ACTIVITY = "core_local_activity"

_TIMED_OUT = "The engine ended the run: it exceeded its time limit."

ID_IN_USE = StartChildWorkflowExecutionFailedCause.START_CHILD_WORKFLOW_EXECUTION_FAILED_CAUSE_WORKFLOW_ALREADY_EXISTS

_UNSETTLED = {
    EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED,
}

CLOSING = {
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW,
}

_OVER: Final = {
    EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT,
}
"""How a workflow task that has started ends."""

_TIMERS: Final = {EventType.EVENT_TYPE_TIMER_STARTED, EventType.EVENT_TYPE_TIMER_FIRED}

_End: TypeAlias = Literal["completed", "failed", "timeout", "cancelled", "other"]

_OF_NESTED: Final[dict[Any, _End]] = {
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED: "completed",
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_FAILED: "failed",
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TIMED_OUT: "timeout",
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_CANCELED: "cancelled",
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TERMINATED: "other",
    EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_FAILED: "other",
}
"""How nested runs end."""

_OF_ACTIVITIES: Final[dict[Any, _End]] = {
    EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED: "completed",
    EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED: "failed",
    EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT: "timeout",
    EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED: "cancelled",
}

_ENDS: Final = _OF_NESTED | _OF_ACTIVITIES
"""How effects end; the words of failures are those of `EngineFailure`."""


@dataclass
class HistoryReader:
    """Turns Temporal's records, in any portions, into the entries of workflow tasks.

    Attributes:
        in_task: whether a workflow task runs at the last record. What arrives meanwhile is in the
            history only after the task.
    """

    converter: DataConverter
    history_id: str = ""
    start_payload: Json | Unreadable = None
    closed_by: HistoryEvent | None = None
    size: int = 0
    in_task: bool = False
    _effects: dict[int, int] = field(default_factory=dict[int, int])
    _admitted: dict[int, UpdateRequest] = field(default_factory=dict[int, UpdateRequest])
    _bars: set[str] = field(default_factory=set[str])
    _freeing: set[int] = field(default_factory=set[int])
    _waiting: list[tuple[int, history.HistoryEntry]] = field(
        default_factory=list[tuple[int, history.HistoryEntry]]
    )
    _started_ms: dict[int, int] = field(default_factory=dict[int, int])
    _ready: list[HistoryEvent] = field(default_factory=list[HistoryEvent])
    _local: dict[int, list[history.HistoryEntry]] = field(
        default_factory=dict[int, list[history.HistoryEntry]]
    )

    @property
    def waits(self) -> bool:
        """Whether something has reached the run that no complete workflow task has taken in."""
        return bool(self._waiting)

    @property
    def keeps(self) -> bool:
        """Whether a signal has reached the run that no complete workflow task has taken in."""
        return any(isinstance(entry, history.Signalled) for _, entry in self._waiting)

    async def feed(self, events: Iterable[HistoryEvent]) -> list[history.WorkflowTask]:
        """Take records, and return the workflow tasks that are complete now.

        Temporal writes all records of a workflow task in one transaction, and answers with whole
        transactions only, so a task is complete when its portion is.
        """
        for event in events:
            self.size = event.event_id
            if event.event_type in _OVER:
                self.in_task = False
            await self._read(event)
        tasks = [self._task_of(completed) for completed in self._ready]
        self._ready.clear()
        return tasks

    async def _read(self, event: HistoryEvent) -> None:
        match event.event_type:
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
                started = event.workflow_execution_started_event_attributes
                self.history_id = started.original_execution_run_id
                values = await values_of(self.converter, started.input.payloads)
                if values is None:
                    values = (Unreadable(NOT_JSON),)
                self.start_payload = values[0] if values else None
                self._note(
                    event, history.Started(payload=self.start_payload, chain_id=self.history_id)
                )
            case EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED:
                self.in_task = True
                self._started_ms[event.event_id] = _milliseconds(event.event_time)
            case EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
                self._ready.append(event)
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
                self._note(event, history.CancelAsked())
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
                await self._read_signal(event)
            case (
                EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ADMITTED
                | EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED
            ):
                await self._read_update(event)
            case EventType.EVENT_TYPE_MARKER_RECORDED:
                await self._read_marker(event)
            case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
                self._read_scheduled(event)
            case EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
                nested = event.start_child_workflow_execution_initiated_event_attributes
                self._effects[event.event_id] = history.effect_of_nested(nested.workflow_id)
            case kind if kind in CLOSING:
                self.closed_by = await self._with_message(event)
            case _:
                await self._read_result(event)

    def _read_scheduled(self, event: HistoryEvent) -> None:
        scheduled = event.activity_task_scheduled_event_attributes
        number = scheduled.activity_id
        self._effects[event.event_id] = int(number) if number.isdigit() else 0
        if scheduled.activity_type.name == names.ACTIVITY_FREE_ID:
            self._freeing.add(event.event_id)

    async def _read_signal(self, event: HistoryEvent) -> None:
        signal = event.workflow_execution_signaled_event_attributes
        is_signal = signal.signal_name in names.SIGNALS
        arguments = await values_of(self.converter, signal.input.payloads) if is_signal else ()
        if arguments is None:
            return  # the workflow's SDK also drops it
        arrived = _milliseconds(event.event_time)
        self._note(
            event,
            history.Signalled(name=signal.signal_name, arguments=arguments, arrived_at_ms=arrived),
        )

    async def _read_update(self, event: HistoryEvent) -> None:
        if event.HasField("workflow_execution_update_admitted_event_attributes"):
            admitted = event.workflow_execution_update_admitted_event_attributes
            self._admitted[event.event_id] = admitted.request
            return
        accepted = event.workflow_execution_update_accepted_event_attributes
        came_at = accepted.accepted_request_sequencing_event_id
        # An update that a reset applies again is only in the record of its admission.
        request = self._admitted.pop(came_at, accepted.accepted_request).input
        arguments = await values_of(self.converter, request.args.payloads)
        entry = history.Updated(name=request.name, arguments=arguments or ())
        self._waiting.append((came_at, entry))

    async def _read_marker(self, event: HistoryEvent) -> None:
        marker = event.marker_recorded_event_attributes
        if marker.marker_name != LOCAL_ACTIVITY:
            return
        data: dict[str, Any] = json.loads(marker.details["data"].payloads[0].data)
        if data["complete_time"] is None or data.get("backoff") is not None:
            return  # cancelled by the workflow, or retried after a durable timer
        entry = history.Resolved(
            effect=int(data["activity_id"]),
            local_end_ms=_local_end_ms(data),
            payload=await self._first(marker.details.get("result")),
            failure=await self._failure(marker.failure) if marker.HasField("failure") else None,
        )
        task = marker.workflow_task_completed_event_id
        self._local.setdefault(task, []).append(entry)

    async def _read_result(self, event: HistoryEvent) -> None:
        if event.event_type in _TIMERS:
            self._read_timer(event)
        if (kind := _ENDS.get(event.event_type)) is None:
            return
        attributes: Any = getattr(event, str(event.WhichOneof("attributes")))
        is_nested = event.event_type in _OF_NESTED
        scheduled = attributes.initiated_event_id if is_nested else attributes.scheduled_event_id
        if scheduled in self._freeing and kind == "completed":
            return  # the id of a nested run is free, and it starts again
        if getattr(attributes, "cause", None) == ID_IN_USE:
            return  # an activity looks who has it
        payload, failure = None, None
        match kind:
            case "completed":
                payload = await self._first(attributes.result)
            case "failed":
                failure = await self._failure(attributes.failure, nested=is_nested)
            case _:
                failure = EngineFailure(kind=kind)
        effect = self._effects.pop(scheduled, 0)
        self._note(event, history.Resolved(effect=effect, payload=payload, failure=failure))

    def _read_timer(self, event: HistoryEvent) -> None:
        """Take a timer that fired: only those of the waits' bars have a summary."""
        if event.user_metadata.HasField("summary"):
            self._bars.add(event.timer_started_event_attributes.timer_id)
        if event.timer_fired_event_attributes.timer_id in self._bars:
            self._note(event, history.TimerFired())

    async def _with_message(self, closing: HistoryEvent) -> HistoryEvent:
        if not closing.HasField("workflow_execution_failed_event_attributes"):
            return closing
        event = HistoryEvent()
        event.CopyFrom(closing)
        failure = event.workflow_execution_failed_event_attributes.failure
        error = await decode_failure(self.converter, failure)
        failure.message = getattr(error, "message", failure.message)
        return event

    def _note(self, event: HistoryEvent, entry: history.HistoryEntry) -> None:
        self._waiting.append((event.event_id, entry))

    def _task_of(self, completed: HistoryEvent) -> history.WorkflowTask:
        started = completed.workflow_task_completed_event_attributes.started_event_id
        delivered = [one for event_id, one in self._waiting if event_id < started]
        self._waiting = [(at, one) for at, one in self._waiting if at >= started]
        delivered.extend(self._local.pop(completed.event_id, []))
        at_ms = self._started_ms.pop(started, 0)
        return history.WorkflowTask(at_ms=at_ms, entries=tuple(delivered))

    async def _first(self, payloads: Payloads | None) -> Json | Unreadable:
        payload = payloads.payloads[:1] if payloads is not None else []
        values = await values_of(self.converter, payload)
        return values[0] if values else None

    async def _failure(self, failure: FailureRecord, *, nested: bool = False) -> EngineFailure:
        if failure.HasField("activity_failure_info") and failure.HasField("cause"):
            failure = failure.cause  # the SDK wraps the cause
        return failure_of_cause(await decode_failure(self.converter, failure), nested=nested)


@dataclass(frozen=True, slots=True)
class Progress:
    """One event of a run, the state after it, and its place: see `RunReader.place`.

    There is no event where a history begins.

    Attributes:
        event: the event.
        state: the state after it.
        place: see `RunReader.place`.
        lost: where a history begins, the one before it if neither the server nor the archive has
            it; more of them may be missing.
    """

    event: Event | None
    state: LoopState
    place: tuple[str, int] = ("", 0)
    lost: str = ""


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A history to read, and the lost one before it, if any."""

    run: str
    lost: str = ""


@dataclass
class RunReader:
    """Reads a run's history from the first event to the last, across continue-as-new.

    Attributes:
        place: how far the run was read: the index of its history and the number of events. Places
            of the same history can be compared.
        opened_by: the first record of the oldest history that was read.
        closed_by: the record that ended the run, if it has ended.
        lost: the histories that neither the server nor the archive has, each the last of a gap.
        first: the run's first execution, which tells it apart from other runs with its id; None
            until the newest run with the id has been read.
        each_task: also yield after each workflow task, even if it had no event.
        each_signal: also yield when a signal arrives that no workflow task has taken yet.
        tasks: how many workflow tasks of the history were read.
        has_more: whether something waits behind the last of them.
        in_task: whether another one ran when the history was fetched.
    """

    client: Client
    run_id: str
    patience: timedelta = field(default_factory=lambda: patience_of(None))
    first: str | None = None
    state: LoopState = field(default_factory=LoopState)
    place: tuple[str, int] = ("", 0)
    lost: tuple[str, ...] = ()
    opened_by: HistoryEvent | None = None
    closed_by: HistoryEvent | None = None
    each_task: bool = False
    each_signal: bool = False
    tasks: int = 0
    has_more: bool = False
    in_task: bool = False
    _stopped: "_Reading | None" = None
    _chain: tuple[str, str] = ("", "")
    _folded: LoopState = field(default_factory=LoopState)

    @property
    def is_over(self) -> bool:
        """Whether the run was closed where reading has stopped."""
        return self.closed_by is not None and _successor(self.closed_by) is None

    async def catch_up(self, run: str | None = None) -> LoopState:
        """Read everything there is, of the newest execution or of `run`. Does not wait for more.

        Raises:
            RPCError: there is no such run.
            ServerUnavailable: the server did not answer for too long.
        """
        async for _ in self.read_newest(run):
            pass
        return self.state

    async def read_newest(self, run: str | None = None) -> AsyncGenerator[Progress]:
        """Yield every event of the newest execution, or of `run`; otherwise like `catch_up`."""
        history_ = await self._ask(self._handle(run).fetch_history)
        if run is None and self.first and not is_of(history_.events[0], self.first):
            run = await self._ask(partial(last_execution, self.client, self.run_id, self.first))
            history_ = await self._ask(self._handle(run).fetch_history)
        reader = HistoryReader(self.client.data_converter)
        for progress in await self._take(reader, history_.events):
            yield progress

    async def read_start(self, run: str | None = None) -> Start:
        """Return what the run started with. It is in the first record of each of its histories.

        The server sends no more of the history than that; an archived one is read whole.

        Raises:
            RPCError: there is no such run.
            ServerUnavailable: the server did not answer for too long.
            UserError: the history cannot be read here.
        """
        pages = self._handle(run).fetch_history_events(page_size=1)
        await self._ask(pages.fetch_next_page)
        reader = HistoryReader(self.client.data_converter)
        await reader.feed((pages.current_page or [])[:1])
        payload = reader.start_payload
        if isinstance(payload, Unreadable):
            return (await self.catch_up(run)).start  # it may have failed for that reason
        began = history.Started(payload=payload, chain_id=reader.history_id)
        task = history.WorkflowTask(at_ms=0, entries=(began,))
        state = history.opening(payload)
        for _, after in history.fold(state, self.run_id, [task]):
            state = after
        return state.start

    async def read_records(self, records: Sequence[HistoryEvent]) -> Generator[Progress]:
        """Return what a history says that was fetched elsewhere, such as from an archive."""
        return await self._take(HistoryReader(self.client.data_converter), records)

    async def read_all(self, run: str | None = None) -> AsyncGenerator[Progress]:
        """Read everything from the run's first event on; otherwise like `catch_up`."""
        if run is None:
            run = await self._newest()
        for stretch in reversed(await self._stretches(run)):
            history_ = await self._ask(self._handle(stretch.run).fetch_history)
            reader = HistoryReader(self.client.data_converter)
            for progress in await self._take(reader, history_.events, stretch.lost):
                yield progress

    async def histories(
        self, run: str | None = None
    ) -> AsyncGenerator[tuple[str, list[HistoryEvent]]]:
        """Yield the ids and records of the run's histories, oldest first, up to the newest or `run`.

        Raises:
            RPCError: there is no such run.
        """
        if run is None:
            run = await self._newest()
        for stretch in reversed(await self._stretches(run)):
            self.lost += (stretch.lost,) if stretch.lost else ()
            found = await self._ask(self._handle(stretch.run).fetch_history)
            yield stretch.run, list(found.events)

    async def follow(self, *, from_start: bool) -> AsyncGenerator[Progress]:
        """Read everything there is, and wait for more until the run is closed.

        Begin with the first history that is retained, or with the newest, which holds the whole
        state. A reader that stopped in the newest history reads on there, and yields its state first.

        Raises:
            RPCError: there is no such run.
        """
        run: str | None = await self._newest()
        # Walked backwards: the first history's successor may be abandoned by a reset.
        earlier = await self._stretches(run) if from_start else [_Stretch(run)]
        stopped = self._stopped
        if from_start or stopped is None or stopped.run != run:
            stopped = self._stopped = None
        else:
            yield Progress(None, self.state, self.place)
        while run is not None:
            current = earlier.pop() if earlier else _Stretch(run)
            reading, stopped = stopped or self._reading_of(current), None
            # Close all generators here, because the event loop may end before it closes them.
            async with aclosing(self._read_on(reading)) as following:
                async for progress in following:
                    yield progress
            if current.run == run:
                run = _successor(reading.reader.closed_by)

    async def _read_on(self, reading: "_Reading") -> AsyncGenerator[Progress]:
        while True:
            for progress in reading.steps:
                # The rest stays in `steps` for a reader that stops here.
                self._stopped = reading
                yield progress
            self._stopped = None
            page = await reading.pages.next()
            if page is None:
                return
            reading.steps = await self._take(reading.reader, page, reading.lost)

    async def _stretches(self, run: str) -> list[_Stretch]:
        """Return a history and those before it that the server or the archive has, newest first."""
        found: list[_Stretch] = []
        opened = HistoryEvent()
        while run and run not in {one.run for one in found}:
            try:
                first = self._handle(run).fetch_history_events(page_size=1)
                await self._ask(first.fetch_next_page)
            except RPCError as error:
                if error.status != RPCStatusCode.NOT_FOUND or not found:
                    raise
                found[-1] = _Stretch(found[-1].run, lost=run)
                run = await self._before_gap(opened)
                continue
            [opened, *_] = first.current_page or [HistoryEvent()]
            found.append(_Stretch(run))
            run = opened.workflow_execution_started_event_attributes.continued_execution_run_id
        return found

    async def _before_gap(self, opened: HistoryEvent) -> str:
        """Return the last archived history of a run before one with this first record, or nothing.

        A history names the one before it. If that is lost, only the archive knows those before it.
        """
        archive = archive_of(self.client)
        if archive is None:
            return ""
        chain = opened.workflow_execution_started_event_attributes.first_execution_run_id
        began = _milliseconds(opened.event_time)
        kept = await archive.histories_of(self.client.namespace, self.run_id)
        # What did not continue was abandoned by a reset, or is another run with the same id.
        before = [one for one in kept if one.continues and one.first_execution_id == chain]
        found = [one.execution_id for one in before if one.closed_ms <= began]
        return found[-1] if found else ""

    def _reading_of(self, stretch: _Stretch) -> "_Reading":
        reader = HistoryReader(self.client.data_converter)
        pages = _Pages(self.client, self._handle(stretch.run), self.patience)
        return _Reading(stretch.run, stretch.lost, reader, pages)

    async def _take(
        self, reader: HistoryReader, page: Sequence[HistoryEvent], lost: str = ""
    ) -> Generator[Progress]:
        """Read records. Iterate over the result to apply them to the state."""
        begins = reader.size == 0
        if begins:
            self.opened_by = opened = self.opened_by or next(iter(page), None)
            if self.first is None and opened is not None:
                started = opened.workflow_execution_started_event_attributes
                self.first = started.first_execution_run_id or None
            self.lost += (lost,) if lost else ()
        tasks = await reader.feed(page)
        if begins and page:
            self._chain = await self._chain_of(page[0], reader.start_payload)
        if tasks:
            self.check_readable(reader)
        return self._fold(reader, tasks, begins=begins, lost=lost)

    def _fold(
        self,
        reader: HistoryReader,
        tasks: Sequence[history.WorkflowTask],
        *,
        begins: bool,
        lost: str,
    ) -> Generator[Progress]:
        if begins:
            self._take_state(history.opening(reader.start_payload))
            self.place, self.tasks = (reader.history_id, 0), 0
            if not history.begins_as_fork(reader.start_payload):  # with the state of its source
                yield Progress(None, self.state, self.place, lost)
        self.has_more, self.in_task = reader.waits, reader.in_task
        for behind, task in zip(range(len(tasks) - 1, -1, -1), tasks, strict=True):
            for event, state in history.fold(self._folded, self.run_id, [task]):
                self._take_state(state)
                self.place = (reader.history_id, self.place[1] + 1)
                yield Progress(event, self.state, self.place)
            self.tasks += 1
            self.has_more = behind > 0 or reader.waits
            if self.each_task:
                yield Progress(None, self.state, self.place)
        if self.each_signal and not tasks and reader.keeps:
            yield Progress(None, self.state, self.place)
        self.closed_by = reader.closed_by
        ended = None if self.closed_by is None else ended_by_engine(self.state, self.closed_by)
        if ended is not None and self.state.outcome is None:
            self._take_state(advance(self._folded, ended)[0])
            self.place = (reader.history_id, self.place[1] + 1)
            yield Progress(ended, self.state, self.place)

    def _take_state(self, state: LoopState) -> None:
        """Take the next state. It names the run and the chain that the server names.

        Whoever starts a run writes its input, and may copy the state of another run with all that
        people have signed there.
        """
        self._folded = self.state = state
        start, parent = state.start, state.start.parent
        first, outermost = self._chain
        if not first or not (state.run_id or state.chain_id):
            return  # nothing has happened
        if parent is None:
            start = start if start.chain_id == first else replace(start, chain_id=first)
        elif parent.chain_id != outermost:
            start = replace(start, parent=replace(parent, chain_id=outermost))
        if state.run_id != self.run_id or start is not state.start:
            self.state = replace(state, run_id=self.run_id, start=start)

    async def _chain_of(self, opened: HistoryEvent, payload: Json | Unreadable) -> tuple[str, str]:
        """Return the first execution of a run, and that of the run that it is nested in."""
        started = opened.workflow_execution_started_event_attributes
        first = started.first_execution_run_id
        if not started.HasField("parent_workflow_execution"):
            return first, first
        root = started.root_workflow_execution
        if history.chain_in(payload) == root.run_id:
            return first, root.run_id  # the root had not gone on in another history
        try:
            described = await self._ask(
                workflow_handle(self.client, root.workflow_id, root.run_id).describe
            )
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise
            return first, root.run_id
        return first, described.raw_info.first_run_id or root.run_id

    def check_readable(self, reader: HistoryReader) -> None:
        """Refuse a history if this client lacks the codec or the key of its start."""
        start, closed = reader.start_payload, reader.closed_by
        failed = closed is not None and closed.HasField(
            "workflow_execution_failed_event_attributes"
        )
        if isinstance(start, Unreadable) and not failed:
            raise UserError(
                f"The run {self.run_id} cannot be read here: {start.problem} Connect with the data "
                "converter of its worker, or name its codec with --codec or OUTLAST_CODEC."
            )

    async def _newest(self) -> str:
        """Return the run's newest execution."""
        describe = partial(describe_newest, self.client, self.run_id, self.first)
        return (await self._ask(describe)).run_id

    async def _ask(self, call: Callable[[], Awaitable[T]]) -> T:
        return await retry_during_outage(self.client, call, self.patience)

    def _handle(self, run: str | None) -> WorkflowHandle[Any, Any]:
        return workflow_handle(self.client, self.run_id, run)


class _Pages:
    """Fetches the events of a history that cannot change any more, and waits for more of them."""

    def __init__(
        self, client: Client, handle: WorkflowHandle[Any, Any], patience: timedelta
    ) -> None:
        self._client = client
        self._handle = handle
        self._outage = Outage(patience, client)
        self._fetched = handle.fetch_history_events(wait_new_event=True)
        self._is_over = False
        self._seen = 0
        self._unsettled: list[HistoryEvent] = []

    async def next(self) -> Sequence[HistoryEvent] | None:
        """Return the next events, or None after the last events of a closed history."""
        while not self._is_over:
            try:
                await watched(self._client, self._fetched.fetch_next_page(), self._outage)
            except RPCError as error:
                if error.status == RPCStatusCode.INVALID_ARGUMENT and self._fetched.next_page_token:
                    # The history has changed since the server made the token.
                    self._fetched = self._handle.fetch_history_events(wait_new_event=True)
                elif error.status not in {
                    RPCStatusCode.DEADLINE_EXCEEDED,
                    RPCStatusCode.CANCELLED,
                }:
                    await self._outage.wait(error)
                continue
            self._is_over = not self._fetched.next_page_token
            if page := self._settled(self._fetched.current_page or ()):
                return page
        return None

    def _settled(self, sent: Sequence[HistoryEvent]) -> Sequence[HistoryEvent]:
        begin = sent[0].event_id if sent else self._seen + len(self._unsettled) + 1
        page = [event for event in self._unsettled if event.event_id < begin]
        page += [event for event in sent if event.event_id > self._seen]
        length = _settled_length(page)
        page, self._unsettled = page[:length], page[length:]
        if page:
            self._seen = page[-1].event_id
        return page


@dataclass
class _Reading:
    """A history that a reader follows.

    Attributes:
        run: the execution.
        lost: the one before it, if it is lost.
        reader: has decoded what was fetched.
        pages: what was not fetched yet.
        steps: what was decoded and not applied yet.
    """

    run: str
    lost: str
    reader: HistoryReader
    pages: _Pages
    steps: Iterator[Progress] = field(default_factory=lambda: iter(()))


def _settled_length(page: Sequence[HistoryEvent]) -> int:
    """Return the number of events in a page that cannot change any more.

    A server sends the running workflow task before it is stored, at the end of a page. If the task
    is lost, other events get its numbers; if it completes, its events are sent again, with other
    times after a retry.
    """
    length = len(page)
    while length and page[length - 1].event_type in _UNSETTLED:
        length -= 1
    return length


def ended_by_engine(state: LoopState, closed_by: HistoryEvent) -> RunEnded | None:
    """Return the event of a run that the engine ended, or None."""
    at_ms = _milliseconds(closed_by.event_time)
    match closed_by.event_type:
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
            why = closed_by.workflow_execution_terminated_event_attributes
            text = f"The run was terminated: {why.reason or 'no reason stated'}"
            text += f" (by {why.identity})" if why.identity else ""
            failure = Failure(code=failures.TERMINATED, message=text)
            return RunEnded(at_ms=at_ms, outcome="terminated", failure=failure)
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED:
            return RunEnded(at_ms=at_ms, outcome="cancelled")
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT:
            failure = Failure(code=failures.INTERNAL, message=_TIMED_OUT)
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
            lost = closed_by.workflow_execution_failed_event_attributes.failure
            code = lost.application_failure_info.type or failures.INTERNAL
            failure = failure_before_the_start(state, Failure(code=code, message=lost.message))
            failure = state.failure or failure
        case _:
            return None
    return RunEnded(at_ms=at_ms, outcome="failed", failure=failure)


def failure_before_the_start(state: LoopState, failure: Failure) -> Failure:
    """Return the failure of a run; a run without an event has an unreadable input."""
    if state.phase != "new" or failure.code in failures.CODES:
        return failure
    message = f"The run's input is unreadable: {failure.message}"
    return replace(failure, code=failures.USER_ERROR, message=message)


def _successor(closed_by: HistoryEvent | None) -> str | None:
    if closed_by is None:
        return None
    again = closed_by.workflow_execution_continued_as_new_event_attributes
    return again.new_execution_run_id or None


def _milliseconds(stamp: Any) -> int:
    return stamp.ToMilliseconds()


def _local_end_ms(data: dict[str, Any]) -> int:
    end: dict[str, Any] = data["complete_time"]
    return int(end.get("seconds", 0)) * 1000 + int(end.get("nanos", 0)) // 1_000_000
