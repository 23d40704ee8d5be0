"""The spans of a run that outlive an effect: of its trace, its tasks, its agents and its turns.

Owns: telling of their beginnings and of their ends, which may be in different processes. Must not
know: Temporal, effects, when something is over.

What begins is told at the workflow's time, so that a repetition tells the same. Where a scope says
that nobody is told, or that tasks and turns have no spans, nothing is.
"""

from typing import Any

from outlast.tracing.current import Span
from outlast.tracing.effect_spans import TraceScope
from outlast.tracing.kinds import AgentSpanData, SpanData, SpanError, TaskSpanData, TurnSpanData
from outlast.tracing.receivers import REGISTRATION


def begin_run_trace(scope: TraceScope) -> None:
    """Tell that a run's own trace begins; nothing where the trace is somebody else's."""
    if not scope.disabled and not scope.is_joined:
        scope.trace().start()


def end_run_trace(scope: TraceScope) -> None:
    """Tell that a run's own trace is over; nothing where the trace is somebody else's."""
    if not scope.disabled and not scope.is_joined:
        ended = scope.trace()
        ended.restore()
        ended.finish()


def begin_task_span(scope: TraceScope, *, at_ms: int) -> None:
    """Tell that a run takes up a question."""
    _begin(_task_span(scope, None), at_ms)


def end_task_span(
    scope: TraceScope, *, started_at_ms: int, at_ms: int, usage: dict[str, Any] | None
) -> None:
    """Tell that a question is settled.

    Args:
        scope: of an agent in that task.
        started_at_ms: when the run took it up.
        at_ms: now.
        usage: the tokens spent on it.
    """
    _end(_task_span(scope, usage), started_at_ms, at_ms, None)


def begin_agent_span(scope: TraceScope, span_data: AgentSpanData, *, at_ms: int) -> None:
    """Tell that an agent takes the run in hand. Its span is ended by whoever sees the end.

    Args:
        scope: of that agent.
        span_data: what is known of it.
        at_ms: the workflow's time.
    """
    _begin(_agent_span(scope, span_data), at_ms)


def end_agent_span(
    scope: TraceScope,
    span_data: AgentSpanData,
    *,
    started_at_ms: int,
    at_ms: int,
    error: SpanError | None = None,
) -> None:
    """Tell that an agent has answered, failed, or handed the run over.

    Args:
        scope: of that agent.
        span_data: what is known of it.
        started_at_ms: when it took the run in hand.
        at_ms: now.
        error: why it failed, if it did.
    """
    _end(_agent_span(scope, span_data), started_at_ms, at_ms, error)


def begin_turn_span(scope: TraceScope, span_data: TurnSpanData, *, at_ms: int) -> None:
    """Tell that an agent begins a turn.

    Args:
        scope: of that turn.
        span_data: what is known of it.
        at_ms: the workflow's time.
    """
    _begin(_turn_span(scope, span_data), at_ms)


def end_turn_span(
    scope: TraceScope,
    span_data: TurnSpanData,
    *,
    started_at_ms: int,
    at_ms: int,
    error: SpanError | None = None,
) -> None:
    """Tell that a turn is over.

    Args:
        scope: of that turn.
        span_data: what is known of it.
        started_at_ms: when it began.
        at_ms: when it was over.
        error: why it failed, if it did.
    """
    _end(_turn_span(scope, span_data), started_at_ms, at_ms, error)


def _begin(span: Span[Any] | None, at_ms: int) -> None:
    if span is not None:
        span.start(at_seconds=at_ms / 1000)


def _end(span: Span[Any] | None, started_at_ms: int, at_ms: int, error: SpanError | None) -> None:
    if span is not None:
        span.restore(started_at_seconds=started_at_ms / 1000)
        span.error = error
        span.finish(at_seconds=at_ms / 1000)


def _task_span(scope: TraceScope, usage: dict[str, Any] | None) -> Span[Any] | None:
    told = TaskSpanData(scope.task_name, usage)
    return _span(scope, told, scope.task_span_id, scope.parent_span_id)


def _agent_span(scope: TraceScope, told: AgentSpanData) -> Span[Any] | None:
    parent = scope.task_span_id or scope.parent_span_id
    return _span(scope, told, scope.agent_span_id, parent)


def _turn_span(scope: TraceScope, told: TurnSpanData) -> Span[Any] | None:
    return _span(scope, told, scope.turn_span_id, scope.agent_span_id)


def _span(
    scope: TraceScope, told: SpanData, span_id: str | None, parent_id: str | None
) -> Span[Any] | None:
    receivers = REGISTRATION.active
    if not receivers or scope.disabled or span_id is None:
        return None
    return Span(
        scope.trace(),
        told,
        span_id=span_id,
        parent_id=parent_id,
        receivers=receivers,
        sensitive=scope.sensitive,
        durable=True,
    )
