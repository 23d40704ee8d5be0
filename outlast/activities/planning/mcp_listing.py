"""Lists the tools of an agent's MCP servers, for its model and for later calls."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from outlast.activities.errors import lacking, of_user_code, user_code
from outlast.activities.failure_words import failure_words
from outlast.activities.inner_spans import traced_listing
from outlast.activities.invocation import Invocation
from outlast.agents.errors import UserError
from outlast.agents.logs import get_logger
from outlast.agents.mcp.server import MCPFault, MCPProtocolError, MCPRefusal, MCPServer
from outlast.agents.mcp.tools import mcp_tools_of
from outlast.agents.tools.definition import FunctionTool

logger: Final = get_logger(__name__)

LATE_ATTEMPTS = 2
"""Attempts for a server whose answer is late or invalid."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools of an agent's MCP servers.

    Attributes:
        away: the names of the other servers.
    """

    tools: Sequence[FunctionTool]
    away: Sequence[str] = ()


async def list_mcp_tools(invocation: Invocation, *, attempt: int = 1, attempts: int = 1) -> Listing:
    """List the tools of the agent's MCP servers.

    A server that is down gets all attempts of the effect, because it may be back soon. A server
    whose response is late or invalid gets two. After its last attempt, a server that is not
    required is left out.

    Raises:
        EffectError: a server needs a retry, or a required server is unavailable, or the tools do
            not fit.
    """
    agent, away = invocation.agent, list[str]()
    if not agent.mcp_servers:
        return Listing(())

    async def ask(server: MCPServer, context: Any, of: Any) -> list[Any] | None:
        try:
            return await traced_listing(server, context, of)
        except Exception as error:  # `_attempts_for` knows which are the server's
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

    with user_code(f"Listing the MCP tools of agent {agent.name!r}"):
        tools = await mcp_tools_of(agent, invocation.wrapper, ask)
    invocation.worker.registry.keep_listed(invocation.agent_name, tools)
    return Listing(tools, away)


def _attempts_for(error: Exception, attempts: int) -> int | None:
    if isinstance(error, MCPRefusal):  # a retry would not help
        return 1
    if isinstance(error, ConnectionError | MCPFault):
        return attempts
    if isinstance(error, TimeoutError | MCPProtocolError):
        return min(attempts, LATE_ATTEMPTS)
    return None


async def listed_tool(
    invocation: Invocation, name: str, source: str = "", *, attempt: int = 1, attempts: int = 1
) -> tuple[FunctionTool | None, Sequence[str]]:
    """Return a tool that this worker has not listed lately, and the servers that are unavailable.

    The tool is None if no available server has it.

    Raises:
        EffectError: the agent has no such servers, or they need a retry. Another worker may have
            the tool: during a deploy, old and new workers share a queue.
    """
    registry, away = invocation.worker.registry, list[str]()
    if invocation.agent.makes_tools:
        from outlast.activities.made_tools import made_tools  # few agents make theirs

        await made_tools(registry, invocation.agent, invocation.agent_name, invocation.wrapper)
    elif invocation.agent.mcp_servers:
        listed = await list_mcp_tools(invocation, attempt=attempt, attempts=attempts)
        away.extend(listed.away)
    try:
        return registry.tool(invocation.agent_name, name, source), away
    except UserError as error:
        if invocation.agent.mcp_servers:
            return None, away
        raise lacking(str(error)) from error
