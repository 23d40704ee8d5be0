"""The call that a nested run answers, in the trace of the run that asks."""

from typing import Any

import pytest

from outlast.activities.nested_spans import OuterPlace, outer_place
from outlast.loop.values import JsonObject
from outlast.testing import SpanCollector
from outlast.tracing.effect_spans import agent_span_id, effect_span_id, scope_of, turn_span_id
from outlast.tracing.kinds import SpanError

PLACE: JsonObject = {"key": "k", "root": "r", "handovers": 1, "turn": 2, "effect": 7}


def settings_of(**place: Any) -> JsonObject:
    call = {"agent": "A", "tool": "ask", "arguments": "{}", "trace": PLACE | place}
    return {"as_tool": call}


def place_of(**place: Any) -> OuterPlace:
    outer = outer_place(settings_of(**place))
    assert outer is not None
    return outer


@pytest.mark.parametrize(
    "settings", [None, {}, {"as_tool": "x"}, {"as_tool": {}}, {"as_tool": {"trace": 1}}]
)
def test_a_run_that_answers_no_traced_call_has_no_place(settings: JsonObject | None) -> None:
    assert outer_place(settings) is None


@pytest.mark.parametrize(
    ("place", "name"), [({}, None), ({"task": None}, "Agent workflow"), ({"task": "Own"}, "Own")]
)
def test_a_nested_run_with_settings_of_its_own_names_its_task(
    place: JsonObject, name: str | None
) -> None:
    assert place_of(**place).task_name == name


@pytest.mark.parametrize(
    ("turn", "parent"), [(2, turn_span_id("k", 2)), (0, agent_span_id("k", "A", 1))]
)
def test_the_call_is_told_in_the_turn_that_asks(turn: int, parent: str) -> None:
    outer = place_of(turn=turn)
    failure = SpanError(message="Gone", data=None)
    with SpanCollector() as collected:
        quiet = {"tracing": {"include_task_and_turn_spans": False}}  # of the nested run alone
        nested = scope_of(quiet, "n", agent="B", root_run_id="r", parent_span_id=outer.span_id)
        outer.tell(nested, started_at_ms=1_000, output="So.", error=failure)
    (asked,) = collected.spans("function")
    assert asked.span_id == nested.parent_span_id == effect_span_id("k", 7, 1, "function")
    assert (asked.parent_id, asked.error, asked.span_data.output) == (parent, failure, "So.")
    assert asked.started_at == "1970-01-01T00:00:01.000000+00:00"
