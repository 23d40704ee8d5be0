"""What is told around the attempts of effects; whole runs are in the conformance tests."""

import sys
import time
from collections.abc import Awaitable, Callable, Generator
from dataclasses import replace
from typing import Any

import pytest

from outlast.activities.errors import EffectError
from outlast.activities.tracing import traced
from outlast.agents.agent import Agent
from outlast.contract.policies import CHECK
from outlast.contract.records import nested_input
from outlast.loop.calls import HandoffResult, NestedPlan, PreparedRun, ToolResult
from outlast.loop.checks import Candidate, CheckResult, FinalizedAnswer
from outlast.loop.effects import RunAgent
from outlast.loop.trace_mark import TraceMark, TurnMark
from outlast.loop.values import Failure, JsonObject, Usage
from outlast.testing import SpanCollector
from outlast.tracing.effect_spans import agent_span_id, effect_span_id, leave_turn
from outlast.tracing.kinds import TurnSpanData
from outlast.tracing.provider import custom_span, get_current_span
from tests.unit.activities.desk import (
    check_request,
    conclusion_request,
    handoff_request,
    model_request,
    prepare_request,
    save_request,
    tool_request,
    worker_of,
)

MARK = TraceMark(started_at_ms=1_000, since_ms=2_000, question=0)
KEY = MARK.key("support-42")
WORKER = worker_of(Agent(name="A", handoffs=[Agent(name="B")]))


@pytest.fixture
def collected() -> Generator[SpanCollector]:
    with SpanCollector() as collector:
        yield collector


def giving(result: Any) -> Callable[[], Awaitable[Any]]:
    async def work() -> Any:
        return result

    return work


def failing(error: Exception) -> Callable[[], Awaitable[Any]]:
    async def work() -> Any:
        raise error

    return work


async def test_nobody_listens_and_it_costs_almost_nothing() -> None:
    if sys.gettrace() is not None:
        pytest.skip("a debugger or coverage slows every line down")
    request, work = tool_request("f", trace=MARK), giving(None)
    took: list[float] = []
    for _ in range(20):
        began = time.perf_counter()
        for _ in range(500):
            await traced(WORKER, request, work, attempt=1)
        took.append((time.perf_counter() - began) / 500)
    assert min(took) < 10e-6


@pytest.mark.parametrize(
    ("settings", "expected"), [(None, True), ({}, True), ({"tracing_disabled": True}, False)]
)
@pytest.mark.usefixtures("collected")
async def test_a_run_is_traced_if_somebody_listens_when_it_is_prepared(
    settings: JsonObject | None, expected: bool
) -> None:
    request = prepare_request(settings=settings)
    briefing = await traced(WORKER, request, giving(PreparedRun()), attempt=1)
    assert briefing.traced is expected


async def test_a_run_is_not_traced_where_nobody_listens() -> None:
    briefing = await traced(WORKER, prepare_request(), giving(PreparedRun()), attempt=1)
    assert briefing == PreparedRun()


async def test_what_begins_with_an_effect_is_told_before_it(collected: SpanCollector) -> None:
    begun: list[int] = []

    async def work() -> CheckResult:
        begun.extend([len(collected.traces), len(collected.open_spans)])
        return CheckResult()

    mark = TraceMark(started_at_ms=1_000, since_ms=2_000, question=0, begins="trace")
    await traced(WORKER, check_request(trace=mark), work, attempt=1)
    assert begun == [1, 2]
    task, agent = collected.open_spans
    assert (task.span_data.type, agent.parent_id) == ("task", task.span_id)
    assert (agent.span_id, agent.started_at) == (
        agent_span_id(KEY, "A"),
        "1970-01-01T00:00:02.000000+00:00",
    )
    assert agent.span_data.handoffs == ["B"]


TURN = TurnMark(number=2, since_ms=5_000, spent=Usage(requests=2, input_tokens=20))
BEFORE = TurnMark(number=1, since_ms=2_000, spent=Usage(requests=1, input_tokens=5))
SPENT = Usage(requests=3, input_tokens=50, output_tokens=4, total_tokens=54, cached_tokens=1)


async def test_the_first_effect_of_a_turn_tells_of_the_turn_before(
    collected: SpanCollector,
) -> None:
    mark = replace(MARK, begins="turn", turn=TURN, ended=BEFORE)
    request = model_request(trace=mark, usage=TURN.spent)
    for attempt in (1, 2):
        await traced(WORKER, request, giving(None), attempt=attempt)
    (ended,), (begun,) = collected.spans("turn"), collected.open_spans
    assert ended.span_data == TurnSpanData(
        1, "A", {"input_tokens": 15, "output_tokens": 0, "cached_input_tokens": 0}
    )
    assert (ended.started_at, ended.ended_at) == (
        "1970-01-01T00:00:02.000000+00:00",
        "1970-01-01T00:00:05.000000+00:00",
    )
    assert begun.span_data == TurnSpanData(2, "A")
    assert (begun.started_at, begun.parent_id) == (ended.ended_at, agent_span_id(KEY, "A"))


async def test_a_check_between_two_turns_ends_the_first(collected: SpanCollector) -> None:
    async def work() -> CheckResult:
        with custom_span("inside"):
            return CheckResult()

    mark = replace(MARK, ended=BEFORE)
    await traced(WORKER, check_request(trace=mark), work, attempt=1)
    (turn,), (inside,) = collected.spans("turn"), collected.spans("custom")
    assert (turn.span_data.turn, inside.parent_id) == (1, agent_span_id(KEY, "A"))
    assert collected.open_spans == []


async def test_a_handoff_ends_its_turn(collected: SpanCollector) -> None:
    request = handoff_request("transfer", trace=replace(MARK, turn=TURN), usage=SPENT)
    await traced(WORKER, request, giving(HandoffResult()), attempt=1)
    (turn,), (handed_over,) = collected.spans("turn"), collected.spans("handoff")
    assert turn.span_data.usage == {
        "input_tokens": 30,
        "output_tokens": 4,
        "cached_input_tokens": 1,
    }
    assert handed_over.parent_id == turn.span_id
    assert collected.spans("task") == []


async def test_an_answer_ends_its_turn_and_then_its_task(collected: SpanCollector) -> None:
    async def work() -> FinalizedAnswer:
        leave_turn()
        with custom_span("checks"):
            return FinalizedAnswer()

    mark = replace(MARK, turn=TURN, asked_ms=1_500, spent=BEFORE.spent)
    request = conclusion_request(Candidate(output="x"), trace=mark, usage=SPENT)
    await traced(WORKER, request, work, attempt=1)
    (task,), (agent,) = collected.spans("task"), collected.spans("agent")
    (turn,), (checks,) = collected.spans("turn"), collected.spans("custom")
    assert (turn.parent_id, checks.parent_id) == (agent.span_id, agent.span_id)
    assert turn.error is None
    assert (turn.ended_at or "") <= (checks.ended_at or "")
    assert task.started_at == "1970-01-01T00:00:01.500000+00:00"
    assert task.span_data.usage == {
        "input_tokens": 45,
        "output_tokens": 4,
        "cached_input_tokens": 1,
        "requests": 2,
        "total_tokens": 54,
    }


@pytest.mark.parametrize(
    ("code", "error"), [("max_turns_exceeded", None), ("model_call_failed", "No.")]
)
async def test_a_failure_ends_its_turn_before_a_handler_is_asked(
    collected: SpanCollector, code: str, error: str | None
) -> None:
    ended: list[int] = []

    async def work() -> FinalizedAnswer:
        ended.append(len(collected.spans("turn")))
        return FinalizedAnswer(final=False, declined=True)

    candidate = Candidate(failure=Failure(code=code, message="No."))
    request = conclusion_request(candidate, trace=replace(MARK, turn=TURN))
    await traced(WORKER, request, work, attempt=1)
    (turn,) = collected.spans("turn")
    assert (ended, turn.error["message"] if turn.error else None) == ([1], error)


async def test_a_conclusion_after_which_the_model_goes_on_leaves_its_turn_open(
    collected: SpanCollector,
) -> None:
    request = conclusion_request(Candidate(output="x"), trace=replace(MARK, turn=TURN))
    await traced(WORKER, request, giving(FinalizedAnswer(final=False)), attempt=1)
    assert collected.spans() == []


async def test_a_conclusion_that_fails_is_the_failure_of_its_turn(
    collected: SpanCollector,
) -> None:
    request = conclusion_request(Candidate(output="x"), trace=replace(MARK, turn=TURN))
    error = EffectError("user_error", "A hook failed.", retryable=False)
    with pytest.raises(EffectError):
        await traced(WORKER, request, failing(error), attempt=1)
    assert "A hook failed." in str(collected.spans("turn")[0].error)


async def test_a_mark_of_an_older_worker_tells_no_turns(collected: SpanCollector) -> None:
    mark = TraceMark(started_at_ms=1_000, since_ms=2_000, question=0, begins="trace")
    await traced(WORKER, model_request(trace=mark), giving(None), attempt=1)
    task, agent = collected.open_spans
    assert task.started_at == agent.started_at == "1970-01-01T00:00:02.000000+00:00"


async def test_an_agent_that_nobody_knows_is_told_by_its_name(collected: SpanCollector) -> None:
    mark = TraceMark(started_at_ms=1_000, since_ms=2_000, question=0, begins="agent")
    request = check_request(agent="Gone", trace=mark)
    await traced(WORKER, request, giving(CheckResult()), attempt=1)
    assert collected.open_spans[0].span_data.name == "Gone"
    assert collected.traces == []


async def test_a_tool_call_tells_what_went_in_and_came_out(collected: SpanCollector) -> None:
    async def work() -> ToolResult:
        with custom_span("inside"):
            return ToolResult(output={"found": 1})

    request = tool_request("f", '{"x": 1}', trace=MARK)
    await traced(WORKER, request, work, attempt=2)
    tool, inside = collected.spans()
    assert (tool.span_id, tool.parent_id) == (
        effect_span_id(KEY, 3, 2, "function"),
        agent_span_id(KEY, "A"),
    )
    assert inside.parent_id == tool.span_id
    assert (tool.span_data.input, tool.span_data.export()["output"]) == ('{"x": 1}', "{'found': 1}")


@pytest.mark.parametrize(
    "result",
    [
        ToolResult(output="It failed.", failed=True),
        ToolResult(output="", failure=Failure(code="user_error", message="It failed.")),
    ],
)
async def test_a_call_that_failed_has_its_error(
    collected: SpanCollector, result: ToolResult
) -> None:
    await traced(WORKER, tool_request("f", trace=MARK), giving(result), attempt=1)
    assert "It failed." in str(collected.spans("function")[0].error)


async def test_an_attempt_that_failed_has_its_error(collected: SpanCollector) -> None:
    error = EffectError("tool_failed", "no disk", retryable=True)
    with pytest.raises(EffectError):
        await traced(WORKER, tool_request("f", trace=MARK), failing(error), attempt=1)
    (span,) = collected.spans("function")
    assert span.error == {"message": "no disk", "data": {"code": "tool_failed"}}


async def test_a_handoff_ends_the_work_of_the_agent_before(collected: SpanCollector) -> None:
    request = handoff_request("transfer", trace=MARK, rivals=("C",))
    await traced(WORKER, request, giving(HandoffResult(target="B2")), attempt=1)
    agent, handed_over = collected.spans("agent") + collected.spans("handoff")
    assert (agent.span_data.name, agent.error) == ("A", None)
    assert handed_over.span_data.export() == {
        "type": "handoff",
        "from_agent": "A",
        "to_agent": "B2",
    }
    assert (handed_over.error or {})["data"] == {"requested_agents": ["B", "C"]}
    assert collected.ended_traces == []


CONCLUSIONS: list[tuple[Candidate, FinalizedAnswer, bool, str | None]] = [
    (Candidate(output="x"), FinalizedAnswer(), True, None),
    (Candidate(output="x"), FinalizedAnswer(final=False), False, None),
    (
        Candidate(output="x"),
        FinalizedAnswer(failure=Failure(code="output_guardrail", message="Blocked.")),
        True,
        "Blocked.",
    ),
    (
        Candidate(failure=Failure(code="max_turns_exceeded", message="Too long.")),
        FinalizedAnswer(final=False, declined=True),
        True,
        "Too long.",
    ),
    (
        Candidate(failure=Failure(code="max_turns_exceeded", message="Too long.")),
        FinalizedAnswer(output="Later.", replaced=True),
        True,
        None,
    ),
]


@pytest.mark.parametrize(("candidate", "conclusion", "ends", "error"), CONCLUSIONS)
async def test_a_conclusion_ends_the_question_unless_the_model_goes_on(
    collected: SpanCollector,
    candidate: Candidate,
    conclusion: FinalizedAnswer,
    ends: bool,
    error: str | None,
) -> None:
    request = conclusion_request(candidate, trace=MARK)
    await traced(WORKER, request, giving(conclusion), attempt=1)
    assert len(collected.spans("agent")) == len(collected.ended_traces) == ends
    for span in collected.spans("agent"):
        assert (span.error["message"] if span.error else None) == error


@pytest.mark.parametrize(
    ("attempt", "retryable", "attempts", "ends"),
    [
        (1, True, None, False),
        (CHECK.attempts, True, None, True),
        (1, False, None, True),
        (2, True, 2, True),
    ],
)
async def test_a_conclusion_that_fails_for_good_ends_the_question(
    collected: SpanCollector, attempt: int, retryable: bool, attempts: int | None, ends: bool
) -> None:
    error = EffectError("user_error", "A hook failed.", retryable=retryable, attempts=attempts)
    request = conclusion_request(Candidate(output="x"), trace=MARK)
    with pytest.raises(EffectError):
        await traced(WORKER, request, failing(error), attempt=attempt)
    assert [(one.error or {})["message"] for one in collected.spans("agent")] == (
        ["A hook failed."] if ends else []
    )


@pytest.mark.parametrize("request_", [save_request(), model_request(), tool_request("f")])
async def test_effects_without_a_mark_tell_nothing(collected: SpanCollector, request_: Any) -> None:
    async def work() -> bool:
        with custom_span("inside"):
            current = get_current_span()
            return current is not None and current.is_recorded

    assert await traced(WORKER, request_, work, attempt=1) is False
    assert collected.spans() == []


def nested_settings(
    settings: JsonObject | None = None, own: JsonObject | None = None
) -> JsonObject:
    effect = RunAgent(
        effect=7,
        agent="A",
        target="Expert",
        name="ask",
        call_id="c1",
        arguments='{"input": "?"}',
        nested_id="support-42/ask-7",
        nested=NestedPlan(settings=own),
        settings=settings,
        run_id="support-42",
        trace=MARK,
    )
    return nested_input(effect, visibility=False).settings or {}


async def test_the_call_that_a_nested_run_answers_is_told_where_it_ends(
    collected: SpanCollector,
) -> None:
    mark = TraceMark(started_at_ms=3_000, since_ms=3_500, question=0)
    request = conclusion_request(
        Candidate(output="So."),
        agent="B",
        settings=nested_settings(),
        run_id="support-42/ask-7",
        trace=mark,
    )
    await traced(WORKER, request, giving(FinalizedAnswer()), attempt=1)
    (agent,), (asked,) = collected.spans("agent"), collected.spans("function")
    (task,) = collected.spans("task")
    assert agent.parent_id == task.span_id
    assert task.parent_id == asked.span_id == effect_span_id(KEY, 7, 1, "function")
    assert asked.parent_id == agent_span_id(KEY, "A")
    assert (asked.span_data.name, asked.span_data.output) == ("ask", "So.")
    assert asked.started_at == "1970-01-01T00:00:03.000000+00:00"
    assert collected.ended_traces == []


async def test_a_call_whose_nested_run_cannot_be_prepared_is_told(collected: SpanCollector) -> None:
    error = EffectError("user_error", "The arguments do not fit.", retryable=False)
    request = prepare_request(agent="B", settings=nested_settings())
    with pytest.raises(EffectError):
        await traced(WORKER, request, failing(error), attempt=1)
    (asked,) = collected.spans("function")
    assert (asked.error or {})["message"] == "The arguments do not fit."


@pytest.mark.usefixtures("collected")
async def test_a_nested_run_is_traced_if_the_outer_one_is() -> None:
    request = prepare_request(agent="B", settings=nested_settings())
    assert (await traced(WORKER, request, giving(PreparedRun()), attempt=1)).traced
    untraced = {"as_tool": {"agent": "A", "tool": "ask"}}
    request = prepare_request(agent="B", settings=untraced)
    assert not (await traced(WORKER, request, giving(PreparedRun()), attempt=1)).traced


def test_a_nested_run_takes_over_the_trace_and_its_restrictions() -> None:
    outer: JsonObject = {
        "trace_id": "trace_1",
        "tracing_disabled": True,
        "trace_include_sensitive_data": False,
    }
    settings = nested_settings(outer, {"trace_id": "trace_own", "model": "gpt-x"})
    assert outer.items() <= settings.items()
    assert settings["model"] == "gpt-x"
    assert settings["as_tool"]["trace"]["root"] == KEY


def test_a_run_nested_twice_is_in_the_trace_of_the_outermost() -> None:
    inner = nested_settings({"as_tool": {"trace": {"root": "outermost"}}})
    assert inner["as_tool"]["trace"]["root"] == "outermost"
    assert inner["as_tool"]["trace"]["key"] == KEY


@pytest.mark.parametrize(
    ("form", "output", "told"),
    [
        ("shell_call", {"output": [{"stdout": "done", "stderr": ""}]}, "done"),
        ("apply_patch_call", {"status": "completed"}, ""),
        ("custom_tool_call", "done", "done"),
        (
            "function_call",
            [{"type": "input_text", "text": "x"}],
            [{"type": "input_text", "text": "x"}],
        ),
    ],
)
async def test_the_span_of_a_call_says_what_it_came_to_in_words(
    collected: SpanCollector, form: str, output: Any, told: Any
) -> None:
    request = tool_request("f", form=form, trace=MARK)
    await traced(WORKER, request, giving(ToolResult(output=output)), attempt=1)
    assert collected.spans("function")[0].span_data.output == told
