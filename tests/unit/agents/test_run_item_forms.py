"""Run items of a transcript's entries."""

from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.errors import UserError
from outlast.agents.items.forms import run_item
from outlast.agents.items.run_items import (
    HandoffOutputItem,
    RunItem,
    ToolApprovalItem,
    ToolCallItem,
    ToolCallOutputItem,
)
from outlast.agents.items.tool_origin import ToolOrigin, ToolOriginType
from outlast.loop.items import Item, ItemKind
from outlast.loop.phrases import HANDOFF_IGNORED, handed_over

AGENTS = {name: Agent[Any](name=name) for name in ("Desk", "Billing")}
CALL = {"type": "function_call", "name": "f", "call_id": "c", "arguments": "{}"}
MESSAGE: dict[str, Any] = {"type": "message", "role": "assistant", "content": []}


def output(text: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": "c", "output": text}


def of(kind: ItemKind, raw: dict[str, Any], agent: str = "Desk", **details: Any) -> RunItem:
    return run_item(Item(kind, raw, agent, 1), AGENTS.__getitem__, **details)


@pytest.mark.parametrize(
    ("raw", "origin"),
    [
        (
            {"type": "mcp_call", "name": "m", "server_label": "docs"},
            ToolOrigin(ToolOriginType.MCP, mcp_server_name="docs"),
        ),
        ({"type": "web_search_call", "id": "w"}, None),
    ],
)
def test_a_call_that_the_provider_made_says_which_server_it_called(
    raw: dict[str, Any], origin: ToolOrigin | None
) -> None:
    item = of("other", raw)
    assert isinstance(item, ToolCallItem)
    assert item.tool_origin == origin


@pytest.mark.parametrize(
    ("kind", "raw", "type_"),
    [
        ("message", MESSAGE, "message_output_item"),
        ("reasoning", {"type": "reasoning", "summary": []}, "reasoning_item"),
        ("tool_call", CALL, "tool_call_item"),
        ("tool_output", output("1"), "tool_call_output_item"),
        ("handoff_call", CALL, "handoff_call_item"),
        ("handoff_output", output(handed_over("Billing")), "handoff_output_item"),
        ("handoff_output", output(HANDOFF_IGNORED), "tool_call_output_item"),
        ("handoff_output", output('["no object"]'), "tool_call_output_item"),
        ("other", {"type": "web_search_call", "id": "w"}, "tool_call_item"),
        ("other", {"type": "mcp_call", "name": "m"}, "tool_call_item"),
        ("other", {"type": "shell_call_output", "output": []}, "tool_call_output_item"),
        ("other", {"type": "mcp_list_tools", "tools": []}, "mcp_list_tools_item"),
        ("other", {"type": "mcp_approval_request", "id": "r"}, "mcp_approval_request_item"),
        ("other", {"type": "mcp_approval_response"}, "mcp_approval_response_item"),
        ("other", {"type": "tool_search_call"}, "tool_search_call_item"),
        ("other", {"type": "tool_search_output"}, "tool_search_output_item"),
        ("other", {"type": "compaction", "encrypted_content": "x"}, "compaction_item"),
        ("other", {"type": "of_tomorrow"}, "provider_item"),
    ],
)
def test_each_entry_becomes_the_item_that_programs_expect(
    kind: ItemKind, raw: dict[str, Any], type_: str
) -> None:
    item = of(kind, raw)
    assert (item.type, item.agent, item.to_input_item()) == (type_, AGENTS["Desk"], raw)


@pytest.mark.parametrize("raw", [{"role": "user", "content": "Hi"}, output("from before"), CALL])
def test_what_came_from_outside_is_an_input_of_no_agent(raw: dict[str, Any]) -> None:
    item = of("input", raw, agent="")
    assert (item.type, item.agent, item.to_input_item()) == ("input_item", None, raw)


def test_a_transfer_names_both_agents() -> None:
    item = of("handoff_output", output(handed_over("Billing")))
    assert isinstance(item, HandoffOutputItem)
    assert (item.source_agent, item.target_agent) == (AGENTS["Desk"], AGENTS["Billing"])


def test_an_output_is_what_the_model_reads() -> None:
    read = of("tool_output", output("7"))
    assert isinstance(read, ToolCallOutputItem)
    assert read.output == "7"


def test_a_call_carries_what_is_known_of_its_tool() -> None:
    origin = ToolOrigin(ToolOriginType.MCP, mcp_server_name="crm")
    item = of("tool_call", CALL, description="Finds.", title="Find", tool_origin=origin)
    assert isinstance(item, ToolCallItem)
    assert (item.description, item.title, item.tool_origin) == ("Finds.", "Find", origin)


def test_no_model_is_shown_a_call_that_waits() -> None:
    with pytest.raises(UserError, match="waits for a decision"):
        ToolApprovalItem(agent=AGENTS["Desk"], raw_item=CALL).to_input_item()


def test_an_output_of_another_form_is_what_it_says() -> None:
    raw = {"type": "apply_patch_call_output", "call_id": "c1", "status": "completed"}
    item = of("tool_output", raw)
    assert isinstance(item, ToolCallOutputItem)
    assert item.output == ""
