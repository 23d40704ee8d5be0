"""Telling of a run's steps: which spans begin and end with which effect.

Owns: `traced`, which goes around every attempt of every effect. What effects tell of what they do
inside is in `inner_spans`. How an effect is carried out is not known here, nor is Temporal.

A run is traced if somebody listens at the worker that prepares it; its effects then carry marks.
An agent's span begins with the first effect after it took the run in hand, and ends with its
handoff or its conclusion. So in a run that is traced every handoff and every end of a question is
an activity, also where nobody else has anything to run then; nothing else differs. A turn's span
begins with its first effect. No effect knows that it is a turn's last, so the first effect after it
tells of its end, unless that is known: a handoff ends its turn, and a conclusion does, once the
answer is ready to be checked. A question that was stopped is concluded, too, before its run closes.
"""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from time import time_ns
from typing import Any, TypeVar, cast

from outlast.activities.errors import EffectError
from outlast.activities.nested_spans import OuterPlace, outer_place
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.items.call_outputs import said_by
from outlast.agents.registry import handoffs_of
from outlast.agents.schemas.agent_output import output_schema_of
from outlast.contract.effects import EffectRequest, kind_of
from outlast.contract.failures import MAX_TURNS_EXCEEDED
from outlast.contract.names import SETTING_AS_TOOL
from outlast.loop.call_forms import FUNCTION, output_item
from outlast.loop.calls import HandoffResult, PreparedRun, ToolResult
from outlast.loop.checks import FinalizedAnswer
from outlast.loop.effects import (
    CallModel,
    CheckInput,
    Effect,
    FinalizeAnswer,
    PrepareRun,
    RunHandoff,
    RunTool,
)
from outlast.loop.phrases import as_text
from outlast.loop.trace_mark import TraceMark, TurnMark
from outlast.loop.values import NO_USAGE, Failure, Json, JsonObject, Usage
from outlast.tracing.effect_spans import (
    NO_SCOPE,
    TraceScope,
    around_effect,
    effect_span,
    leave_turn,
    scope_of,
)
from outlast.tracing.kinds import (
    AgentSpanData,
    FunctionSpanData,
    HandoffSpanData,
    SpanError,
    TurnSpanData,
)
from outlast.tracing.receivers import REGISTRATION
from outlast.tracing.run_spans import (
    begin_agent_span,
    begin_run_trace,
    begin_task_span,
    begin_turn_span,
    end_agent_span,
    end_run_trace,
    end_task_span,
    end_turn_span,
)

T = TypeVar("T")

_Marked = CallModel | CheckInput | RunTool | RunHandoff | FinalizeAnswer
"""The effects that have a place in a trace and an activity."""


async def traced(
    worker: WorkerDeps,
    request: EffectRequest[Effect],
    work: Callable[[], Awaitable[T]],
    *,
    attempt: int,
) -> T:
    """Carry out an attempt of an effect, and tell of it whoever listens.

    Args:
        worker: the definitions.
        request: the effect's.
        work: carries the effect out.
        attempt: 1 for the first try.
    """
    if not REGISTRATION.active:
        return await work()
    asked = request.effect
    if isinstance(asked, PrepareRun):
        return await _prepared(asked, work, attempt)
    if not isinstance(asked, _Marked) or asked.trace is None:
        with around_effect(NO_SCOPE, effect=0):
            return await work()
    steps = _Steps(worker, asked, asked.trace, _scope(asked, asked.trace), attempt)
    with around_effect(
        steps.scope, effect=asked.effect, attempt=attempt, turn_over=steps.turn_over
    ):
        steps.begin()
        try:
            with steps.span():
                result = await steps.carry_out(work)
        except EffectError as error:
            steps.end_failed(error)
            raise
        steps.end(result)
        return result


@dataclass
class _Steps:
    """What begins and ends with one attempt of an effect."""

    worker: WorkerDeps
    asked: _Marked
    mark: TraceMark
    scope: TraceScope
    attempt: int
    _open: Any = None

    def begin(self) -> None:
        """Tell what is over by now, and what begins."""
        mark = self.mark
        if mark.begins == "trace":
            begin_run_trace(self.scope)
            begin_task_span(self.scope, at_ms=mark.asked_ms or mark.since_ms)
        if mark.begins in {"trace", "agent"}:
            begin_agent_span(self.scope, self._agent(), at_ms=mark.since_ms)
        if mark.ended is not None:
            self._end_turn(mark.ended, mark.turn.since_ms if mark.turn else self._now_ms())
        if mark.begins is not None and mark.turn is not None:
            turn = TurnSpanData(mark.turn.number, self.asked.agent)
            begin_turn_span(self.scope, turn, at_ms=mark.turn.since_ms)
        failure = self.asked.candidate.failure if isinstance(self.asked, FinalizeAnswer) else None
        if failure is not None:
            is_turns_own = failure.code != MAX_TURNS_EXCEEDED
            leave_turn(self._error(failure.message, code=failure.code) if is_turns_own else None)

    def turn_over(self, error: SpanError | None) -> None:
        """Tell of the end of the turn that the effect is in."""
        if self.mark.turn is not None:
            self._end_turn(self.mark.turn, self._now_ms(), error)

    @contextmanager
    def span(self) -> Generator[None]:
        """Open the effect's own span, where it has one."""
        asked = self.asked
        if isinstance(asked, RunTool):
            data: Any = FunctionSpanData(asked.name, asked.arguments)
        elif isinstance(asked, RunHandoff):
            data = HandoffSpanData(asked.agent, asked.target)
        else:
            yield
            return
        opened = effect_span(self.scope, data, effect=asked.effect, attempt=self.attempt)
        with opened as self._open:
            yield

    async def carry_out(self, work: Callable[[], Awaitable[T]]) -> T:
        """Carry the effect out, and tell in its span what it came to."""
        try:
            result = await work()
        except EffectError as error:
            if self._open is not None:
                self._open.set_error(self._error(error.message, code=error.code))
            raise
        self._tell_result(result)
        return result

    def _tell_result(self, result: object) -> None:
        if isinstance(result, ToolResult) and isinstance(self.asked, RunTool):
            self._open.span_data.output = _said(self.asked, result)
            is_bad = result.failed or result.failure is not None
            if is_bad and self._open.error is None:
                message = result.failure.message if result.failure else as_text(result.output)
                self._open.set_error(self._error(message, code="tool_failed"))
        elif isinstance(result, HandoffResult) and isinstance(self.asked, RunHandoff):
            self._open.span_data.to_agent = result.target or self.asked.target
            if self.asked.rivals:
                others = [self.asked.target, *self.asked.rivals]
                message = "The model asked for several handoffs; the first one counts."
                self._open.set_error(SpanError(message=message, data={"requested_agents": others}))

    def end(self, result: object) -> None:
        """End what is over with this result."""
        if isinstance(result, HandoffResult):
            leave_turn()
            self._end_agent(None)
        elif isinstance(result, FinalizedAnswer) and isinstance(self.asked, FinalizeAnswer):
            candidate = self.asked.candidate
            declined = result.declined or not result.final
            if declined and candidate.failure is None:
                return  # the model goes on
            leave_turn()
            output = result.output if result.replaced else candidate.output
            self._end_question(candidate.failure if declined else result.failure, as_text(output))

    def end_failed(self, error: EffectError) -> None:
        """End what is over because this attempt failed; a repetition, or a handler, may follow."""
        tries = kind_of(self.asked).policy(self.asked).attempts
        tries = tries if error.attempts is None else min(tries, error.attempts)
        if isinstance(self.asked, FinalizeAnswer) and (
            not error.retryable or self.attempt >= tries
        ):
            failure = self.asked.candidate.failure or Failure(
                code=error.code, message=error.message
            )
            leave_turn(self._error(failure.message, code=failure.code))
            self._end_question(failure, None)

    def _end_question(self, failure: Failure | None, output: str | None) -> None:
        error = None if failure is None else self._error(failure.message, code=failure.code)
        self._end_agent(error)
        mark = self.mark
        end_task_span(
            self.scope,
            started_at_ms=mark.asked_ms or mark.since_ms,
            at_ms=self._now_ms(),
            usage=_task_usage(_spent(mark.spent, self.asked.usage)),
        )
        outer = outer_place(self.asked.settings)
        if outer is not None:
            outer.tell(self.scope, started_at_ms=mark.started_at_ms, output=output, error=error)
        end_run_trace(self.scope)

    def _end_agent(self, error: SpanError | None) -> None:
        end_agent_span(
            self.scope,
            self._agent(),
            started_at_ms=self.mark.since_ms,
            at_ms=self._now_ms(),
            error=error,
        )

    def _now_ms(self) -> int:
        """Return the time, but no earlier one than that of what has begun."""
        begun = self.mark.turn.since_ms if self.mark.turn else self.mark.since_ms
        return max(_now_ms(), begun)

    def _end_turn(self, turn: TurnMark, at_ms: int, error: SpanError | None = None) -> None:
        usage = _turn_usage(_spent(turn.spent, self.asked.usage))
        end_turn_span(
            self.scope.in_turn(turn.number),
            TurnSpanData(turn.number, self.asked.agent, usage),
            started_at_ms=turn.since_ms,
            at_ms=max(at_ms, turn.since_ms),
            error=error,
        )

    def _agent(self) -> AgentSpanData:
        told = AgentSpanData(self.asked.agent)
        with suppress(Exception):  # an agent that is no good is the effect's to tell
            agent = self.worker.registry.agent(self.asked.agent)
            told.tools = self.worker.registry.tool_names(agent.name)
            told.handoffs = [entry.agent_name for entry in handoffs_of(agent)]
            schema = output_schema_of(agent.output_type)
            told.output_type = schema.name() if schema is not None else "str"
        return told

    def _error(self, message: str, *, code: str) -> SpanError:
        return _span_error(self.scope, message, code)


def _scope(asked: _Marked, mark: TraceMark) -> TraceScope:
    outer = outer_place(asked.settings)
    return scope_of(
        asked.settings,
        mark.key(asked.run_id),
        agent=asked.agent,
        handovers=mark.handovers,
        turn=mark.turn.number if mark.turn is not None else 0,
        root_run_id=outer.root if outer is not None else None,
        parent_span_id=outer.span_id if outer is not None else None,
        task_name=outer.task_name if outer is not None else None,
    )


async def _prepared(request: PrepareRun, work: Callable[[], Awaitable[T]], attempt: int) -> T:
    """Prepare a run, and say whether it is traced: a nested run, if the outer one is."""
    settings = request.settings or {}
    outer = outer_place(settings)
    is_nested = SETTING_AS_TOOL in settings
    is_traced = settings.get("tracing_disabled") is not True and (
        outer is not None or not is_nested
    )
    if outer is None or not is_traced:
        with around_effect(NO_SCOPE, effect=0):
            result = await work()
    else:
        result = await _prepared_within(outer, settings, work, attempt)
    if is_traced and isinstance(result, PreparedRun):
        return cast("T", replace(result, traced=True))
    return result


async def _prepared_within(
    outer: OuterPlace, settings: JsonObject, work: Callable[[], Awaitable[T]], attempt: int
) -> T:
    """Prepare a nested run, or tell that the call that it answers has failed already."""
    scope = outer.scope(scope_of(settings, outer.key, agent=outer.agent, root_run_id=outer.root))
    started_at_ms = _now_ms()
    with around_effect(scope, effect=outer.effect, attempt=attempt):
        try:
            return await work()
        except EffectError as error:
            failed = _span_error(scope, error.message, error.code)
            outer.tell(scope, started_at_ms=started_at_ms, error=failed)
            raise


def _said(asked: RunTool, result: ToolResult) -> Json:
    """Return what a call came to, in words where its form has some."""
    if asked.form == FUNCTION:
        return result.output
    return said_by(output_item(asked.call_id, result.output, asked.form))


def _span_error(scope: TraceScope, message: str, code: str) -> SpanError:
    return SpanError(message=message if scope.sensitive else code, data={"code": code})


def _spent(before: Usage, now: Usage) -> Usage:
    return Usage(
        requests=now.requests - before.requests,
        input_tokens=now.input_tokens - before.input_tokens,
        output_tokens=now.output_tokens - before.output_tokens,
        total_tokens=now.total_tokens - before.total_tokens,
        cached_tokens=now.cached_tokens - before.cached_tokens,
        reasoning_tokens=now.reasoning_tokens - before.reasoning_tokens,
    )


def _turn_usage(usage: Usage) -> JsonObject | None:
    """Return what a turn has spent as its span tells it; None for nothing."""
    if usage == NO_USAGE:
        return None
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_input_tokens": usage.cached_tokens,
    }


def _task_usage(usage: Usage) -> JsonObject | None:
    turn = _turn_usage(usage)
    if turn is None:
        return None
    return {**turn, "requests": usage.requests, "total_tokens": usage.total_tokens}


def _now_ms() -> int:
    return time_ns() // 1_000_000
