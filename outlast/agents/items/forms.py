"""Run items from transcript entries, and run items as JSON, with agents by name, and back."""

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import fields
from typing import Any, TypeAlias, cast, get_args

from outlast.agents.errors import UserError
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
    RunItemBase,
    ToolCallItem,
    ToolCallOutputItem,
    ToolSearchCallItem,
    ToolSearchOutputItem,
    raw_of,
)
from outlast.agents.items.tool_origin import ToolOrigin, ToolOriginType
from outlast.loop.items import Item
from outlast.loop.values import Json, JsonObject

AgentOfName: TypeAlias = Callable[[str], Any]
"""Returns the agent of a name."""

_AGENTS = frozenset({"agent", "source_agent", "target_agent"})
_AS_WRITTEN = object()

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
_CLASSES: dict[str, type[RunItem]] = {
    kind.__dataclass_fields__["type"].default: kind for kind in get_args(RunItem)
}


def run_item(
    item: Item,
    agent_of: AgentOfName,
    *,
    output: Any = _AS_WRITTEN,
    target: str | None = None,
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
        named = _recipient(raw)
        target = target or (named and (item.target or named))
        if target is not None:
            return HandoffOutputItem(
                agent=agent, raw_item=raw, source_agent=agent, target_agent=agent_of(target)
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
        value = output_content(raw) if output is _AS_WRITTEN else output
        return ToolCallOutputItem(
            agent=agent,
            raw_item=raw,
            output=value,
            tool_origin=tool_origin,
            custom_data=deepcopy(item.custom_data),
        )
    plain: Any = _PLAIN.get(item.kind) or _OTHERS.get(kind, ProviderItem)
    return plain(agent=agent, raw_item=raw)


def item_of(item: RunItem) -> JsonObject:
    """Return a run item as input for a model."""
    return item.to_input_item()


def item_to_json(item: RunItem) -> JsonObject:
    """Return a run item as JSON, with its agents as names."""
    data: JsonObject = {"type": item.type, "raw_item": raw_of(item)}
    for field in fields(cast("RunItemBase", item)):
        if field.name in {"type", "raw_item"}:
            continue
        value = getattr(item, field.name)
        if value is not None:
            data[field.name] = value.name if field.name in _AGENTS else _json(value)
    return data


def item_from_json(data: JsonObject, agent_of: AgentOfName) -> RunItem:
    """Read a run item from the JSON of `item_to_json`."""
    kind = _CLASSES.get(str(data.get("type")))
    if kind is None or not isinstance(data.get("raw_item"), dict):
        raise UserError(
            f"This is not the JSON of a run item: type={data.get('type')!r}. Pass the result of "
            "item_to_json."
        )
    values: JsonObject = {}
    for field in fields(cast("type[RunItemBase]", kind)):
        value: Json = data.get(field.name)
        if field.name in _AGENTS and value is not None:
            value = agent_of(value)
        elif field.name == "tool_origin" and value is not None:
            value = ToolOrigin.from_json_dict(value)
        values[field.name] = value
    return kind(**values)


def _hosted_origin(raw: JsonObject) -> ToolOrigin | None:
    if raw.get("type") != "mcp_call":
        return None
    return ToolOrigin(ToolOriginType.MCP, mcp_server_name=raw.get("server_label"))


def _is_hosted_call(raw: JsonObject) -> bool:
    kind = str(raw.get("type", ""))
    return kind.endswith(("_call", "program")) and kind not in _OTHERS


def _recipient(raw: JsonObject) -> str | None:
    try:
        output: Json = json.loads(raw.get("output") or "")
    except (TypeError, ValueError):
        return None
    name = cast("JsonObject", output).get("assistant") if isinstance(output, dict) else None
    return name if isinstance(name, str) else None


def _json(value: object) -> Json:
    if isinstance(value, ToolOrigin):
        return value.to_json_dict()
    if isinstance(value, str | int | float):
        return value
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value, fallback=str)
