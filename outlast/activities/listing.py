"""The tools of an agent's MCP servers: listed for its model, and found again when called.

Owns: listing them, and what a failure of that comes to. From there on they are function tools like
any other. Knows no Temporal and no protocol.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from outlast.activities.errors import EffectError, lacking, of_user_code
from outlast.activities.failure_words import failure_words
from outlast.activities.inner_spans import listing
from outlast.activities.invocation import Invocation
from outlast.agents.errors import UserError
from outlast.agents.logs import get_logger
from outlast.agents.mcp.server import MCPFault, MCPProtocolError, MCPRefusal, MCPServer
from outlast.agents.mcp.tools import mcp_tools_of
from outlast.agents.tools.definition import FunctionTool

logger = get_logger(__name__)

LATE_ATTEMPTS = 2
"""How often a server is asked that answers too late or cannot be understood."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools of an agent's servers.

    Attributes:
        tools: those of the servers that could be asked.
        away: the names of the other servers.
    """

    tools: Sequence[FunctionTool]
    away: Sequence[str] = ()


async def list_mcp_tools(invocation: Invocation, *, attempt: int = 1, attempts: int = 1) -> Listing:
    """Ask the agent's MCP servers for their tools.

    A server that is down may be back soon, so all attempts of the effect are for it. One that
    answers too late, or that makes no sense, has two. After its last attempt, a server that is not
    required is left out.

    Args:
        invocation: the agent and the context.
        attempt: of the effect.
        attempts: how many there are.

    Raises:
        EffectError: a server is to be asked again, or is required and cannot be asked, or the tools
            do not fit.
    """
    agent, away = invocation.agent, list[str]()

    async def ask(server: MCPServer, context: Any, of: Any) -> list[Any] | None:
        try:
            return await listing(server, context, of)
        except Exception as error:
            most = _attempts_for(error, attempts)
            if most is None:
                raise
            what = f"Listing the tools of the MCP server {server.name!r}"
            failed = of_user_code(what, error)
            failed.attempts, failed.retryable = most, attempt < most
            if failed.retryable or server.required:
                raise failed from error
            words = failure_words(failed.message, error)
            logger.warning("agent %r continues without MCP tools: %s", agent.name, words)
            away.append(server.name)
            return None

    try:
        tools = await mcp_tools_of(agent, invocation.wrapper, ask)
    except EffectError:
        raise
    except Exception as error:
        raise of_user_code(f"Listing the MCP tools of agent {agent.name!r}", error) from error
    invocation.worker.registry.note_listed(agent.name, tools)
    return Listing(tools, away)


def _attempts_for(error: Exception, attempts: int) -> int | None:
    """Return how often a server is asked that failed so; None where it is not the server's fault.

    Args:
        error: how listing failed.
        attempts: how many there are.
    """
    if isinstance(error, MCPRefusal):  # asking again would not help
        return 1
    if isinstance(error, ConnectionError | MCPFault):
        return attempts
    if isinstance(error, TimeoutError | MCPProtocolError):
        return min(attempts, LATE_ATTEMPTS)
    return None


async def listed_tool(
    invocation: Invocation, name: str, *, attempt: int = 1, attempts: int = 1
) -> tuple[FunctionTool | None, Sequence[str]]:
    """Return a tool that this worker does not know, from the agent's MCP servers.

    Another worker has listed it. None where it is gone, or where its server is one of those that
    could not be asked, whose names are returned with it.

    Args:
        invocation: the agent and the context.
        name: the tool's.
        attempt: of the effect.
        attempts: how many there are.

    Raises:
        EffectError: the agent has no such servers, or they are to be asked again. Another worker
            may know the tool: during a deploy, old and new ones share a queue.
    """
    registry, away = invocation.worker.registry, list[str]()
    if invocation.agent.mcp_servers:
        listed = await list_mcp_tools(invocation, attempt=attempt, attempts=attempts)
        away.extend(listed.away)
    try:
        return registry.tool(invocation.agent.name, name), away
    except UserError as error:
        if invocation.agent.mcp_servers:
            return None, away
        raise lacking(str(error)) from error
