"""The spans of a run's stages; whole runs are in the conformance tests."""

import threading
from collections.abc import Generator
from dataclasses import replace

import pytest

from outlast.agents.agent import Agent
from outlast.agents.registry import Registry
from outlast.contract.stages import Stage, StageBegun, StageChange, StageEnded
from outlast.loop.start import Start
from outlast.loop.state import LoopState
from outlast.loop.values import Failure, JsonObject, Usage
from outlast.testing import SpanCollector
from outlast.tracing.current import Trace
from outlast.tracing.effect_spans import effect_span_id, handoff_span_id
from outlast.tracing.kinds import RatingSpanData, TurnSpanData, WaitSpanData
from outlast.tracing.stage_spans import StageSpans

SPANS = StageSpans(Registry([Agent(name="A", handoffs=[Agent(name="B")])]))
KEY = "support-42@1000.0"
QUESTION = Stage(kind="question", question=0, since_ms=1_000)
AGENT = Stage(kind="agent", question=0, agent="A", since_ms=1_000)
TURN = Stage(kind="turn", question=0, turn=2, agent="A", since_ms=2_000)
HANDOFF = replace(TURN, kind="handoff", targets=("B", "C"))
NESTED = replace(TURN, kind="nested_run", effect=7, name="ask", arguments="{}")
FAILURE = Failure(code="tool_failed", message="No disk.")
SPENT = Usage(requests=2, input_tokens=9, output_tokens=4, total_tokens=13, cached_tokens=1)


@pytest.fixture
def collected() -> Generator[SpanCollector]:
    with SpanCollector() as collector:
        yield collector


def tell(*changes: StageChange, settings: JsonObject | None = None) -> None:
    start = Start(settings=settings, started_at_ms=1_000)
    SPANS(LoopState(run_id="support-42", start=start), changes)


def begun(*stages: Stage) -> list[StageChange]:
    return [StageBegun(stage=one) for one in stages]


def test_nobody_listens_and_nothing_is_kept() -> None:
    tell(*begun(QUESTION))
    with SpanCollector() as later:
        assert (later.traces, later.open_spans) == ([], [])


def test_a_workflow_does_not_wait_for_a_processor_that_is_stuck() -> None:
    stuck, release = threading.Event(), threading.Event()

    class Stuck(SpanCollector):
        def on_trace_start(self, trace: Trace) -> None:
            stuck.set()
            release.wait(60)

    with Stuck() as collected:
        tell(*begun(QUESTION))
        assert stuck.wait(60)
        tell(*begun(AGENT))  # returns although the processor does not
        release.set()
        assert len(collected.open_spans) == 2


def test_stages_begin_as_spans_in_each_other(collected: SpanCollector) -> None:
    tell(*begun(QUESTION, AGENT, TURN, HANDOFF, NESTED))
    task, agent, turn, handoff, nested = collected.open_spans
    assert [task.parent_id, agent.parent_id, turn.parent_id] == [None, task.span_id, agent.span_id]
    assert {handoff.parent_id, nested.parent_id} == {turn.span_id}
    assert handoff.span_id == handoff_span_id(KEY, 0)
    assert nested.span_id == effect_span_id(KEY, 7, 1, "function")
    assert turn.started_at == "1970-01-01T00:00:02.000000+00:00"
    assert (agent.span_data.handoffs, agent.span_data.output_type) == (["B"], "str")
    assert len(collected.traces) == 1


def test_an_agent_that_this_worker_does_not_know_is_told_by_its_name(
    collected: SpanCollector,
) -> None:
    tell(*begun(replace(AGENT, agent="Gone")))
    (agent,) = collected.open_spans
    assert (agent.span_data.name, agent.span_data.tools) == ("Gone", None)


def test_an_end_is_told_whole_also_where_the_beginning_was_not(collected: SpanCollector) -> None:
    tell(
        StageEnded(stage=TURN, at_ms=5_000, usage=SPENT),
        StageEnded(stage=QUESTION, at_ms=6_000, usage=SPENT, failure=FAILURE),
    )
    task, turn = collected.spans()
    usage = {"input_tokens": 9, "output_tokens": 4, "cached_input_tokens": 1}
    assert turn.span_data == TurnSpanData(2, "A", usage)
    assert (turn.started_at, turn.ended_at) == (
        "1970-01-01T00:00:02.000000+00:00",
        "1970-01-01T00:00:05.000000+00:00",
    )
    assert task.span_data.usage == {**usage, "requests": 2, "total_tokens": 13}
    assert task.error is None
    assert (len(collected.traces), len(collected.ended_traces)) == (0, 1)


def test_a_stage_in_which_nothing_was_spent_tells_no_usage(collected: SpanCollector) -> None:
    tell(StageEnded(stage=TURN, at_ms=5_000), StageEnded(stage=QUESTION, at_ms=5_000))
    assert [span.span_data.usage for span in collected.spans()] == [None, None]


@pytest.mark.parametrize(("sensitive", "said"), [(True, "No disk."), (False, "tool_failed")])
def test_a_failure_is_the_error_of_its_span(
    collected: SpanCollector, sensitive: bool, said: str
) -> None:
    ended = [StageEnded(stage=one, at_ms=9_000, failure=FAILURE) for one in (NESTED, TURN, AGENT)]
    tell(*ended, settings={"trace_include_sensitive_data": sensitive})
    errors = [span.error for span in collected.spans()]
    of_tool = {"tool_name": "ask", "error": said, "code": "tool_failed"}
    datas = [{"code": "tool_failed"}, of_tool, {"code": "tool_failed"}]
    assert sorted(map(str, errors)) == sorted(
        str({"message": said, "data": data}) for data in datas
    )


def test_a_handoff_tells_who_took_over_and_who_was_passed_over(collected: SpanCollector) -> None:
    tell(StageEnded(stage=HANDOFF, at_ms=3_000, target="B2"))
    (handoff,) = collected.spans()
    assert handoff.span_data.export() == {"type": "handoff", "from_agent": "A", "to_agent": "B2"}
    assert (handoff.error or {})["data"] == {"requested_agents": ["B", "C"]}


def test_a_nested_run_is_the_span_of_its_call(collected: SpanCollector) -> None:
    tell(StageEnded(stage=NESTED, at_ms=3_000, output="So."))
    (call,) = collected.spans()
    assert (call.span_data.name, call.span_data.input, call.span_data.output) == (
        "ask",
        "{}",
        "So.",
    )


def test_a_run_may_be_told_without_tasks_and_turns(collected: SpanCollector) -> None:
    quiet: JsonObject = {"tracing": {"include_task_and_turn_spans": False}}
    tell(*begun(QUESTION, AGENT, TURN, NESTED), settings=quiet)
    agent, nested = collected.open_spans
    assert (agent.parent_id, nested.parent_id) == (None, agent.span_id)
    assert len(collected.traces) == 1


def test_a_run_that_is_not_traced_tells_nothing(collected: SpanCollector) -> None:
    ended = [StageEnded(stage=one, at_ms=9_000) for one in (AGENT, QUESTION)]
    tell(*begun(QUESTION, AGENT), *ended, settings={"tracing_disabled": True})
    assert (collected.traces, collected.ended_traces) == ([], [])
    assert (collected.spans(), collected.open_spans) == ([], [])


def test_a_trace_around_the_run_is_left_to_whoever_opened_it(collected: SpanCollector) -> None:
    joined: JsonObject = {"trace_id": "trace_1", "trace_joined": True, "trace_parent_id": "span_0"}
    tell(*begun(QUESTION), StageEnded(stage=QUESTION, at_ms=9_000), settings=joined)
    (task,) = collected.spans()
    assert (task.trace_id, task.parent_id) == ("trace_1", "span_0")
    assert (collected.traces, collected.ended_traces) == ([], [])


def test_a_wait_for_people_has_a_span(collected: SpanCollector) -> None:
    wait = replace(TURN, kind="wait", name="refund", request="r1", targets=("tool",))
    tell(*begun(QUESTION, AGENT, TURN), StageBegun(stage=wait))
    tell(StageEnded(stage=wait, at_ms=5_000, output="approved"))
    (span,) = collected.spans("wait")
    assert span.span_data == WaitSpanData("refund", "tool", "A", "approved")
    exported = span.span_data.export()
    assert (exported["type"], exported["data"]["outcome"]) == ("custom", "approved")
    assert (span.started_at or "").startswith("1970-01-01T00:00:02")


@pytest.mark.parametrize("sensitive", [True, False])
def test_a_rating_has_a_span_below_its_question(
    collected: SpanCollector, *, sensitive: bool
) -> None:
    rating = replace(TURN, kind="rating", name="2", arguments="Slow.", request="7")
    settings: JsonObject = {"trace_include_sensitive_data": sensitive}
    tell(*begun(QUESTION), settings=settings)
    tell(StageBegun(stage=rating), StageEnded(stage=rating, at_ms=2_000), settings=settings)
    (span,) = collected.spans("rating")
    assert span.span_data == RatingSpanData(2, "Slow." if sensitive else None)
    assert span.span_data.export()["name"] == "rating"
    (task,) = collected.open_spans
    assert span.parent_id == task.span_id
