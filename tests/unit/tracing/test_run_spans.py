"""The spans of a run that outlive its effects."""

from collections.abc import Generator

import pytest

from outlast.testing.span_collector import SpanCollector
from outlast.tracing.effect_spans import TraceScope, scope_of
from outlast.tracing.kinds import AgentSpanData, SpanError, TurnSpanData
from outlast.tracing.provider import get_current_span, join_current_trace, trace
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


@pytest.fixture
def collected() -> Generator[SpanCollector]:
    with SpanCollector() as collector:
        yield collector


def test_an_agents_span_may_end_in_another_process() -> None:
    with SpanCollector() as first:
        scope = scope_of({"trace_parent_id": "span_0"}, "run-1", agent="A")
        begin_agent_span(scope, AgentSpanData("A"), at_ms=1_000)
    with SpanCollector() as second:
        scope = scope_of({"trace_parent_id": "span_0"}, "run-1", agent="A")
        failure = SpanError(message="Tripped", data=None)
        end_agent_span(scope, AgentSpanData("A"), started_at_ms=1_000, at_ms=2_500, error=failure)
    (begun,), (ended,) = first.open_spans, second.spans("agent")
    assert first.spans() == second.open_spans == []
    assert (begun.span_id, begun.started_at) == (ended.span_id, ended.started_at)
    assert ended.started_at == "1970-01-01T00:00:01.000000+00:00"
    assert ended.ended_at == "1970-01-01T00:00:02.500000+00:00"
    assert (ended.parent_id, ended.error) == (scope.task_span_id, failure)


def test_a_runs_own_trace_begins_and_ends(collected: SpanCollector) -> None:
    scope = scope_of({"workflow_name": "Support"}, "run-1", agent="A")
    begin_run_trace(scope)
    assert collected.ended_traces == []
    end_run_trace(scope)
    (begun,), (ended,) = collected.traces, collected.ended_traces
    assert begun.export() == ended.export()
    assert (begun.name, begun.trace_id) == ("Support", scope.trace_id)
    assert get_current_span() is None


def test_a_trace_around_the_run_is_left_to_whoever_opened_it(collected: SpanCollector) -> None:
    with trace("Support"):
        joined = scope_of(join_current_trace(None), "run-1", agent="A")
    nested = scope_of(None, "run-1/7", agent="B", root_run_id="run-1")
    collected.clear()
    for scope in (joined, nested):
        begin_run_trace(scope)
        end_run_trace(scope)
    assert (collected.traces, collected.ended_traces) == ([], [])


def begin_all(scope: TraceScope) -> None:
    begin_run_trace(scope)
    begin_task_span(scope, at_ms=1_000)
    begin_agent_span(scope, AgentSpanData("A"), at_ms=1_000)
    begin_turn_span(scope, TurnSpanData(1, "A"), at_ms=1_000)


def end_all(scope: TraceScope) -> None:
    turn = TurnSpanData(1, "A", {"input_tokens": 1})
    end_turn_span(scope, turn, started_at_ms=1_000, at_ms=2_000)
    end_agent_span(scope, AgentSpanData("A"), started_at_ms=1_000, at_ms=3_000)
    end_task_span(scope, started_at_ms=1_000, at_ms=4_000, usage={"input_tokens": 1})
    end_run_trace(scope)


def test_a_turn_is_in_its_agent_and_an_agent_in_its_task(collected: SpanCollector) -> None:
    scope = scope_of(
        {"trace_parent_id": "span_0", "workflow_name": "Support"}, "run-1", agent="A", turn=1
    )
    begin_all(scope)
    assert len(collected.open_spans) == 3
    end_all(scope)
    task, agent, turn = collected.spans()
    parents = [span.parent_id for span in (task, agent, turn)]
    assert parents == ["span_0", task.span_id, agent.span_id]
    assert task.span_data.export()["data"] == {
        "sdk_span_type": "task",
        "name": "Support",
        "usage": {"input_tokens": 1},
    }
    assert turn.ended_at == "1970-01-01T00:00:02.000000+00:00"
    assert len(collected.ended_traces) == 1


def test_an_agent_is_in_what_is_around_where_tasks_have_no_spans(
    collected: SpanCollector,
) -> None:
    settings = {"trace_parent_id": "span_0", "tracing": {"include_task_and_turn_spans": False}}
    scope = scope_of(settings, "run-1", agent="A", turn=1)
    begin_all(scope)
    end_all(scope)
    assert [(one.span_data.type, one.parent_id) for one in collected.spans()] == [
        ("agent", "span_0")
    ]


def test_a_run_that_is_not_traced_tells_nothing(collected: SpanCollector) -> None:
    scope = scope_of({"tracing_disabled": True}, "run-1", agent="A", turn=1)
    begin_all(scope)
    end_all(scope)
    assert (collected.spans(), collected.open_spans, collected.traces) == ([], [], [])
