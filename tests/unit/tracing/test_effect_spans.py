"""The spans of a run: ids that processes which never met agree on."""

from collections.abc import Generator
from typing import Any

import pytest

from outlast.contract.names import SETTING_AS_TOOL, TRACE
from outlast.loop.values import JsonObject
from outlast.testing.span_collector import SpanCollector
from outlast.tracing.current import NO_SPAN, derived_span_id
from outlast.tracing.effect_spans import (
    NO_SCOPE,
    TraceScope,
    agent_span_id,
    around_effect,
    effect_span,
    effect_span_id,
    leave_turn,
    outer_call,
    run_scope,
    scope_of,
    turn_span_id,
)
from outlast.tracing.kinds import FunctionSpanData, GuardrailSpanData
from outlast.tracing.provider import custom_span, get_current_span, join_current_trace, trace


@pytest.fixture
def collected() -> Generator[SpanCollector]:
    with SpanCollector() as collector:
        yield collector


def tool_span_id(scope: TraceScope, **where: Any) -> str:
    with effect_span(scope, FunctionSpanData("f"), **({"effect": 1} | where)) as span:
        return span.span_id


def test_nobody_listens_and_nothing_is_opened() -> None:
    scope = scope_of({"trace_id": "trace_1"}, "run-1", agent="A")
    data = FunctionSpanData("f")
    with effect_span(scope, data, effect=1) as span:
        assert span is NO_SPAN
        assert get_current_span() is None


@pytest.mark.usefixtures("collected")
def test_a_scope_is_what_the_settings_say() -> None:
    settings = {
        "workflow_name": "Support",
        "trace_id": "trace_1",
        "group_id": "chat",
        "trace_metadata": {"tier": 1},
        "tracing_disabled": True,
        "trace_include_sensitive_data": False,
        "trace_joined": True,
        "trace_parent_id": "span_0",
    }
    assert scope_of(settings, "run-1", agent="A") == TraceScope(
        run_id="run-1",
        trace_id="trace_1",
        workflow_name="Support",
        group_id="chat",
        metadata={"tier": 1},
        disabled=True,
        sensitive=False,
        agent_span_id=agent_span_id("run-1", "A"),
        task_span_id=derived_span_id("task", "run-1"),
        parent_span_id="span_0",
        is_joined=True,
    )


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize(
    "settings",
    [
        None,
        {},
        {
            "workflow_name": 7,
            "trace_id": "",
            "group_id": [],
            "trace_metadata": "x",
            "tracing_disabled": "no",
            "trace_include_sensitive_data": "no",
            "trace_joined": 1,
            "trace_parent_id": {},
            "trace_task_name": 7,
            "tracing": "no",
        },
    ],
)
def test_settings_that_make_no_sense_count_as_not_given(settings: dict[str, Any] | None) -> None:
    scope = scope_of(settings, "run-1", agent="A")
    assert scope == scope_of(None, "run-1", agent="A")
    assert (scope.workflow_name, scope.group_id, scope.metadata) == ("Agent workflow", None, None)
    assert (scope.disabled, scope.sensitive, scope.is_joined) == (False, True, False)


@pytest.mark.usefixtures("collected")
def test_a_trace_id_is_derived_from_the_outermost_run() -> None:
    root = scope_of(None, "run-1", agent="A")
    settings = {SETTING_AS_TOOL: {TRACE: {"key": "run-1", "effect": 7}}}
    nested = scope_of(settings, "run-1/7", agent="B")
    call_span_id = effect_span_id("run-1", 7, 1, "function")
    assert nested.trace_id == root.trace_id != scope_of(None, "run-2", agent="A").trace_id
    assert (nested.parent_span_id, nested.is_joined) == (call_span_id, True)


@pytest.mark.usefixtures("collected")
def test_an_agent_that_gets_the_run_back_has_another_span() -> None:
    spans = {agent_span_id(run, agent, n) for run in "rs" for agent in "AB" for n in (0, 1)}
    assert len(spans) == 8
    assert scope_of(None, "r", agent="A", handovers=2).agent_span_id == agent_span_id("r", "A", 2)


@pytest.mark.usefixtures("collected")
def test_a_retry_is_another_span_and_a_repetition_the_same() -> None:
    scope = scope_of(None, "run-1", agent="A")
    places: list[dict[str, Any]] = [{}, {"attempt": 2}, {"effect": 2}, {"part": 1}, {"part": "x"}]
    ids = [tool_span_id(scope, **place) for place in places]
    assert len(set(ids)) == len(ids)
    assert ids == [tool_span_id(scope, **place) for place in places]
    assert tool_span_id(scope_of(None, "run-2", agent="A")) not in ids
    with effect_span(scope, GuardrailSpanData("g"), effect=1) as other_kind:
        assert other_kind.span_id not in ids


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"workflow_name": "Support"}, "Support"),
        ({"workflow_name": "Around", "trace_joined": True}, "Agent workflow"),
        (
            {"workflow_name": "Around", "trace_joined": True, "trace_task_name": "Support"},
            "Support",
        ),
    ],
)
def test_a_task_has_the_name_of_its_run(settings: dict[str, Any], name: str) -> None:
    assert scope_of(settings, "run-1", agent="A").task_name == name
    nested = {**settings, SETTING_AS_TOOL: {TRACE: {"key": "run-0", "task": "Own"}}}
    assert scope_of(nested, "run-1", agent="A").task_name == "Own"


@pytest.mark.usefixtures("collected")
def test_tasks_and_turns_have_spans_unless_the_run_wants_none() -> None:
    scope = scope_of({"tracing": {}}, "run-1", agent="A").in_turn(2)
    assert (scope.turn_span_id, scope.inner_span_id) == (turn_span_id("run-1", 2),) * 2
    assert scope.in_turn(0).inner_span_id == scope.agent_span_id
    assert scope.in_turn(3) == scope_of({"tracing": {}}, "run-1", agent="A").in_turn(3)
    unwanted = {"tracing": {"include_task_and_turn_spans": False}}
    without = scope_of(unwanted, "run-1", agent="A").in_turn(2)
    assert (without.task_span_id, without.turn_span_id) == (None, None)
    assert without.inner_span_id == scope.agent_span_id


def test_an_effect_is_a_child_of_its_turns_span(collected: SpanCollector) -> None:
    scope = scope_of(None, "run-1", agent="A").in_turn(2)
    with effect_span(scope, FunctionSpanData("f"), effect=1):
        pass
    with around_effect(scope, effect=2), custom_span("inside"):
        pass
    assert {span.parent_id for span in collected.spans()} == {turn_span_id("run-1", 2)}


def test_an_effect_that_leaves_its_turn_goes_on_in_the_agents_span(
    collected: SpanCollector,
) -> None:
    scope = scope_of(None, "run-1", agent="A").in_turn(2)
    with around_effect(scope, effect=1):
        with custom_span("before") as before:
            leave_turn()  # not while a span is open in it
        leave_turn()
        with custom_span("after") as after:
            pass
    leave_turn()
    assert (before.parent_id, after.parent_id) == (scope.turn_span_id, scope.agent_span_id)
    assert before.span_id != after.span_id


def test_an_effect_outside_of_turns_is_a_child_of_its_agents_span(collected: SpanCollector) -> None:
    scope = scope_of({"group_id": "chat"}, "run-1", agent="A")
    with effect_span(scope, FunctionSpanData("f", "in"), effect=1) as span:
        span.span_data.output = "out"
    (told,) = collected.spans("function")
    assert (told.trace_id, told.parent_id) == (scope.trace_id, scope.agent_span_id)
    assert (told.trace.group_id, told.span_data.output) == ("chat", "out")


def test_a_tools_own_spans_are_children_with_derived_ids(collected: SpanCollector) -> None:
    def attempt(number: int) -> list[str]:
        scope = scope_of(None, "run-1", agent="A")
        with effect_span(scope, FunctionSpanData("f"), effect=1, attempt=number) as tool:
            with custom_span("query") as outer, custom_span("connect") as inner:
                assert (outer.parent_id, inner.parent_id) == (tool.span_id, outer.span_id)
            with custom_span("query") as next_one:
                assert next_one.parent_id == tool.span_id
        return [outer.span_id, inner.span_id, next_one.span_id]

    assert attempt(1) == attempt(1)
    assert len(set(attempt(1)) | set(attempt(2))) == 6


def test_what_an_effect_opens_is_in_the_agents_span(collected: SpanCollector) -> None:
    scope = scope_of({"trace_include_sensitive_data": False}, "run-1", agent="A")

    def attempt(effect: int, number: int) -> list[str]:
        with around_effect(scope, effect=effect, attempt=number):
            with custom_span("one") as one:
                assert one.parent_id == scope.agent_span_id
                assert not one.sensitive
            with custom_span("two") as two:
                joined = scope_of(join_current_trace(None), "run-2", agent="B")
        assert (joined.trace_id, joined.parent_span_id) == (scope.trace_id, two.span_id)
        return [one.span_id, two.span_id]

    assert attempt(1, 1) == attempt(1, 1)
    assert len({*attempt(1, 1), *attempt(1, 2), *attempt(2, 1)}) == 6
    assert get_current_span() is None
    assert {span.span_data.type for span in collected.spans()} == {"custom"}


def test_what_an_effect_opens_in_a_run_that_is_not_traced_is_not_told(
    collected: SpanCollector,
) -> None:
    with trace("Around"), around_effect(NO_SCOPE, effect=1), custom_span("quiet"):
        assert (join_current_trace(None) or {})["tracing_disabled"] is True
    assert collected.spans() == []


def test_a_run_that_is_not_traced_silences_its_tools(collected: SpanCollector) -> None:
    with trace("Around"):
        scope = scope_of({"tracing_disabled": True}, "run-1", agent="A")
        with effect_span(scope, FunctionSpanData("f"), effect=1), custom_span("query"):
            assert (join_current_trace(None) or {})["tracing_disabled"] is True
    assert (collected.spans(), collected.open_spans) == ([], [])
    assert [one.name for one in collected.traces] == ["Around"]


def test_a_run_without_sensitive_data_tells_none_in_its_tools_either(
    collected: SpanCollector,
) -> None:
    scope = scope_of({"trace_include_sensitive_data": False}, "run-1", agent="A")
    data = FunctionSpanData("f", "4111")
    with effect_span(scope, data, effect=1), custom_span("query", {"rows": 3}) as inner:
        data.output = "4111"
        assert not inner.sensitive
    exported = [span.export() for span in collected.spans()]
    assert len(exported) == 2
    assert "4111" not in str(exported)
    assert "'rows': 3" in str(exported)


def test_a_failed_attempt_has_its_error(collected: SpanCollector) -> None:
    scope = scope_of(None, "run-1", agent="A")
    with (
        pytest.raises(OSError, match="no disk"),
        effect_span(scope, FunctionSpanData("f"), effect=1),
    ):
        raise OSError("no disk")
    assert collected.spans()[0].error == {"message": "no disk", "data": {"type": "OSError"}}


def test_a_run_started_in_a_tool_is_a_child_of_the_tool(collected: SpanCollector) -> None:
    outer = scope_of(None, "run-1", agent="A")
    with effect_span(outer, FunctionSpanData("ask"), effect=3) as tool:
        inner = scope_of(join_current_trace(None), "run-2", agent="B")
    assert (inner.trace_id, inner.parent_span_id) == (outer.trace_id, tool.span_id)
    assert inner.is_joined


CURRENT: JsonObject = {"key": "k", "effect": 7}


def nested(**place: Any) -> JsonObject:
    return {"as_tool": {"agent": "A", "tool": "ask", "trace": CURRENT | place}}


@pytest.mark.parametrize(
    "settings", [None, {}, {"as_tool": "x"}, {"as_tool": {}}, {"as_tool": {"trace": 1}}]
)
def test_a_run_that_works_for_nobody_answers_no_call(settings: JsonObject | None) -> None:
    assert outer_call(settings) is None


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize(
    ("place", "root"), [({}, "k"), ({"root": "outermost"}, "outermost"), ({"effect": "x"}, "k")]
)
def test_a_nested_run_is_in_the_span_of_its_call(place: JsonObject, root: str) -> None:
    scope = run_scope(nested(**place), "k/ask-7", started_at_ms=1, question=0, agent="B")
    number = 7 if place.get("effect") is None else 0
    assert scope.parent_span_id == effect_span_id("k", number, 1, "function")
    assert scope.trace_id == scope_of(None, root, agent="A").trace_id
    assert scope.is_joined


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize(
    ("place", "name"),
    [({}, "Support"), ({"task": None}, "Agent workflow"), ({"task": "Own"}, "Own")],
)
def test_a_nested_run_with_settings_of_its_own_names_its_task(place: JsonObject, name: str) -> None:
    settings = {**nested(**place), "workflow_name": "Support"}
    scope = run_scope(settings, "k/ask-7", started_at_ms=1, question=0, agent="B")
    assert scope.task_name == name


@pytest.mark.usefixtures("collected")
def test_every_question_of_every_run_has_a_trace_of_its_own() -> None:
    traces = {
        run_scope(None, run_id, started_at_ms=at_ms, question=question, agent="A").trace_id
        for run_id in ("r", "s")
        for at_ms in (1, 2)
        for question in (0, 1)
    }
    assert len(traces) == 8
