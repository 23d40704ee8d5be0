"""What the item of a call says of its tool."""

from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.agent_tools.call_items import call_item, origin_of
from outlast.agents.items.run_items import ToolCallItem, ToolCallOutputItem
from outlast.agents.items.tool_origin import ToolOrigin, ToolOriginType
from outlast.agents.tools.definition import FunctionTool
from outlast.agents.tools.function_tool import function_tool
from outlast.extensions.machine.shell import LocalShellTool
from outlast.loop.items import Item

AGENT = Agent[Any](name="A")
CALL = Item("tool_call", {"type": "function_call", "call_id": "c1", "name": "add"}, "A")
OUTPUT = Item("tool_output", {"type": "function_call_output", "call_id": "c1", "output": "5"}, "A")


@function_tool
def add(left: int) -> int:
    """Add numbers."""
    return left


def agent_of(name: str) -> Agent[Any]:
    assert name == "A"
    return AGENT


@pytest.mark.parametrize(
    ("tool", "origin"),
    [
        (add, ToolOrigin(ToolOriginType.FUNCTION)),
        (
            AGENT.as_tool("ask"),
            ToolOrigin(ToolOriginType.AGENT_AS_TOOL, agent_name="A", agent_tool_name="ask"),
        ),
        (LocalShellTool(executor=str), None),
    ],
)
def test_a_tool_says_where_it_comes_from(tool: FunctionTool, origin: ToolOrigin | None) -> None:
    assert origin_of(tool) == origin


def test_a_call_repeats_what_its_tool_is_for_and_an_output_where_it_comes_from() -> None:
    called, answered = call_item(CALL, add, agent_of), call_item(OUTPUT, add, agent_of)
    assert isinstance(called, ToolCallItem)
    assert isinstance(answered, ToolCallOutputItem)
    assert (called.agent, called.description, called.title) == (AGENT, "Add numbers.", None)
    assert called.tool_origin == answered.tool_origin == ToolOrigin(ToolOriginType.FUNCTION)


def test_a_call_of_a_tool_that_nobody_knows_says_nothing_of_it() -> None:
    item = call_item(CALL, None, agent_of)
    assert isinstance(item, ToolCallItem)
    assert (item.description, item.tool_origin) == (None, None)


def test_a_tool_on_a_machine_has_a_description_and_no_origin() -> None:
    item = call_item(CALL, LocalShellTool(executor=str), agent_of)
    assert isinstance(item, ToolCallItem)
    assert item.tool_origin is None
