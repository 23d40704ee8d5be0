"""Spans of the known kinds, under the names users know."""

from typing import Any

import pytest

from outlast.testing.span_collector import SpanCollector
from outlast.tracing.current import Span
from outlast.tracing.provider import trace
from outlast.tracing.user_spans import (
    agent_span,
    function_span,
    generation_span,
    guardrail_span,
    handoff_span,
    mcp_tools_span,
    response_span,
    task_span,
    turn_span,
)


def open_all(**where: Any) -> list[Span[Any]]:
    return [
        agent_span("A", ["B"], ["f"], "str", **where),
        function_span("f", "in", "out", **where),
        generation_span([], [], "gpt-5", {}, {"input_tokens": 1}, **where),
        response_span({"id": "resp_1"}, **where),
        guardrail_span("g", True, **where),
        handoff_span("A", "B", **where),
        mcp_tools_span("shelf", ["find"], **where),
        task_span("Support", **where),
        turn_span(2, "A", **where),
    ]


EXPORTED: list[dict[str, Any]] = [
    {"type": "agent", "name": "A", "handoffs": ["B"], "tools": ["f"], "output_type": "str"},
    {"type": "function", "name": "f", "input": "in", "output": "out", "mcp_data": None},
    {
        "type": "generation",
        "input": [],
        "output": [],
        "model": "gpt-5",
        "model_config": {},
        "usage": {"input_tokens": 1},
    },
    {"type": "response", "response_id": "resp_1", "usage": None},
    {"type": "guardrail", "name": "g", "triggered": True},
    {"type": "handoff", "from_agent": "A", "to_agent": "B"},
    {"type": "mcp_tools", "server": "shelf", "result": ["find"]},
    {"type": "custom", "name": "task", "data": {"sdk_span_type": "task", "name": "Support"}},
    {
        "type": "custom",
        "name": "turn",
        "data": {"sdk_span_type": "turn", "turn": 2, "agent_name": "A"},
    },
]


def test_each_tells_its_data() -> None:
    with SpanCollector() as collected, trace("Support"):
        for span in open_all():
            with span:
                pass
    assert [span.span_data.export() for span in collected.spans()] == EXPORTED


def test_each_can_be_given_its_id_and_its_place() -> None:
    with SpanCollector():
        elsewhere = trace("Elsewhere")
        opened = open_all(parent=elsewhere, span_id="span_mine")
    assert {(span.trace, span.span_id) for span in opened} == {(elsewhere, "span_mine")}


@pytest.mark.parametrize("where", [{}, {"disabled": True}])
def test_each_can_be_used_where_nobody_is_told(where: dict[str, Any]) -> None:
    with SpanCollector() as collected, trace("Support", disabled=not where):
        for span in open_all(**where):
            with span:
                pass
    assert collected.spans() == []
