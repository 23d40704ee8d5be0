"""What an extractor gets of an agent that worked as a tool."""

from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.agent_tools.nested_result import AgentToolInvocation, AgentToolResult
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.items.run_items import MessageOutputItem
from outlast.loop.values import JsonObject

ASKED = AgentToolInvocation("ask", "c1", '{"input": "Why?"}')
EXPERT = Agent[Any](name="Expert")
ANSWER: JsonObject = {"type": "message", "role": "assistant", "content": "42"}


@pytest.mark.parametrize(
    ("asked", "items"),
    [
        ("Why?", [{"role": "user", "content": "Why?"}]),
        ([{"role": "developer", "content": "x"}], [{"role": "developer", "content": "x"}]),
        ([], []),
    ],
)
def test_a_result_is_also_a_list_of_input_items(asked: Any, items: list[Any]) -> None:
    result = AgentToolResult(
        input=asked,
        new_items=[MessageOutputItem(agent=EXPERT, raw_item=ANSWER)],
        final_output="42",
        last_agent=EXPERT,
        context_wrapper=RunContextWrapper(context=None),
        agent_tool_invocation=ASKED,
    )
    assert result.to_input_list() == [*items, ANSWER]
    assert result.to_input_list() is not asked


def test_the_answer_is_had_as_the_type_that_it_is_of() -> None:
    result = AgentToolResult(
        input="Why?",
        new_items=[],
        final_output="42",
        last_agent=EXPERT,
        context_wrapper=RunContextWrapper(context=None),
        agent_tool_invocation=ASKED,
    )
    assert result.final_output_as(int) == "42"
    assert result.final_output_as(str, raise_if_incorrect_type=True) == "42"
    with pytest.raises(TypeError, match=r"The final output is of type str, not int\."):
        result.final_output_as(int, raise_if_incorrect_type=True)
