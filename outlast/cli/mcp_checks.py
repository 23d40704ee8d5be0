"""The checks of `outlast doctor TARGET`: what the agents' MCP servers list."""

from collections.abc import Iterable
from typing import Any

from outlast.agents.agent import Agent
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import UserError
from outlast.agents.mcp.server import MCPServer
from outlast.agents.mcp.tools import list_tools, mcp_tools_of
from outlast.agents.registry import Registry
from outlast.cli.findings import Finding, missing, ok, optional
from outlast.edges.rendering import counted, cut, visible

LONGEST_REASON = 500


async def mcp_servers(agents: Iterable[Agent[Any]]) -> list[Finding]:
    """List the tools of every MCP server of these agents, and of those that they can reach."""
    registry = Registry(agents)
    findings: dict[str, list[Finding]] = {}
    try:
        for name in registry.names:
            agent = registry.agent(name)
            if agent.mcp_servers:
                await _look_at(agent, findings)
    finally:
        await registry.release()
    return [one for found in findings.values() for one in found]


async def _look_at(agent: Agent[Any], findings: dict[str, list[Finding]]) -> None:
    counts: dict[str, int] = {}

    async def ask(server: MCPServer, context: Any, of: Any) -> list[Any] | None:
        try:
            listed = await list_tools(server, context, of)
        except Exception as error:  # noqa: BLE001  whatever keeps a server from listing its tools
            words = _shown(f"{type(error).__name__}: {error}")
            level = missing if server.required else optional
            findings[server.name] = [level(_title(server), f"does not list its tools: {words}")]
            return None
        counts[server.name] = len(listed)
        return listed

    try:
        await mcp_tools_of(agent, RunContextWrapper(context=None), ask)
    except UserError as error:
        findings[f"agent {agent.name}"] = [missing("MCP tools", _shown(error.message))]
        return
    for server in agent.mcp_servers:
        if server.name in counts:
            findings[server.name] = [
                ok(_title(server), f"lists {counted(counts[server.name], 'tool')}"),
                *(
                    optional(_title(server), _shown(f"the tool {tool!r} {problem}"))
                    for tool, problem in server.tool_problems.items()
                ),
            ]


def _title(server: MCPServer) -> str:
    return _shown(f"MCP server {server.name!r}")


def _shown(text: str) -> str:
    return cut(visible(text), LONGEST_REASON)
