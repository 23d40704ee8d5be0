"""Run items of a transcript's entries, and as JSON and back."""

import json
from dataclasses import dataclass, fields
from datetime import date
from typing import Any, cast, get_args

import pytest

from outlast.agents.agent import Agent
from outlast.agents.errors import UserError
from outlast.agents.items.forms import item_from_json, item_of, item_to_json, run_item
from outlast.agents.items.run_items import (
    HandoffOutputItem,
    RunItem,
    RunItemBase,
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
    assert (item.type, item.agent, item_of(item)) == (type_, AGENTS["Desk"], raw)


@pytest.mark.parametrize("raw", [{"role": "user", "content": "Hi"}, output("from before"), CALL])
def test_what_came_from_outside_is_an_input_of_no_agent(raw: dict[str, Any]) -> None:
    item = of("input", raw, agent="")
    assert (item.type, item.agent, item_of(item)) == ("input_item", None, raw)


def test_a_transfer_names_both_agents() -> None:
    item = of("handoff_output", output(handed_over("Billing")))
    assert isinstance(item, HandoffOutputItem)
    assert (item.source_agent, item.target_agent) == (AGENTS["Desk"], AGENTS["Billing"])


def test_the_taker_may_be_told_where_the_output_does_not_name_it() -> None:
    item = of("handoff_output", output("Billing is with you now."), target="Billing")
    assert isinstance(item, HandoffOutputItem)
    assert item.target_agent is AGENTS["Billing"]


def test_an_output_is_what_the_model_reads_unless_more_is_known() -> None:
    read, known = of("tool_output", output("7")), of("tool_output", output("7"), output=7)
    assert isinstance(read, ToolCallOutputItem)
    assert isinstance(known, ToolCallOutputItem)
    assert (read.output, known.output) == ("7", 7)


def test_a_call_carries_what_is_known_of_its_tool() -> None:
    origin = ToolOrigin(ToolOriginType.MCP, mcp_server_name="crm")
    item = of("tool_call", CALL, description="Finds.", title="Find", tool_origin=origin)
    assert isinstance(item, ToolCallItem)
    assert (item.description, item.title, item.tool_origin) == ("Finds.", "Find", origin)


def test_no_model_is_shown_a_call_that_waits() -> None:
    with pytest.raises(UserError, match="waits for a decision"):
        item_of(ToolApprovalItem(agent=AGENTS["Desk"], raw_item=CALL))


VALUES: dict[str, Any] = {
    "agent": AGENTS["Desk"],
    "raw_item": {"type": "function_call", "id": "x", "name": "f", "nested": {"a": [1, None]}},
    "source_agent": AGENTS["Desk"],
    "target_agent": AGENTS["Billing"],
    "output": {"rows": [1, "two", None]},
    "description": "Finds.",
    "title": "Find",
    "tool_origin": ToolOrigin(ToolOriginType.AGENT_AS_TOOL, agent_name="Billing"),
    "tool_name": "find",
    "tool_namespace": "crm",
    "approval_id": "a-1",
    "custom_data": {"chart": [1, None]},
}


@pytest.mark.parametrize("kind", get_args(RunItem), ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("are_set", [True, False])
def test_every_item_survives_json(kind: Any, are_set: bool) -> None:
    names = [one.name for one in fields(kind) if one.name != "type"]
    required = {"agent", "raw_item", "source_agent", "target_agent", "output"}
    item = kind(**{name: VALUES[name] for name in names if are_set or name in required})
    data = json.loads(json.dumps(item_to_json(item)))
    again = cast("RunItemBase", item_from_json(data, AGENTS.__getitem__))
    assert type(again) is kind
    for name in names:
        if name != "raw_item":
            assert getattr(again, name) == getattr(item, name), name
    assert item_to_json(cast("RunItem", again)) == data
    assert data["raw_item"] == VALUES["raw_item"]


def test_an_item_of_no_agent_survives_json() -> None:
    item = of("input", {"role": "user", "content": "Hi"}, agent="")
    assert item_from_json(item_to_json(item), AGENTS.__getitem__) == item


def test_an_output_of_any_type_is_written_as_far_as_it_can_be() -> None:
    @dataclass
    class Row:
        day: date

    def written(value: object) -> object:
        item = ToolCallOutputItem(agent=AGENTS["Desk"], raw_item=output(""), output=value)
        return item_to_json(item)["output"]

    assert written(Row(date(2024, 2, 29))) == {"day": "2024-02-29"}
    assert written(object()).__class__ is str


@pytest.mark.parametrize(
    "data", [{}, {"type": "tool_call"}, {"type": "tool_call_item"}, {"raw_item": {}}]
)
def test_what_is_no_item_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="not the JSON of a run item"):
        item_from_json(data, AGENTS.__getitem__)


def test_an_output_of_another_form_is_what_it_says() -> None:
    raw = {"type": "apply_patch_call_output", "call_id": "c1", "status": "completed"}
    item = of("tool_output", raw)
    assert isinstance(item, ToolCallOutputItem)
    assert item.output == ""
