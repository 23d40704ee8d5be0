"""Telling of a run's steps: which spans begin and end with which effect.

Owns: `traced`, which goes around every attempt of every effect. What effects tell of what they do
inside is in `inner_spans`. How an effect is carried out is not known here, nor is Temporal.

A run is traced if somebody listens at the worker that prepares it; its effects then carry marks.
An agent's span begins with the first effect after it took the run in hand, and ends with its
handoff or its conclusion. So in a run that is traced every handoff and every end of a question is
an activity, also where nobody else has anything to run then; nothing else differs. The spans of a
run that ends between activities stay open: of one that is cancelled, or loses its worker for good.
"""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from time import time_ns
from typing import Any, TypeVar, cast

from outlast.activities.errors import EffectError
from outlast.activities.worker_knowledge import WorkerKnowledge
from outlast.agents.agent_output import output_schema_of
from outlast.agents.registry import handoffs_of
from outlast.contract.names import SETTING_AS_TOOL, TRACE
from outlast.contract.policies import policy_of
from outlast.contract.records import (
    ConclusionRequestRecord,
    HandoffRequestRecord,
    ModelRequestRecord,
    SaveRequestRecord,
)
from outlast.loop.calls import Briefing, HandoffResult, ToolResult
from outlast.loop.checks import Conclusion
from outlast.loop.commands import CallModel, CheckInput, Conclude, PrepareRun, RunHandoff, RunTool
from outlast.loop.phrases import as_text
from outlast.loop.trace_mark import TraceMark
from outlast.loop.values import Failure, JsonObject
from outlast.ports.effect_spans import (
    NO_SCOPE,
    TraceScope,
    agent_span_id,
    around_effect,
    begin_agent_span,
    begin_run_trace,
    effect_span,
    effect_span_id,
    end_agent_span,
    end_run_trace,
    scope_of,
    tell_effect_span,
)
from outlast.ports.receivers import REGISTRATION
from outlast.ports.spans import (
    AgentSpanData,
    FunctionSpanData,
    HandoffSpanData,
    SpanError,
)

T = TypeVar("T")

_Marked = CallModel | CheckInput | RunTool | RunHandoff | Conclude
"""The effects that have a place in a trace and an activity."""


async def traced(
    worker: WorkerKnowledge, request: object, work: Callable[[], Awaitable[T]], *, attempt: int
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
    if isinstance(request, PrepareRun):
        return await _prepared(request, work, attempt)
    asked = _asked(request)
    if asked is None or asked.trace is None:
        with around_effect(NO_SCOPE, effect=0):
            return await work()
    steps = _Steps(worker, asked, asked.trace, _scope(asked, asked.trace), attempt)
    with around_effect(steps.scope, effect=asked.effect, attempt=attempt):
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

    worker: WorkerKnowledge
    asked: _Marked
    mark: TraceMark
    scope: TraceScope
    attempt: int
    _open: Any = None

    def begin(self) -> None:
        if self.mark.begins == "trace":
            begin_run_trace(self.scope)
        if self.mark.begins is not None:
            begin_agent_span(self.scope, self._agent(), at_ms=self.mark.since_ms)

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
        if isinstance(result, ToolResult):
            self._open.span_data.output = result.output
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
            self._end_agent(None)
        elif isinstance(result, Conclusion) and isinstance(self.asked, Conclude):
            candidate = self.asked.candidate
            declined = result.declined or not result.final
            if declined and candidate.failure is None:
                return  # the model goes on
            output = result.output if result.replaced else candidate.output
            self._end_question(candidate.failure if declined else result.failure, as_text(output))

    def end_failed(self, error: EffectError) -> None:
        """End what is over because this attempt failed; a repetition, or a handler, may follow."""
        tries = policy_of(self.asked).attempts
        tries = tries if error.attempts is None else min(tries, error.attempts)
        if isinstance(self.asked, Conclude) and (not error.retryable or self.attempt >= tries):
            failure = self.asked.candidate.failure or Failure(
                code=error.code, message=error.message
            )
            self._end_question(failure, None)

    def _end_question(self, failure: Failure | None, output: str | None) -> None:
        error = None if failure is None else self._error(failure.message, code=failure.code)
        self._end_agent(error)
        around = _around(self.asked.settings)
        if around is not None:
            _tell_call(around, self.scope, self.asked.settings, self.mark, output, error)
        end_run_trace(self.scope)

    def _end_agent(self, error: SpanError | None) -> None:
        end_agent_span(
            self.scope,
            self._agent(),
            started_at_ms=self.mark.since_ms,
            at_ms=max(_now_ms(), self.mark.since_ms),
            error=error,
        )

    def _agent(self) -> AgentSpanData:
        told = AgentSpanData(self.asked.agent)
        with suppress(Exception):  # an agent that is no good is the effect's to tell
            agent = self.worker.registry.agent(self.asked.agent)
            told.tools = [tool.name for tool in agent.tools]
            told.handoffs = [entry.agent_name for entry in handoffs_of(agent)]
            schema = output_schema_of(agent.output_type)
            told.output_type = schema.name() if schema is not None else "str"
        return told

    def _error(self, message: str, *, code: str) -> SpanError:
        return _span_error(self.scope, message, code)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outer:
    """Where the call that a nested run answers belongs."""

    key: str
    root: str
    agent: str
    handovers: int
    effect: int

    @property
    def span_id(self) -> str:
        return effect_span_id(self.key, self.effect, 1, "function")


def _asked(request: object) -> _Marked | None:
    if isinstance(request, ModelRequestRecord | HandoffRequestRecord | ConclusionRequestRecord):
        return request.call
    if isinstance(request, SaveRequestRecord) or not isinstance(request, _Marked):
        return None
    return request


def _scope(asked: _Marked, mark: TraceMark) -> TraceScope:
    around = _around(asked.settings)
    return scope_of(
        asked.settings,
        mark.key(asked.run_id),
        agent=asked.agent,
        handovers=mark.handovers,
        root_run_id=around.root if around is not None else None,
        parent_span_id=around.span_id if around is not None else None,
    )


def _around(settings: JsonObject | None) -> _Outer | None:
    """Return the call that the run answers, where the run of that call is traced."""
    call: Any = (settings or {}).get(SETTING_AS_TOOL)
    told: Any = cast("JsonObject", call).get(TRACE) if isinstance(call, dict) else None
    if not isinstance(told, dict):
        return None
    place = cast("JsonObject", told)
    return _Outer(
        key=str(place.get("key")),
        root=str(place.get("root")),
        agent=str(cast("JsonObject", call).get("agent")),
        handovers=int(place.get("handovers", 0)),
        effect=int(place.get("effect", 0)),
    )


async def _prepared(request: PrepareRun, work: Callable[[], Awaitable[T]], attempt: int) -> T:
    """Prepare a run, and say whether it is traced: a nested run, if the outer one is."""
    settings = request.settings or {}
    around = _around(settings)
    is_nested = SETTING_AS_TOOL in settings
    is_traced = settings.get("tracing_disabled") is not True and (
        around is not None or not is_nested
    )
    if around is None or not is_traced:
        with around_effect(NO_SCOPE, effect=0):
            result = await work()
    else:
        scope = scope_of(
            settings,
            around.key,
            agent=around.agent,
            handovers=around.handovers,
            root_run_id=around.root,
        )
        tool = cast("JsonObject", settings[SETTING_AS_TOOL])
        data = FunctionSpanData(str(tool.get("tool")), str(tool.get("arguments")))
        started_at_ms = _now_ms()
        with around_effect(scope, effect=around.effect, attempt=attempt):
            try:
                result = await work()
            except EffectError as error:
                failed = _span_error(scope, error.message, error.code)
                tell_effect_span(
                    scope, data, effect=around.effect, started_at_ms=started_at_ms, error=failed
                )
                raise
    if is_traced and isinstance(result, Briefing):
        return cast("T", replace(result, traced=True))
    return result


def _tell_call(
    around: _Outer,
    scope: TraceScope,
    settings: JsonObject | None,
    mark: TraceMark,
    output: str | None,
    error: SpanError | None,
) -> None:
    """Tell of the call that a nested run has answered, which had no activity of its own."""
    tool = cast("JsonObject", (settings or {})[SETTING_AS_TOOL])
    data = FunctionSpanData(str(tool.get("tool")), str(tool.get("arguments")), output)
    outer = replace(
        scope,
        run_id=around.key,
        agent_span_id=agent_span_id(around.key, around.agent, around.handovers),
    )
    tell_effect_span(
        outer, data, effect=around.effect, started_at_ms=mark.started_at_ms, error=error
    )


def _span_error(scope: TraceScope, message: str, code: str) -> SpanError:
    return SpanError(message=message if scope.sensitive else code, data={"code": code})


def _now_ms() -> int:
    return time_ns() // 1_000_000
