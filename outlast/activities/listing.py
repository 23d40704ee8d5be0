"""The tools of an agent's MCP servers: asked for when its model is, and found again when called.

Owns: asking for them, and what it comes to if that fails. From there on they are function tools
like any other. Knows no Temporal and no protocol.
"""

from outlast.activities.errors import EffectError, of_user_code
from outlast.activities.inner_spans import listing
from outlast.activities.scene import Scene
from outlast.agents.errors import UserError
from outlast.agents.mcp_tools import mcp_tools_of
from outlast.agents.tool_definition import FunctionTool
from outlast.contract import failures


async def list_mcp_tools(scene: Scene) -> list[FunctionTool]:
    """Ask the agent's MCP servers for their tools.

    Raises:
        EffectError: a server cannot be reached, or its tools do not fit.
    """
    agent = scene.agent
    try:
        tools = await mcp_tools_of(agent, scene.wrapper, listing)
    except Exception as error:
        raise of_user_code(f"Listing the MCP tools of agent {agent.name!r}", error) from error
    scene.worker.registry.note_listed(agent.name, tools)
    return tools


async def listed_tool(scene: Scene, name: str) -> FunctionTool | None:
    """Return a tool that this worker does not know, from the agent's MCP servers.

    Another worker has listed it, or it is gone, and None.

    Raises:
        EffectError: the agent has no such servers, or they cannot be asked. Another worker may
            know the tool: during a deploy, old and new ones share a queue.
    """
    registry = scene.worker.registry
    if scene.agent.mcp_servers:
        await list_mcp_tools(scene)
    try:
        return registry.tool(scene.agent.name, name)
    except UserError as error:
        if scene.agent.mcp_servers:
            return None
        raise EffectError(failures.USER_ERROR, str(error), retryable=True) from error
