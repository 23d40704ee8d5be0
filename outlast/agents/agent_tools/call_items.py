"""Run items of tool calls, with the tool's description, title and origin."""

from typing import Any

from outlast.agents.agent_tools.agent_tool import AgentTool
from outlast.agents.handoffs.handoff import Handoff
from outlast.agents.items.forms import AgentOfName, run_item
from outlast.agents.items.run_items import TARGET, RunItem
from outlast.agents.items.tool_origin import ToolOrigin, ToolOriginType
from outlast.agents.mcp.tools import MCPFunctionTool
from outlast.agents.tools.definition import FunctionTool
from outlast.agents.tools.local import LocalTool
from outlast.loop.call_forms import name_of
from outlast.loop.items import Item


def call_item(item: Item, tool: FunctionTool | None, agent_of: AgentOfName) -> RunItem:
    """Return the public run item of a tool call or of a tool's output."""
    if tool is None:
        return run_item(item, agent_of)
    origin = origin_of(tool)
    if item.kind != "tool_call":
        return run_item(item, agent_of, tool_origin=origin)
    if isinstance(tool, LocalTool):
        return run_item(item, agent_of, description=tool.description or None)
    return run_item(
        item,
        agent_of,
        description=tool.description,
        title=tool.mcp_title if isinstance(tool, MCPFunctionTool) else tool.title,
        tool_origin=origin,
    )


def handoff_call_item(item: Item, caller: Any, agent_of: AgentOfName) -> RunItem:
    """Return the public run item of a handoff's call; `caller` is the agent, or None."""
    made = run_item(item, agent_of)
    name = name_of(item.raw)
    for entry in getattr(caller, "handoffs", ()):
        is_plain = not isinstance(entry, Handoff)
        if name == (Handoff.default_tool_name(entry) if is_plain else entry.tool_name):
            made.__dict__[TARGET] = entry if is_plain else entry.agent
    return made


def origin_of(tool: FunctionTool) -> ToolOrigin | None:
    """Return the origin of a tool; None for a local tool, such as a shell."""
    if isinstance(tool, LocalTool):
        return None
    if isinstance(tool, AgentTool):
        name = tool.agent.name
        return ToolOrigin(ToolOriginType.AGENT_AS_TOOL, agent_name=name, agent_tool_name=tool.name)
    if isinstance(tool, MCPFunctionTool) and tool.tool_origin is not None:
        return tool.tool_origin
    return ToolOrigin(ToolOriginType.FUNCTION)
