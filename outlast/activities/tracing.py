"""Traces every attempt of an effect, in the process that carries it out.

The spans of turns and agents start and end with the stages of the run (`tracing/stage_spans.py`);
their ids are derived from fields of every effect, with or without a registered processor.
"""

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar, cast

from temporalio import activity

from outlast.activities.errors import LONGEST_MESSAGE_BYTES, EffectError, cut
from outlast.agents.items.call_outputs import output_content
from outlast.contract.effects import EffectRequest
from outlast.loop.call_forms import FUNCTION, output_item
from outlast.loop.calls import HandoffResult, ModelReply, ToolResult
from outlast.loop.effects import (
    AgentEffect,
    CallModel,
    CheckInput,
    Effect,
    FinalizeAnswer,
    PrepareRun,
    RunHandoff,
    RunTool,
)
from outlast.loop.phrases import as_text
from outlast.loop.values import Json, JsonObject
from outlast.tracing.current import Span
from outlast.tracing.effect_spans import (
    NO_SCOPE,
    TraceScope,
    around_effect,
    effect_span,
    handoff_span_id,
    outer_call,
    run_scope,
)
from outlast.tracing.kinds import FunctionSpanData, HandoffSpanData, tool_error
from outlast.tracing.origin import Origin, tenant_of
from outlast.tracing.receivers import REGISTRATION
from outlast.views.redaction import (
    NOTHING,
    Redaction,
    redaction_of_effect,
    with_call,
    with_reply,
)

T = TypeVar("T")


async def traced(
    request: EffectRequest[Effect], work: Callable[[], Awaitable[T]], *, attempt: int
) -> T:
    """Carry out an attempt of an effect, and trace it if a processor is registered."""
    if not REGISTRATION.active:
        return await work()
    effect = request.effect
    scope, number = scope_of_effect(effect)
    hides = redaction_of_effect(request.hidden)
    scope = scope._replace(origin=_origin(scope.origin, attempt), hides=_hiding(hides))
    handoff = None
    if isinstance(effect, RunHandoff):
        handoff = HandoffSpanData(effect.agent, effect.target)
    with around_effect(scope, effect=number, attempt=attempt, span_data=handoff) as around:
        if not isinstance(effect, RunTool):
            result = await work()
            if isinstance(result, ModelReply) and isinstance(effect, CallModel):
                around.hides = _hiding(with_reply(hides, effect.agent, result))
            if isinstance(result, HandoffResult) and around.is_recorded:
                return replace(result, reported=_reported(around))
            return result
        data = FunctionSpanData(effect.name, effect.arguments)
        with effect_span(scope, data, effect=effect.effect, attempt=attempt) as span:
            if span.is_recorded:
                span.facts["call_id"] = effect.call_id
            result = await _traced_call(effect, work, scope, span)
            if isinstance(result, ToolResult) and result.required is not None:
                span.hides = _hiding(with_call(hides, effect, result.required.terms.redact))
            return result


def _hiding(hides: Redaction) -> Redaction | None:
    return None if hides == NOTHING else hides


def _reported(span: Span[Any]) -> JsonObject | None:
    """Return the error that a program set in a span, for the process that ends the span."""
    error: object = span.error
    if not isinstance(error, dict):
        return None
    fields = cast("JsonObject", error)
    message = cut(str(fields.get("message")))
    with suppress(TypeError, ValueError, RecursionError):
        if len(json.dumps(fields.get("data"), allow_nan=False)) <= LONGEST_MESSAGE_BYTES:
            return {"message": message, "data": fields.get("data")}
    return {"message": message, "data": None}


async def _traced_call(
    effect: RunTool,
    work: Callable[[], Awaitable[T]],
    scope: TraceScope,
    span: Span[FunctionSpanData],
) -> T:
    try:
        result = await work()
    except EffectError as error:
        if span.error is None:
            found = tool_error(effect.name, error.message, error.code, sensitive=scope.sensitive)
            span.set_error(found)
        raise
    if isinstance(result, ToolResult):
        record_tool_result(span, effect, result)
    return result


def record_tool_result(span: Span[FunctionSpanData], effect: RunTool, result: ToolResult) -> None:
    """Record the output of a tool in the span of its call, and whether it failed."""
    span.span_data.output = _output(effect, result)
    if (result.failed or result.failure is not None) and span.error is None:
        message = result.failure.message if result.failure else as_text(result.output)
        error = tool_error(effect.name, message, "tool_failed", sensitive=span.sensitive)
        span.set_error(error)


def _origin(origin: Origin | None, attempt: int) -> Origin | None:
    """Return the origin of an attempt's spans, with what the engine says about the attempt."""
    if origin is None or not activity.in_activity():
        return None if origin is None else origin._replace(attempt=attempt)
    info = activity.info()
    queued = info.started_time - info.current_attempt_scheduled_time
    return origin._replace(
        attempt=attempt,
        execution=info.workflow_run_id or "",
        # The server gives no priority with an activity that a workflow task began here at once.
        tenant=info.priority.fairness_key or tenant_of(info.workflow_run_id or ""),
        queued_seconds=None if info.is_local else max(queued.total_seconds(), 0.0),
    )


def scope_of_effect(effect: Effect) -> tuple[TraceScope, int]:
    """Return the trace scope of an effect's spans, and the effect's number there.

    The preparation of a nested run belongs to the call that started the run. The preparation of
    any other run, and effects without an agent, are not traced, because they have no question.
    """
    if not isinstance(effect, AgentEffect):
        return NO_SCOPE, 0
    scope = run_scope(
        effect.settings,
        effect.run_id,
        started_at_ms=effect.started_at_ms,
        question=effect.question,
        agent=effect.agent,
        handovers=effect.handovers,
        turn=_turn(effect),
    )
    if isinstance(effect, RunHandoff):
        span_id = handoff_span_id(scope.run_id, effect.handovers)
        return scope._replace(turn_span_id=span_id), effect.effect
    if not isinstance(effect, PrepareRun):
        return scope, effect.effect
    outer = outer_call(effect.settings)
    if outer is None:
        return NO_SCOPE, 0
    return scope._replace(run_id=outer.key, turn_span_id=outer.span_id), outer.effect


def _turn(effect: Effect) -> int:
    """Return the turn of an effect; 0 outside of turns.

    The input of a question is checked in its first turn, and later input between turns. A failure
    that goes to an error handler has ended its turn.
    """
    if isinstance(effect, CheckInput):
        return 0 if effect.stage == "added" else max(effect.turn, 1)
    if isinstance(effect, FinalizeAnswer) and effect.candidate.failure is not None:
        return 0
    return effect.turn if isinstance(effect, CallModel | RunTool | FinalizeAnswer) else 0


def _output(effect: RunTool, result: ToolResult) -> Json:
    if effect.form == FUNCTION:
        return result.output
    return output_content(output_item(effect.call_id, result.output, effect.form))
