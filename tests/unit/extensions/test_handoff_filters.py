"""Ready-made input filters for handoffs."""

from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.handoffs import history as handoff_history
from outlast.agents.handoffs.input_data import HandoffInputData
from outlast.agents.items.run_items import (
    CompactionItem,
    HandoffCallItem,
    HandoffOutputItem,
    InputItem,
    MCPApprovalRequestItem,
    MCPApprovalResponseItem,
    MCPListToolsItem,
    MessageOutputItem,
    ProviderItem,
    ReasoningItem,
    RunItem,
    ToolApprovalItem,
    ToolCallItem,
    ToolCallOutputItem,
    ToolSearchCallItem,
    ToolSearchOutputItem,
)
from outlast.extensions import handoff_filters
from outlast.extensions.handoff_filters import remove_all_tools

A = Agent[Any](name="A")
CALL: dict[str, Any] = {"type": "function_call", "name": "f", "call_id": "c", "arguments": "{}"}
OUTPUT: dict[str, Any] = {"type": "function_call_output", "call_id": "c", "output": "1"}

KEPT: tuple[RunItem, ...] = (
    InputItem(None, {"role": "user", "content": "Hi"}),
    MessageOutputItem(A, {"type": "message", "role": "assistant", "content": []}),
    CompactionItem(A, {"type": "compaction", "encrypted_content": "x"}),
    ProviderItem(A, {"type": "of_tomorrow"}),
)
REMOVED: tuple[RunItem, ...] = (
    ToolCallItem(A, CALL),
    ToolCallOutputItem(A, OUTPUT, "1"),
    HandoffCallItem(A, CALL),
    HandoffOutputItem(A, OUTPUT, A, A),
    ReasoningItem(A, {"type": "reasoning", "summary": []}),
    MCPListToolsItem(A, {"type": "mcp_list_tools"}),
    MCPApprovalRequestItem(A, {"type": "mcp_approval_request"}),
    MCPApprovalResponseItem(A, {"type": "mcp_approval_response"}),
    ToolSearchCallItem(A, {"type": "tool_search_call"}),
    ToolSearchOutputItem(A, {"type": "tool_search_output"}),
    ToolApprovalItem(A, CALL),
    InputItem(None, OUTPUT),
    ProviderItem(A, {"type": "program_output"}),
)


def test_only_messages_are_left_in_every_part() -> None:
    mixed = tuple(one for pair in zip(KEPT * 4, REMOVED, strict=False) for one in pair)
    items = tuple(one for one in mixed if one in KEPT)
    data = HandoffInputData(
        input_history=({"role": "user", "content": "Hi"}, CALL, OUTPUT, {"type": "reasoning"}),
        pre_handoff_items=mixed,
        new_items=mixed,
        input_items=mixed,
    )
    left = remove_all_tools(data)
    assert left.input_history == ({"role": "user", "content": "Hi"},)
    assert left.pre_handoff_items == left.new_items == left.input_items == items
    assert len(items) == len(REMOVED)


@pytest.mark.parametrize(
    "kind",
    [
        "function_call",
        "function_call_output",
        "computer_call",
        "computer_call_output",
        "file_search_call",
        "web_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "local_shell_call",
        "local_shell_call_output",
        "shell_call",
        "shell_call_output",
        "apply_patch_call",
        "apply_patch_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "mcp_call",
        "mcp_list_tools",
        "mcp_approval_request",
        "mcp_approval_response",
        "tool_search_call",
        "tool_search_output",
        "reasoning",
    ],
)
def test_nothing_of_any_tool_is_left_in_the_history(kind: str) -> None:
    data = HandoffInputData(
        input_history=({"type": kind}, {"role": "user", "content": "Hi"}),
        pre_handoff_items=(),
        new_items=(),
    )
    assert remove_all_tools(data).input_history == ({"role": "user", "content": "Hi"},)


def test_a_history_of_text_stays_and_no_input_items_stay_none() -> None:
    data = HandoffInputData(input_history="Hi", pre_handoff_items=(), new_items=REMOVED)
    left = remove_all_tools(data)
    assert (left.input_history, left.new_items, left.input_items) == ("Hi", (), None)


def test_the_nesting_of_history_is_found_here_too() -> None:
    assert handoff_filters.nest_handoff_history is handoff_history.nest_handoff_history
    mapper = handoff_filters.default_handoff_history_mapper
    assert mapper is handoff_history.default_handoff_history_mapper
