"""The spans of runs, out of their histories: those that workers sent, with the same ids.

A history has no spans of guardrails, of listings of MCP servers and of the program's own; of the
attempts of a call it has the last.
"""

import json
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, cast

from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.inner_spans import finish_reason_of
from outlast.activities.tracing import record_tool_result, scope_of_effect
from outlast.agents.errors import RunNotFound
from outlast.agents.registry import Registry
from outlast.client.read.history import LOCAL_ACTIVITY, HistoryReader, RunReader
from outlast.client.transport.run_address import RunAddress
from outlast.contract import history, names, stages
from outlast.contract.records import RunInput, UnreadableRecordError, read
from outlast.loop.calls import ModelReply, ToolResult
from outlast.loop.effects import CallModel, EffectAnswered, EffectFailed, RunTool
from outlast.loop.events import Event
from outlast.loop.state import LoopState
from outlast.tracing.current import Span, Trace
from outlast.tracing.effect_spans import TraceScope, effect_span_id, model_span_id
from outlast.tracing.kinds import FunctionSpanData, GenerationSpanData
from outlast.tracing.provider import TracingProcessor
from outlast.tracing.receivers import Inline, Receiver, unused
from outlast.tracing.stage_spans import StageSpans, failure_error
from outlast.views.redaction import redaction_of

_ENDS = {
    EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED,
    EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED,
    EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT,
    EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpans:
    """The ended spans of a stretch of a run.

    Attributes:
        run_id: the run, or one of its nested runs.
        spans: the spans; children before their parents.
        lost: the history before the stretch, if neither the server nor the archive has it.
    """

    run_id: str
    spans: tuple[Span[Any], ...]
    lost: str = ""


async def read_spans(
    client: Client, run_id: str, *, execution_id: str | None = None
) -> AsyncGenerator[RunSpans]:
    """Yield the spans of a run and of its nested runs, one history at a time.

    Args:
        client: connected to the run's server.
        run_id: the run.
        execution_id: one of its executions; default: the newest.

    Raises:
        RunNotFound: there is no such run, or its history is no longer retained.
    """
    address, reader, nested = RunAddress(client, run_id), RunReader(client, run_id), list[_Key]()
    try:
        if execution_id is None:
            execution_id = address.checked(await address.ask(address.workflow.describe)).run_id
        under_way: tuple[stages.Stage, ...] = ()
        lost = 0
        async with aclosing(reader.histories(execution_id)) as histories:
            async for execution, events in histories:
                stretch = _Stretch(client, reader, execution, events)
                under_way = await stretch.read(under_way)
                nested += stretch.nested
                gap = reader.lost[lost:]
                lost = len(reader.lost)
                yield RunSpans(run_id=run_id, spans=stretch.spans, lost="".join(gap[:1]))
    except RPCError as error:
        if execution_id is not None and error.status is RPCStatusCode.NOT_FOUND:
            raise RunNotFound(f"The history of {run_id} is no longer retained.") from error
        raise await address.translate(error) from error
    for nested_id, execution in nested:
        async with aclosing(read_spans(client, nested_id, execution_id=execution)) as found:
            async for one in found:
                yield one


_Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempt:
    """The last attempt of an activity: its number, its execution, and its times in seconds."""

    number: int
    execution: str
    began: float
    ended: float


class _Collector(TracingProcessor):
    """Keeps ended spans."""

    def __init__(self) -> None:
        self.spans: list[Span[Any]] = []

    def on_span_end(self, span: Span[Any]) -> None:
        self.spans.append(span)

    @unused
    def on_trace_start(self, trace: Trace) -> None:
        pass

    @unused
    def on_trace_end(self, trace: Trace) -> None:
        pass

    @unused
    def on_span_start(self, span: Span[Any]) -> None:
        pass

    def force_flush(self) -> None:
        pass

    def shutdown(self) -> None:
        pass


class _Stretch:
    """One history of a run, and the spans of what happened in it."""

    def __init__(
        self, client: Client, run: RunReader, execution: str, events: Sequence[HistoryEvent]
    ) -> None:
        self._client, self._run, self._events = client, run, events
        self._executions = _executions(execution, events)
        self._attempts = self._read_attempts()
        self._collector = _Collector()
        self._receiver = Inline(Receiver(self._collector))
        self._stages = StageSpans(Registry([]))
        started = events[0].workflow_execution_started_event_attributes if events else None
        self._tenant = started.priority.fairness_key if started is not None else ""

    @property
    def spans(self) -> tuple[Span[Any], ...]:
        """The spans that have ended, in the order of their ends."""
        return tuple(self._collector.spans)

    @property
    def nested(self) -> list[_Key]:
        """The nested runs that were started, and the first execution of each."""
        started = [
            one.child_workflow_execution_started_event_attributes
            for one in self._events
            if one.event_type == EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED
        ]
        return [
            (one.workflow_execution.workflow_id, one.workflow_execution.run_id)
            for one in started
            if one.workflow_type.name == names.WORKFLOW
        ]

    async def read(self, under_way: tuple[stages.Stage, ...]) -> tuple[stages.Stage, ...]:
        """Make the spans, given the stages of the history before; return those at the end."""
        reader = HistoryReader(self._client.data_converter)
        tasks = await reader.feed(self._events)
        self._run.check_readable(reader)
        state = history.opening(reader.start_payload)
        if state.run_id == self._run.run_id:  # a fork opens with the state of its source
            under_way = under_way or stages.resumed(state, _carried(reader.start_payload))
        for event, after in history.fold(state, self._run.run_id, tasks):
            self._add_attempt(state, event)
            under_way, changes = stages.advanced(under_way, state, event, after)
            self._stages.report_ends(self._receiver, after, changes, self._tenant)
            state = after
        hides = redaction_of(state)
        for span in self._collector.spans:
            span.hides = hides
            span.conceal()
        return under_way

    def _add_attempt(self, before: LoopState, event: Event) -> None:
        if not isinstance(event, EffectAnswered | EffectFailed):
            return
        attempts = self._attempts.get(event.effect)
        effect = next((one for one in before.pending if one.effect == event.effect), None)
        if not attempts or not isinstance(effect, RunTool | CallModel):
            return
        attempt = attempts.popleft()
        scope, number = scope_of_effect(effect)
        if scope.disabled or scope.origin is None:
            return
        origin = scope.origin._replace(
            execution=attempt.execution, attempt=attempt.number, tenant=self._tenant
        )
        scope = scope._replace(origin=origin)
        if isinstance(effect, RunTool):
            span: Span[Any] | None = self._of_tool(effect, event, scope, number)
        else:
            span = self._of_model(effect, event, scope, number)
        if span is None:
            return
        if isinstance(event, EffectFailed):
            span.set_error(failure_error(span.span_data, event.failure, scope))
        span.restore(started_at_seconds=attempt.began)
        span.finish(at_seconds=attempt.ended)

    def _of_tool(
        self, effect: RunTool, event: Event, scope: TraceScope, number: int
    ) -> Span[FunctionSpanData]:
        data, attempt = FunctionSpanData(effect.name, effect.arguments), _attempt_of(scope)
        span_id = effect_span_id(scope.effects_key, number, attempt, data.type)
        span = scope.span(data, span_id, scope.inner_span_id, (self._receiver,))
        span.facts["call_id"] = effect.call_id
        result: object = event.result if isinstance(event, EffectAnswered) else None
        if isinstance(result, ToolResult):
            record_tool_result(span, effect, result)
        return span

    def _of_model(
        self, effect: CallModel, event: Event, scope: TraceScope, number: int
    ) -> Span[GenerationSpanData] | None:
        reply: object = event.result if isinstance(event, EffectAnswered) else None
        if isinstance(reply, ModelReply) and (reply.unchecked or reply.begun is not None):
            return None  # the model was not called, or has not replied
        span_id = model_span_id(scope.effects_key, number, _attempt_of(scope))
        data = GenerationSpanData()
        span = scope.span(data, span_id, scope.inner_span_id, (self._receiver,))
        if effect.tried:
            span.facts["tried"] = "; ".join(one.line for one in effect.tried)
        if isinstance(reply, ModelReply):
            data.model, data.output = reply.model, list(reply.items)
            span.facts |= {"model": reply.model, "usage": reply.usage}
            span.facts["finish_reasons"] = (finish_reason_of(reply.items),)
            if reply.usage.priced:
                span.facts["cost_usd"] = reply.usage.cost_micros / 1e6
            if reply.response_id is not None:
                span.facts["response_id"] = reply.response_id
        return span

    def _read_attempts(self) -> dict[int, deque[_Attempt]]:
        """Return the attempts of each effect, in the order of their ends."""
        found = defaultdict[int, deque[_Attempt]](deque)
        scheduled, started = dict[int, int](), dict[int, HistoryEvent]()
        for event in self._events:
            kind = event.event_type
            if kind == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
                number = event.activity_task_scheduled_event_attributes.activity_id
                scheduled[event.event_id] = int(number) if number.isdigit() else 0
            elif kind == EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED:
                started[event.activity_task_started_event_attributes.scheduled_event_id] = event
            elif kind in _ENDS:
                attributes: Any = getattr(event, str(event.WhichOneof("attributes")))
                begun = started.get(attributes.scheduled_event_id)
                if begun is not None:
                    found[scheduled.get(attributes.scheduled_event_id, 0)].append(
                        _Attempt(
                            number=begun.activity_task_started_event_attributes.attempt,
                            execution=self._execution_at(begun.event_id),
                            began=_seconds(begun.event_time),
                            ended=_seconds(event.event_time),
                        )
                    )
            elif kind == EventType.EVENT_TYPE_MARKER_RECORDED:
                self._read_marker(event, found)
        return found

    def _read_marker(self, event: HistoryEvent, found: dict[int, deque[_Attempt]]) -> None:
        marker = event.marker_recorded_event_attributes
        if marker.marker_name != LOCAL_ACTIVITY:
            return
        data: dict[str, Any] = json.loads(marker.details["data"].payloads[0].data)
        if data["complete_time"] is None or data.get("backoff") is not None:
            return
        ended = _seconds_in(data["complete_time"])
        scheduled = data.get("original_schedule_time")
        found[int(data["activity_id"])].append(
            _Attempt(
                number=int(data.get("attempt", 1)),
                execution=self._execution_at(event.event_id),
                began=min(_seconds_in(scheduled) if scheduled else ended, ended),
                ended=ended,
            )
        )

    def _execution_at(self, event_id: int) -> str:
        return next(one for last, one in self._executions if event_id <= last)


def _executions(execution: str, events: Sequence[HistoryEvent]) -> list[tuple[int, str]]:
    """Return the executions that a history is from, each with its last record.

    The history of a run that was reset begins with a copy of the one before.
    """
    found: list[tuple[int, str]] = []
    for event in events:
        failed = event.workflow_task_failed_event_attributes
        if failed.cause == WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW:
            found.append((event.event_id, failed.base_run_id))
    last = events[-1].event_id if events else 0
    return [*found, (last, execution)]


def _carried(payload: object) -> tuple[stages.Stage, ...] | None:
    try:
        return read(RunInput, cast("Any", payload)).stages
    except UnreadableRecordError:
        return None


def _attempt_of(scope: TraceScope) -> int:
    return scope.origin.attempt if scope.origin is not None else 1


def _seconds(stamp: Any) -> float:
    return stamp.seconds + stamp.nanos / 1e9


def _seconds_in(stamp: dict[str, Any]) -> float:
    return int(stamp.get("seconds", 0)) + int(stamp.get("nanos", 0)) / 1e9
