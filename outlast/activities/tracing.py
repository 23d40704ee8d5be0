"""The spans of effects: what only the process knows that carries an attempt out.

Owns: `traced`, which goes around every attempt of every effect: what its code opens is inside the
span of its turn, and a tool call has a span of its own. What effects tell of what they do inside is
in `inner_spans`. Must not know: how an effect is carried out, Temporal.

The spans around these begin and end with the stages of the run: see `tracing/stage_spans.py`. Their
ids are derived from what every effect says of itself, whether or not anybody listens.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from outlast.activities.errors import EffectError
from outlast.agents.items.call_outputs import said_by
from outlast.contract.effects import EffectRequest
from outlast.loop.call_forms import FUNCTION, output_item
from outlast.loop.calls import ToolResult
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
from outlast.loop.values import Json
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
from outlast.tracing.kinds import FunctionSpanData, SpanError
from outlast.tracing.receivers import REGISTRATION

T = TypeVar("T")


async def traced(
    request: EffectRequest[Effect], work: Callable[[], Awaitable[T]], *, attempt: int
) -> T:
    """Carry out an attempt of an effect, and tell of it whoever listens.

    Args:
        request: the effect's.
        work: carries the effect out.
        attempt: 1 for the first try.
    """
    if not REGISTRATION.active:
        return await work()
    asked = request.effect
    scope, number = _place(asked)
    with around_effect(scope, effect=number, attempt=attempt):
        if not isinstance(asked, RunTool):
            return await work()
        data = FunctionSpanData(asked.name, asked.arguments)
        with effect_span(scope, data, effect=asked.effect, attempt=attempt) as span:
            return await _carried_out(asked, work, scope, span)


async def _carried_out(
    asked: RunTool,
    work: Callable[[], Awaitable[T]],
    scope: TraceScope,
    span: Span[FunctionSpanData],
) -> T:
    """Carry a tool call out, and say in its span what it came to."""
    try:
        result = await work()
    except EffectError as error:
        span.set_error(_error(scope, error.message, error.code))
        raise
    if isinstance(result, ToolResult):
        span.span_data.output = _said(asked, result)
        if (result.failed or result.failure is not None) and span.error is None:
            message = result.failure.message if result.failure else as_text(result.output)
            span.set_error(_error(scope, message, "tool_failed"))
    return result


def _place(asked: Effect) -> tuple[TraceScope, int]:
    """Return where what an effect opens belongs, and the number of the effect there.

    What prepares a nested run belongs to the call that the run answers. What prepares any other
    run, or is no agent's, is told to nobody: it has no question.
    """
    if not isinstance(asked, AgentEffect):
        return NO_SCOPE, 0
    outer = outer_call(asked.settings)
    scope = run_scope(
        asked.settings,
        asked.run_id,
        started_at_ms=asked.started_at_ms,
        question=asked.question,
        agent=asked.agent,
        handovers=asked.handovers,
        turn=_turn(asked),
    )
    if isinstance(asked, RunHandoff):
        return replace(
            scope, turn_span_id=handoff_span_id(scope.run_id, asked.handovers)
        ), asked.effect
    if not isinstance(asked, PrepareRun):
        return scope, asked.effect
    if outer is None:
        return NO_SCOPE, 0
    return replace(scope, run_id=outer.key, turn_span_id=outer.span_id), outer.effect


def _turn(asked: Effect) -> int:
    """Return the turn of an effect; 0 outside of turns.

    What a question begins with is checked in its first turn, what is said later between turns. A
    failure that a handler may answer has ended its turn.
    """
    if isinstance(asked, CheckInput):
        return 0 if asked.stage == "added" else max(asked.turn, 1)
    if isinstance(asked, FinalizeAnswer) and asked.candidate.failure is not None:
        return 0
    return asked.turn if isinstance(asked, CallModel | RunTool | FinalizeAnswer) else 0


def _said(asked: RunTool, result: ToolResult) -> Json:
    """Return what a call came to, in words where its form has some."""
    if asked.form == FUNCTION:
        return result.output
    return said_by(output_item(asked.call_id, result.output, asked.form))


def _error(scope: TraceScope, message: str, code: str) -> SpanError:
    return SpanError(message=message if scope.sensitive else code, data={"code": code})
