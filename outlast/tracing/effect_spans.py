"""The spans of effects: opened by the activity that carries an effect out, with derived ids.

Owns: what a run's settings say of tracing, and the ids of its trace and of all its spans. Must not
know: Temporal, what an effect does, when spans begin and end that outlive an effect.

An id is derived from what it belongs to, so that processes that never met agree on it: the agent's
span that one worker begins and another ends, the parent of a tool's span. A retry has another
attempt and is another span; the same attempt told twice has the same id twice.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from outlast.agents.config.run_config import DEFAULT_WORKFLOW_NAME
from outlast.contract.names import SETTING_AS_TOOL, TRACE, question_key, tells_turns
from outlast.loop.values import Json, JsonObject
from outlast.tracing.current import (
    NO_ID,
    NO_SPAN,
    PLACE,
    Place,
    Span,
    Trace,
    derived_span_id,
    derived_trace_id,
)
from outlast.tracing.kinds import DiscardedData, SpanData
from outlast.tracing.receivers import REGISTRATION

D = TypeVar("D", bound=SpanData)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceScope:
    """Where in which trace the effects of a run's agent belong.

    Attributes:
        run_id: the run; ids are derived from it.
        trace_id: the trace of the run, and of the runs nested in it.
        workflow_name: what the trace is called.
        group_id: links several traces.
        metadata: whatever else the program tells of the trace.
        disabled: nobody is told of anything.
        sensitive: whether inputs and outputs may be told.
        agent_span_id: the span of the agent whose turn it is.
        turn_span_id: the span of the turn; None outside of turns, and where they have no spans.
        task_span_id: the span of all that is done about the question; None where it has none.
        task_name: what the run calls its work.
        parent_span_id: the span around all these; None directly under the trace.
        is_joined: the trace belongs to somebody else: a program's `trace()`, or the run around
            this one.
    """

    run_id: str
    trace_id: str
    workflow_name: str = DEFAULT_WORKFLOW_NAME
    group_id: str | None = None
    metadata: JsonObject | None = None
    disabled: bool = False
    sensitive: bool = True
    agent_span_id: str
    turn_span_id: str | None = None
    task_span_id: str | None = None
    task_name: str = DEFAULT_WORKFLOW_NAME
    parent_span_id: str | None = None
    is_joined: bool = False

    @property
    def inner_span_id(self) -> str:
        """The span that the effects' spans are in."""
        return self.turn_span_id or self.agent_span_id

    def in_turn(self, number: int) -> "TraceScope":
        """Return the scope of effects of a turn; 0 for those outside of turns."""
        has_span = number > 0 and self.task_span_id is not None
        turn = turn_span_id(self.run_id, number) if has_span else None
        return replace(self, turn_span_id=turn)

    def trace(self) -> Trace:
        """Return the run's trace, as this process knows it."""
        return Trace(
            self.workflow_name,
            trace_id=self.trace_id,
            group_id=self.group_id,
            metadata=self.metadata,
            disabled=self.disabled,
        )


NO_SCOPE = TraceScope(run_id="", trace_id=NO_ID, agent_span_id=NO_ID, disabled=True)
"""The scope of all runs while nobody is told of anything."""


def scope_of(
    settings: JsonObject | None,
    run_id: str,
    *,
    agent: str,
    handovers: int = 0,
    turn: int = 0,
    root_run_id: str | None = None,
    parent_span_id: str | None = None,
    task_name: str | None = None,
) -> TraceScope:
    """Return where the effects of a run's agent belong.

    The settings may have been typed by hand, so what makes no sense counts as not given.

    Args:
        settings: of the run; those of tracing are `workflow_name`, `trace_id`, `group_id`,
            `trace_metadata`, `tracing_disabled`, `trace_include_sensitive_data`, `tracing`, and,
            from `join_current_trace`, `trace_joined`, `trace_parent_id` and `trace_task_name`.
        run_id: the run; nothing else may ever have this id.
        agent: the agent whose turn it is.
        handovers: how often the run changed hands before. An agent that gets it back has a
            second span.
        turn: the number of the turn; 0 outside of turns.
        root_run_id: for a nested run, the outermost one around it: its trace is theirs.
        parent_span_id: for a nested run, the span around it, such as
            `agent_span_id(parent_run, parent_agent, parent_handovers)`.
        task_name: what the run calls its work, where its settings do not say that.
    """
    if not REGISTRATION.active:
        return NO_SCOPE
    told = settings or {}
    root = root_run_id or run_id
    name = _text(told.get("workflow_name"))
    own_name = _text(told.get("trace_task_name"))
    if own_name is None and told.get("trace_joined") is not True:
        own_name = name  # or else it is the name of somebody else's trace
    scope = TraceScope(
        run_id=run_id,
        trace_id=_text(told.get("trace_id")) or derived_trace_id("run", root),
        workflow_name=name or DEFAULT_WORKFLOW_NAME,
        group_id=_text(told.get("group_id")),
        metadata=_object(told.get("trace_metadata")),
        disabled=told.get("tracing_disabled") is True,
        sensitive=told.get("trace_include_sensitive_data") is not False,
        agent_span_id=agent_span_id(run_id, agent, handovers),
        task_span_id=derived_span_id("task", run_id) if tells_turns(told) else None,
        task_name=task_name or own_name or DEFAULT_WORKFLOW_NAME,
        parent_span_id=parent_span_id or _text(told.get("trace_parent_id")),
        is_joined=told.get("trace_joined") is True or root != run_id,
    )
    return scope.in_turn(turn)


@dataclass(frozen=True, slots=True, kw_only=True)
class OuterCall:
    """The call that a nested run answers, in the trace of the run that asks.

    Attributes:
        key: the question of the run that asks.
        root: the question of the outermost run.
        effect: the number of the call among that run's effects.
        task_name: what the nested run calls its work; None where it has no settings of its own.
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
    """Return the call that a run answers, or None for a run that works for nobody."""
    told: Any = (settings or {}).get(SETTING_AS_TOOL)
    place: Any = cast("JsonObject", told).get(TRACE) if isinstance(told, dict) else None
    if not isinstance(place, dict):
        return None
    call = cast("JsonObject", place)
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
    """Return where in the traces of a run something belongs, also of a nested run.

    Args:
        settings: of the run.
        run_id: the workflow id.
        started_at_ms: when the run began.
        question: how many questions of the run were settled before.
        agent: the agent at work.
        handovers: how often the run had changed hands.
        turn: the number of the turn; 0 outside of turns.
    """
    outer = outer_call(settings)
    return scope_of(
        settings,
        question_key(run_id, started_at_ms, question),
        agent=agent,
        handovers=handovers,
        turn=turn,
        root_run_id=outer.root if outer is not None else None,
        parent_span_id=outer.span_id if outer is not None else None,
        task_name=outer.task_name if outer is not None else None,
    )


def agent_span_id(run_id: str, agent: str, handovers: int = 0) -> str:
    """Return the id of the span of an agent that has a run in hand."""
    return derived_span_id("agent", run_id, agent, handovers)


def turn_span_id(run_id: str, number: int) -> str:
    """Return the id of the span of a turn."""
    return derived_span_id("turn", run_id, number)


def handoff_span_id(run_id: str, handovers: int) -> str:
    """Return the id of the span of a handoff, after so many others in the run."""
    return derived_span_id("handoff", run_id, handovers)


def effect_span(
    scope: TraceScope, span_data: D, *, effect: int, attempt: int = 1, part: str | int = ""
) -> Span[D]:
    """Open the span of an effect, as a context manager, as a child of its turn's span.

    Fill in the data through the object that was given, not through the span: while nobody is
    told, the span is a shared one that keeps nothing. An exception that leaves the block becomes
    the span's error; `set_error` describes a failure that does not.

    Args:
        scope: where it belongs.
        span_data: what it tells.
        effect: the number of the effect in its run.
        attempt: 1 for the first try.
        part: tells spans of the same kind in one effect apart, such as its guardrails.
    """
    receivers = REGISTRATION.active
    if not receivers:
        return NO_SPAN
    if scope.disabled:
        # A span after all: what is opened inside must find that this run is not told of.
        return Span(scope.trace(), span_data, span_id=NO_ID)
    return Span(
        scope.trace(),
        span_data,
        span_id=effect_span_id(scope.run_id, effect, attempt, span_data.type, part),
        parent_id=scope.inner_span_id,
        receivers=receivers,
        sensitive=scope.sensitive,
        durable=True,
    )


def effect_span_id(run_id: str, effect: int, attempt: int, kind: str, part: str | int = "") -> str:
    """Return the id of the span of an effect; the arguments are those of `effect_span`."""
    return derived_span_id("effect", run_id, effect, attempt, kind, part)


@contextmanager
def around_effect(scope: TraceScope, *, effect: int, attempt: int = 1) -> Generator[None]:
    """Let the code of an effect find itself in the span of its turn.

    What it opens is a child of that span, with ids that are those of this attempt; and runs that
    it starts join the trace. In a run that is not told of, nothing inside is.

    Args:
        scope: where the effect belongs.
        effect: its number in its run.
        attempt: 1 for the first try.
    """
    trace = scope.trace()
    receivers = () if scope.disabled else REGISTRATION.active
    around = _SpanAround(
        trace,
        DiscardedData(),
        span_id=scope.inner_span_id,
        receivers=receivers,
        sensitive=scope.sensitive,
        durable=True,
    )
    around.within = (scope.run_id, effect, attempt)
    around.agent_span_id = scope.agent_span_id
    token = PLACE.set(Place(trace, around))
    try:
        yield
    finally:
        PLACE.reset(token)


def leave_turn() -> None:
    """Say that the turn is over although the effect is not: what it opens next is the agent's."""
    place = PLACE.get()
    if place is not None and isinstance(place.span, _SpanAround):
        place.span.span_id = place.span.agent_span_id


class _SpanAround(Span[DiscardedData]):
    """The span of a turn or an agent, as what is opened in an attempt of an effect sees it."""

    __slots__ = ("agent_span_id", "within")

    within: tuple[str, int, int]
    agent_span_id: str

    def child_id(self, kind: str) -> str:
        """Return the id of the next span in this attempt."""
        return effect_span_id(*self.within, kind, next(self._children))


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) and value else None


def _object(value: Json) -> JsonObject | None:
    return cast("JsonObject", value) if isinstance(value, dict) else None
