"""What is told around the attempts of effects; whole runs are in the conformance tests."""

import sys
import time
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import pytest

from outlast.activities.errors import EffectError
from outlast.activities.tracing import traced
from outlast.contract.records import nested_input
from outlast.loop.calls import NestedPlan, ToolResult
from outlast.loop.checks import Candidate
from outlast.loop.effects import RunAgent
from outlast.loop.values import Failure, JsonObject
from outlast.testing import SpanCollector
from outlast.tracing.effect_spans import (
    agent_span_id,
    effect_span_id,
    handoff_span_id,
    turn_span_id,
)
from outlast.tracing.provider import custom_span, get_current_span
from tests.unit.activities.desk import (
    check_request,
    conclusion_request,
    handoff_request,
    model_request,
    prepare_request,
    save_request,
    tool_request,
)

PLACE: dict[str, Any] = {"started_at_ms": 1_000, "question": 2, "handovers": 1}
KEY = "support-42@1000.2"
NO_TURNS: JsonObject = {"tracing": {"include_task_and_turn_spans": False}}


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
    request, work = tool_request("f", **PLACE), giving(None)
    took: list[float] = []
    for _ in range(20):
        began = time.perf_counter()
        for _ in range(500):
            await traced(request, work, attempt=1)
        took.append((time.perf_counter() - began) / 500)
    assert min(took) < 10e-6


async def opens_inside(request: Any) -> bool:
    """Carry an effect out that opens a span; return whether anybody is told of it."""

    async def work() -> bool:
        with custom_span("inside"):
            current = get_current_span()
            return current is not None and current.is_recorded

    return await traced(request, work, attempt=1)


FAILED = Candidate(failure=Failure(code="model_call_failed", message="No."))
IN_TURN, WITH_AGENT = turn_span_id(KEY, 1), agent_span_id(KEY, "A", 1)


@pytest.mark.parametrize(
    ("request_", "parent"),
    [
        (model_request(**PLACE), IN_TURN),
        (model_request(**PLACE, settings=NO_TURNS), WITH_AGENT),
        (check_request(**PLACE), IN_TURN),
        (check_request(**PLACE, stage="parallel"), IN_TURN),
        (check_request(**PLACE, stage="added", turn=1), WITH_AGENT),
        (conclusion_request(Candidate(output="x"), **PLACE), IN_TURN),
        (conclusion_request(FAILED, **PLACE), WITH_AGENT),
        (handoff_request("transfer", **PLACE), handoff_span_id(KEY, 1)),
    ],
)
async def test_what_an_effect_opens_is_in_the_stage_that_it_belongs_to(
    collected: SpanCollector, request_: Any, parent: str
) -> None:
    assert await opens_inside(request_) is True
    (inside,) = collected.spans()
    assert inside.parent_id == parent
    assert collected.traces == [], "stages are told of elsewhere"


@pytest.mark.parametrize(
    "request_",
    [save_request(), prepare_request(), model_request(settings={"tracing_disabled": True})],
)
async def test_effects_that_belong_to_no_question_tell_nothing(
    collected: SpanCollector, request_: Any
) -> None:
    assert await opens_inside(request_) is False
    assert collected.spans() == []


async def test_a_tool_call_tells_what_went_in_and_came_out(collected: SpanCollector) -> None:
    async def work() -> ToolResult:
        with custom_span("inside"):
            return ToolResult(output={"found": 1})

    await traced(tool_request("f", '{"x": 1}', **PLACE), work, attempt=2)
    tool, inside = collected.spans()
    assert (tool.span_id, tool.parent_id) == (
        effect_span_id(KEY, 3, 2, "function"),
        turn_span_id(KEY, 2),
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
    await traced(tool_request("f", **PLACE), giving(result), attempt=1)
    assert collected.spans("function")[0].error == {
        "message": "It failed.",
        "data": {"tool_name": "f", "error": "It failed.", "code": "tool_failed"},
    }


async def test_an_attempt_that_failed_has_its_error(collected: SpanCollector) -> None:
    error = EffectError("tool_failed", "no disk", retryable=True)
    with pytest.raises(EffectError):
        await traced(tool_request("f", **PLACE), failing(error), attempt=1)
    (span,) = collected.spans("function")
    assert span.error == {
        "message": "no disk",
        "data": {"tool_name": "f", "error": "no disk", "code": "tool_failed"},
    }


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
        **PLACE,
    )
    return nested_input(effect, visibility=False).settings or {}


async def test_what_prepares_a_nested_run_is_in_the_call_that_it_answers(
    collected: SpanCollector,
) -> None:
    assert await opens_inside(prepare_request(agent="B", settings=nested_settings())) is True
    (inside,) = collected.spans()
    assert inside.parent_id == effect_span_id(KEY, 7, 1, "function")


async def test_a_nested_run_is_as_quiet_as_the_outer_one(collected: SpanCollector) -> None:
    settings = nested_settings({"tracing_disabled": True}, {"model": "m"})
    for request in (model_request(settings=settings), prepare_request(settings=settings)):
        assert await opens_inside(request) is False
    assert collected.spans() == []


def test_a_nested_run_takes_over_the_trace_and_its_restrictions() -> None:
    outer: JsonObject = {
        "trace_id": "trace_1",
        "tracing_disabled": True,
        "trace_include_sensitive_data": False,
    }
    settings = nested_settings(outer, {"trace_id": "trace_own", "model": "gpt-x"})
    assert outer.items() <= settings.items()
    assert settings["model"] == "gpt-x"
    assert settings["as_tool"]["trace"]["key"] == KEY


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
    request = tool_request("f", form=form, **PLACE)
    await traced(request, giving(ToolResult(output=output)), attempt=1)
    assert collected.spans("function")[0].span_data.output == told
