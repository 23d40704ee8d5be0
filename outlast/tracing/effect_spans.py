"""The spans of effects, and the derived ids of all traces and spans.

Ids are derived from the run, effect and attempt, so that several processes agree on them: one
worker may start an agent's span and another end it. A retry has a span of its own; an attempt that
is reported twice has the same id both times.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from outlast.agents.config.run_config import DEFAULT_WORKFLOW_NAME
from outlast.agents.json_values import as_object, as_text
from outlast.contract.names import (
    SETTING_AS_TOOL,
    SETTING_CALLER,
    SETTING_CUSTOMER,
    TRACE,
    question_key,
    run_of_key,
    tells_turns,
)
from outlast.loop.values import JsonObject
from outlast.tracing.current import (
    CURRENT,
    NO_ID,
    NO_SPAN,
    Current,
    Hides,
    Span,
    Trace,
    derived_span_id,
    derived_trace_id,
)
from outlast.tracing.kinds import DiscardedData, SpanData
from outlast.tracing.origin import Origin
from outlast.tracing.receivers import REGISTRATION, Receivers

D = TypeVar("D", bound=SpanData)


class TraceScope(NamedTuple):
    """The place of an agent's effects in a trace; tasks and turns have no span where the id is None."""

    run_id: str
    trace_id: str
    agent_span_id: str
    workflow_name: str = DEFAULT_WORKFLOW_NAME
    group_id: str | None = None
    metadata: JsonObject | None = None
    disabled: bool = False
    sensitive: bool = True
    turn_span_id: str | None = None
    task_span_id: str | None = None
    task_name: str = DEFAULT_WORKFLOW_NAME
    parent_span_id: str | None = None
    is_joined: bool = False
    origin: Origin | None = None
    hides: Hides | None = None

    def on_engine(self, *, execution: str, tenant: str) -> "TraceScope":
        """Return the scope with the execution and the tenant of a run on an engine."""
        if self.origin is None:
            return self
        return self._replace(origin=self.origin._replace(execution=execution, tenant=tenant))

    @property
    def effects_key(self) -> str:
        """What the ids of effects' spans are derived from.

        It names the execution, because a run that was reset carries out its effects again.
        """
        execution = self.origin.execution if self.origin is not None else ""
        return f"{self.run_id}#{execution}" if execution else self.run_id

    @property
    def inner_span_id(self) -> str:
        """The id of the parent span of the effects' spans."""
        return self.turn_span_id or self.agent_span_id

    def in_turn(self, number: int) -> "TraceScope":
        """Return the scope of a turn's effects; 0 for effects outside of turns."""
        if number <= 0 or self.task_span_id is None:
            return self if self.turn_span_id is None else self._replace(turn_span_id=None)
        return self._replace(turn_span_id=turn_span_id(self.run_id, number))

    def trace(self, receivers: Receivers | None = None) -> Trace:
        """Return an object for the run's trace."""
        return Trace(
            self.workflow_name,
            trace_id=self.trace_id,
            group_id=self.group_id,
            metadata=self.metadata,
            disabled=self.disabled,
            receivers=receivers,
            origin=self.origin,
        )

    def span(
        self, span_data: D, span_id: str, parent_id: str | None, receivers: Receivers
    ) -> Span[D]:
        """Return an object for a span of the run, whose id is derived."""
        return Span(
            self.trace(),
            span_data,
            span_id=span_id,
            parent_id=parent_id,
            receivers=receivers,
            sensitive=self.sensitive,
            durable=True,
            hides=self.hides,
        )


NO_SCOPE = TraceScope(run_id="", trace_id=NO_ID, agent_span_id=NO_ID, disabled=True)
"""The scope of effects that belong to no question."""


class _Settings:
    """The settings of a run as a part of a cache's key."""

    __slots__ = ("value",)

    def __init__(self, value: JsonObject | None) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Settings) and (
            self.value is other.value or self.value == other.value
        )

    def __hash__(self) -> int:
        return 0


def scope_of(
    settings: JsonObject | None, run_id: str, *, agent: str, handovers: int = 0
) -> TraceScope:
    """Return the place of an agent's effects in a trace, outside of turns.

    The settings may be hand-written, so invalid values are ignored. The number of handoffs before,
    `handovers`, is part of the agent span's id: an agent that becomes active again has a second span.
    """
    settings_of_run = settings or {}
    outer = outer_call(settings)
    root = run_id if outer is None else outer.root
    outer_span_id = as_text(settings_of_run.get("trace_parent_id"))
    name = as_text(settings_of_run.get("workflow_name"))
    own_name = as_text(settings_of_run.get("trace_task_name"))
    if own_name is None and settings_of_run.get("trace_joined") is not True:
        own_name = name  # in a joined trace, `workflow_name` is the trace's name
    if outer is not None:
        outer_span_id, own_name = outer.span_id, outer.task_name or own_name
    return TraceScope(
        run_id=run_id,
        trace_id=as_text(settings_of_run.get("trace_id")) or derived_trace_id("run", root),
        workflow_name=name or DEFAULT_WORKFLOW_NAME,
        group_id=as_text(settings_of_run.get("group_id")),
        metadata=as_object(settings_of_run.get("trace_metadata")),
        disabled=settings_of_run.get("tracing_disabled") is True,
        sensitive=settings_of_run.get("trace_include_sensitive_data") is not False,
        agent_span_id=agent_span_id(run_id, agent, handovers),
        task_span_id=derived_span_id("task", run_id) if tells_turns(settings_of_run) else None,
        task_name=own_name or DEFAULT_WORKFLOW_NAME,
        parent_span_id=outer_span_id,
        is_joined=settings_of_run.get("trace_joined") is True or root != run_id,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OuterCall:
    """The tool call of the parent run that started a nested run.

    `key` and `root` are the keys of the questions of the parent run and the root run.
    """

    key: str
    root: str
    effect: int
    task_name: str | None

    @property
    def span_id(self) -> str:
        """The id of the call's span."""
        return effect_span_id(self.key, self.effect, 1, "function")


def outer_call(settings: JsonObject | None) -> OuterCall | None:
    """Return the call that started a nested run, or None for a run without a parent."""
    as_tool = as_object((settings or {}).get(SETTING_AS_TOOL)) or {}
    call = as_object(as_tool.get(TRACE))
    if call is None:
        return None
    key, effect = str(call.get("key")), call.get("effect")
    return OuterCall(
        key=key,
        root=str(call.get("root", key)),
        effect=effect if isinstance(effect, int) else 0,
        task_name=str(call["task"] or DEFAULT_WORKFLOW_NAME) if "task" in call else None,
    )


def run_scope(
    settings: JsonObject | None,
    run_id: str,
    *,
    started_at_ms: int,
    question: int,
    agent: str,
    handovers: int = 0,
    turn: int = 0,
) -> TraceScope:
    """Return the trace scope of a moment in a run, which may be a nested run."""
    given = _Settings(settings)
    scope = _scope_of_question(given, run_id, started_at_ms, question, agent, handovers)
    return scope.in_turn(turn)


@lru_cache(maxsize=512)
def _scope_of_question(
    given: _Settings, run_id: str, started_at_ms: int, question: int, agent: str, handovers: int
) -> TraceScope:
    """Return the scope of an agent's work on a question, outside of turns."""
    settings, key = given.value, question_key(run_id, started_at_ms, question)
    outer = outer_call(settings)
    customer: JsonObject = (settings or {}).get(SETTING_CUSTOMER) or {}
    origin = Origin(
        run_id=run_id,
        root_id=run_id if outer is None else run_of_key(outer.root),
        question=question,
        agent=agent,
        customer=as_text(customer.get("id")) or "",
        caller=as_text((settings or {}).get(SETTING_CALLER)) or "",
    )
    scope = scope_of(settings, key, agent=agent, handovers=handovers)
    return scope._replace(origin=origin)


def agent_span_id(run_id: str, agent: str, handovers: int = 0) -> str:
    """Return the id of the span of a run's active agent."""
    return derived_span_id("agent", run_id, agent, handovers)


@lru_cache(maxsize=1024)
def turn_span_id(run_id: str, number: int) -> str:
    """Return the id of the span of a turn."""
    return derived_span_id("turn", run_id, number)


def handoff_span_id(run_id: str, handovers: int) -> str:
    """Return the id of the span of a handoff, given the number of earlier handoffs."""
    return derived_span_id("handoff", run_id, handovers)


def effect_span(
    scope: TraceScope, span_data: D, *, effect: int, attempt: int = 1, part: str | int = ""
) -> Span[D]:
    """Return the span of an effect, a child of its turn's span, as a context manager.

    Fill in the data through `span_data`, not through the span: without a processor, the span is a
    shared object that stores nothing. An exception that leaves the block becomes the span's error;
    use `set_error` for a failure that is handled inside.
    """
    receivers = REGISTRATION.active
    if not receivers:
        return NO_SPAN
    if scope.disabled:
        # A span object is needed, so that spans opened inside find that tracing is disabled.
        return Span(scope.trace(), span_data, span_id=NO_ID)
    span_id = effect_span_id(scope.effects_key, effect, attempt, span_data.type, part)
    return scope.span(span_data, span_id, scope.inner_span_id, receivers)


def effect_span_id(run_id: str, effect: int, attempt: int, kind: str, part: str | int = "") -> str:
    """Return the id of the span of an effect; the arguments are those of `effect_span`."""
    return derived_span_id("effect", run_id, effect, attempt, kind, part)


@contextmanager
def around_effect(
    scope: TraceScope, *, effect: int, attempt: int = 1, span_data: SpanData | None = None
) -> "Generator[SpanAround]":
    """Make the span of the turn or handoff the current span for the code of an effect.

    Spans that the code opens become children of the turn's span, with ids derived from the attempt.
    Runs that the code starts join the trace. If tracing is disabled for the run, nothing inside is
    reported. The span itself is reported elsewhere: what the code sets in it stays there.

    Args:
        scope: the scope of the effect.
        effect: the number of the effect.
        attempt: the number of the attempt.
        span_data: the data of the span, for the code to read.
    """
    trace = scope.trace()
    receivers = () if scope.disabled else REGISTRATION.active
    around = SpanAround(
        trace,
        DiscardedData() if span_data is None else span_data,
        span_id=scope.inner_span_id,
        receivers=receivers,
        sensitive=scope.sensitive,
        durable=True,
        hides=scope.hides,
        within=(scope.effects_key, effect, attempt),
        agent_span_id=scope.agent_span_id,
    )
    token = CURRENT.set(Current(trace, around))
    try:
        yield around
    finally:
        CURRENT.reset(token)
        around.release()


def holder() -> "SpanAround | None":
    """Return what holds ended spans until their attempt is over; None outside of an attempt."""
    place = CURRENT.get()
    return place.span if place is not None and isinstance(place.span, SpanAround) else None


def leave_turn() -> None:
    """Make later spans of the effect children of the agent's span, because the turn is over."""
    place = CURRENT.get()
    if place is not None and isinstance(place.span, SpanAround):
        place.span.span_id = place.span.agent_span_id


@dataclass(slots=True, eq=False, repr=False, kw_only=True)
class SpanAround(Span[SpanData]):
    """The parent of spans opened in one attempt of an effect; it has the turn's or agent's id."""

    within: tuple[str, int, int]
    agent_span_id: str
    model_calls: int = field(default=0, init=False)
    held: list[tuple[Span[Any], float]] = field(
        default_factory=list[tuple[Span[Any], float]], init=False
    )

    def hold(self, span: Span[Any], at_seconds: float) -> None:
        """Keep an ended span of a model call until the attempt is over.

        What its calls hide is known once they are judged.
        """
        self.held.append((span, at_seconds))

    def release(self) -> None:
        """End the spans that are held, without what the run hides by now."""
        for span, at_seconds in self.held:
            span.hides = self.hides
            span.finish(at_seconds=at_seconds)
        self.held = []

    def child_id(self, kind: str) -> str:
        """Return the id of the next child span in this attempt.

        Model calls are counted by themselves, whichever API the model speaks.
        """
        if kind in _MODEL_CALLS:
            self.model_calls += 1
            return effect_span_id(*self.within, "model", self.model_calls - 1)
        return effect_span_id(*self.within, kind, next(self._children))


_MODEL_CALLS = frozenset({"generation", "response"})
