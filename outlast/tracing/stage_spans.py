"""Spans for a run's stages, such as turns and handoffs, reported by its workflow.

The workflow calls `StageSpans` for new events only, never during replay, and never waits for it. A
registered processor therefore changes nothing in a run. A span may start in one process and end in
another.
"""

from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

from outlast.agents.json_values import as_object
from outlast.agents.registry import Registry, handoffs_of
from outlast.agents.schemas.agent_output import output_schema_of
from outlast.contract.stages import Stage, StageBegun, StageChange, StageEnded
from outlast.edges.rendering import cut, visible
from outlast.loop.items import text_of
from outlast.loop.state import LoopState
from outlast.loop.values import NO_USAGE, Failure, JsonObject, Usage, is_reference, placeholder
from outlast.tracing.current import Span, derived_span_id
from outlast.tracing.effect_spans import (
    TraceScope,
    effect_span_id,
    handoff_span_id,
    run_scope,
)
from outlast.tracing.kinds import (
    AgentSpanData,
    FunctionSpanData,
    HandoffSpanData,
    RatingSpanData,
    SpanData,
    SpanError,
    TaskSpanData,
    TurnSpanData,
    WaitSpanData,
    tool_error,
)
from outlast.tracing.receivers import REGISTRATION, Inline, Receivers
from outlast.views.redaction import NOTHING, redaction_of

LONGEST_NAME: Final = 80
"""How many characters spans have of the name of a tool that does not exist."""

_METHODS_OF_STARTS = frozenset({"on_trace_start", "on_span_start"})


class StageSpans:
    """Reports the stages of a worker's runs to processors."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def __call__(
        self,
        state: LoopState,
        changes: tuple[StageChange, ...],
        *,
        execution: str = "",
        tenant: str = "",
    ) -> None:
        """Report the starts and ends of a run's stages to the processors.

        A run on an engine has an execution, and may have a tenant.
        """
        run = _Run(state, execution, tenant)
        ends = tuple(one for one in changes if isinstance(one, StageEnded))
        for receiver in REGISTRATION.active:
            told = ends if receiver.unused >= _METHODS_OF_STARTS else changes
            if told:
                # Spans are made in the thread of the processor, to save the workflow's time.
                receiver.report(partial(self._report, (Inline(receiver),), run, told))

    def _report(self, receivers: Receivers, run: "_Run", changes: tuple[StageChange, ...]) -> None:
        hides = redaction_of(run.state) if changes else NOTHING
        for change in changes:
            scope = _scope(run, change.stage)
            if scope.disabled:
                continue
            if hides != NOTHING:
                scope = scope._replace(hides=hides)
            is_whole = change.stage.kind == "question" and not scope.is_joined
            trace = scope.trace(receivers) if is_whole else None
            span = self._span(scope, change.stage, receivers)
            if isinstance(change, StageBegun):
                if trace is not None:
                    trace.start()
                if span is not None:
                    span.start(at_seconds=change.stage.since_ms / 1000)
            else:
                if span is not None:
                    if scope.sensitive and isinstance(span.span_data, TaskSpanData):
                        _add_content(span.span_data, run.state, change.stage)
                    _end(span, scope, change)
                if trace is not None:
                    trace.restore()
                    trace.finish()

    def _span(self, scope: TraceScope, stage: Stage, receivers: Receivers) -> Span[Any] | None:
        parent_id: str | None = scope.inner_span_id
        error: SpanError | None = None
        if stage.kind == "question":
            data: SpanData = TaskSpanData(scope.task_name)
            span_id, parent_id = scope.task_span_id, scope.parent_span_id
        elif stage.kind == "agent":
            data, span_id = self._agent(stage.agent), scope.agent_span_id
            parent_id = scope.task_span_id or scope.parent_span_id
        elif stage.kind == "turn":
            data = TurnSpanData(stage.turn, stage.agent)
            span_id, parent_id = scope.turn_span_id, scope.agent_span_id
        elif stage.kind == "handoff":
            data = HandoffSpanData(stage.agent, stage.targets[0])
            span_id = handoff_span_id(scope.run_id, stage.handovers)
            if len(stage.targets) > 1:
                message = "The model requested several handoffs; only the first takes place."
                requested: dict[str, Any] = {"requested_agents": list(stage.targets)}
                error = SpanError(message=message, data=requested)
        elif stage.kind == "refused_call":  # the model made up what it says
            data = FunctionSpanData(cut(visible(stage.name), LONGEST_NAME), stage.arguments)
            span_id = derived_span_id("call", scope.run_id, stage.turn, stage.request)
        elif stage.kind == "wait":
            data = WaitSpanData(stage.name, stage.targets[0], stage.agent)
            span_id = derived_span_id("wait", scope.run_id, stage.request)
        elif stage.kind == "rating":  # of the answer, whose spans have ended
            data = RatingSpanData(int(stage.name), stage.arguments or None)
            span_id = derived_span_id("rating", scope.run_id, stage.request)
            parent_id = scope.task_span_id or scope.agent_span_id
        else:
            data = FunctionSpanData(stage.name, stage.arguments)
            span_id = effect_span_id(scope.run_id, stage.effect, 1, data.type)
        if span_id is None:
            return None
        span = scope.span(data, span_id, parent_id, receivers)
        span.error = error
        span.facts["stage"] = stage.kind
        if stage.kind == "refused_call":
            span.facts["call_id"] = stage.request.split(":", 2)[2]
        if stage.caller:
            span.facts["caller"] = stage.caller
        return span

    def _agent(self, name: str) -> AgentSpanData:
        agent_data = AgentSpanData(name)
        with suppress(Exception):  # the agent may be invalid, or defined by another worker only
            agent = self._registry.agent(name)
            agent_data.tools = self._registry.tool_names(agent.name)
            agent_data.handoffs = [entry.agent_name for entry in handoffs_of(agent)]
            schema = output_schema_of(agent.output_type)
            agent_data.output_type = schema.name() if schema is not None else "str"
        return agent_data


class _Run(NamedTuple):
    state: LoopState
    execution: str
    tenant: str


def _add_content(data: TaskSpanData, state: LoopState, stage: Stage) -> None:
    """Add a question and its answer to its span, from the state at its end."""
    if stage.question >= len(state.answers):
        return
    answer, newest = state.answers[stage.question], len(state.answers) - 1
    before = [one.item for one in state.answers[: stage.question] if one.item is not None]
    first = before[-1] + 1 if before else 0
    last = len(state.items) if answer.item is None else answer.item
    said = [one.raw for one in state.items[first:last] if one.kind == "input"]
    data.input = said or None
    if answer.failure is None and stage.question == newest:
        output = state.final_output
        data.output = placeholder(output) if is_reference(output) else output
    elif answer.failure is None and answer.item is not None:
        data.output = text_of(state.items[answer.item].raw)


def _scope(run: _Run, stage: Stage) -> TraceScope:
    return run_scope(
        run.state.start.settings,
        run.state.run_id,
        started_at_ms=run.state.start.started_at_ms,
        question=stage.question,
        agent=stage.agent,
        handovers=stage.handovers,
        turn=stage.turn,
    ).on_engine(execution=run.execution, tenant=run.tenant)


def _end(span: Span[Any], scope: TraceScope, over: StageEnded) -> None:
    span.restore(started_at_seconds=over.stage.since_ms / 1000)
    data = span.span_data
    if over.usage != NO_USAGE:
        span.facts["spent"] = over.usage
    if isinstance(data, TaskSpanData):
        data.usage = _usage(over.usage, of_task=True)
    elif isinstance(data, TurnSpanData):
        data.usage = _usage(over.usage)
    elif isinstance(data, HandoffSpanData):
        data.to_agent = over.target
    elif isinstance(data, FunctionSpanData):
        data.output = over.output
    elif isinstance(data, WaitSpanData):
        data.outcome, data.decided_by = over.output, over.by
    if over.failure is not None:
        if isinstance(data, TaskSpanData):  # the SDK's spans of tasks have no error
            span.facts["failure"] = over.failure.code
        else:
            span.set_error(failure_error(data, over.failure, scope))
    elif over.reported is not None:
        message, details = str(over.reported.get("message")), over.reported.get("data")
        span.set_error(SpanError(message=message, data=as_object(details)))
    span.finish(at_seconds=over.at_ms / 1000)


def failure_error(data: SpanData, failure: Failure, scope: TraceScope) -> SpanError:
    """Return the error of a span whose work failed."""
    if isinstance(data, FunctionSpanData):
        return tool_error(data.name, failure.message, failure.code, sensitive=scope.sensitive)
    message = failure.message if scope.sensitive else failure.code
    return SpanError(message=message, data={"code": failure.code})


def _usage(usage: Usage, *, of_task: bool = False) -> JsonObject | None:
    if usage == NO_USAGE:
        return None
    counts: JsonObject = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_input_tokens": usage.cached_tokens,
    }
    if of_task:
        counts |= {"requests": usage.requests, "total_tokens": usage.total_tokens}
    return counts
