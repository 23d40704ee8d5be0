"""Run items from transcript entries."""

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any, TypeAlias

from outlast.agents.items.call_outputs import output_content
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
    ToolCallItem,
    ToolCallOutputItem,
    ToolSearchCallItem,
    ToolSearchOutputItem,
)
from outlast.agents.items.tool_origin import ToolOrigin, ToolOriginType
from outlast.agents.json_values import as_object
from outlast.loop.items import Item
from outlast.loop.values import JsonObject

AgentOfName: TypeAlias = Callable[[str], Any]
"""Returns the agent of a name."""

_PLAIN: dict[str, type[RunItem]] = {
    "input": InputItem,
    "note": InputItem,
    "message": MessageOutputItem,
    "draft": MessageOutputItem,
    "reasoning": ReasoningItem,
    "handoff_call": HandoffCallItem,
}
_OTHERS: dict[str, type[RunItem]] = {
    "message": MessageOutputItem,
    "reasoning": ReasoningItem,
    "mcp_list_tools": MCPListToolsItem,
    "mcp_approval_request": MCPApprovalRequestItem,
    "mcp_approval_response": MCPApprovalResponseItem,
    "tool_search_call": ToolSearchCallItem,
    "tool_search_output": ToolSearchOutputItem,
    "compaction": CompactionItem,
}


def run_item(
    item: Item,
    agent_of: AgentOfName,
    *,
    description: str | None = None,
    title: str | None = None,
    tool_origin: ToolOrigin | None = None,
) -> RunItem:
    """Return the run item of a transcript entry."""
    raw = item.raw
    agent = agent_of(item.agent) if item.agent else None
    if str(raw.get("type")).startswith("mcp_approval"):
        kind_of_approval: Any = _OTHERS[str(raw["type"])]
        return kind_of_approval(agent=agent, raw_item=raw)
    if item.kind == "handoff_output":
        named = item.target or _recipient(raw)
        if named is not None:
            target = agent_of(named)
            return HandoffOutputItem(
                agent=agent, raw_item=raw, source_agent=agent, target_agent=target
            )
    if item.kind == "tool_call" or (item.kind == "other" and _is_hosted_call(raw)):
        return ToolCallItem(
            agent=agent,
            raw_item=raw,
            description=description,
            title=title,
            tool_origin=tool_origin or _hosted_origin(raw),
        )
    kind = str(raw.get("type", ""))
    # An ignored handoff has an output like any other call.
    is_hosted_output = item.kind == "other" and kind.endswith(("_call_output", "program_output"))
    if item.kind in {"tool_output", "handoff_output"} or is_hosted_output:
        return ToolCallOutputItem(
            agent=agent,
            raw_item=raw,
            output=output_content(raw),
            tool_origin=tool_origin,
            custom_data=deepcopy(item.custom_data),
        )
    plain: Any = _PLAIN.get(item.kind) or _OTHERS.get(kind, ProviderItem)
    return plain(agent=agent, raw_item=raw)


def _hosted_origin(raw: JsonObject) -> ToolOrigin | None:
    if raw.get("type") != "mcp_call":
        return None
    return ToolOrigin(ToolOriginType.MCP, mcp_server_name=raw.get("server_label"))


def _is_hosted_call(raw: JsonObject) -> bool:
    kind = str(raw.get("type", ""))
    return kind.endswith(("_call", "program")) and kind not in _OTHERS


def _recipient(raw: JsonObject) -> str | None:
    try:
        output = as_object(json.loads(raw.get("output") or "")) or {}
    except (TypeError, ValueError):
        return None
    name = output.get("assistant")
    return name if isinstance(name, str) else None
