"""What `outlast doctor TARGET` says about the MCP servers of agents."""

from typing import Any

from outlast.agents.agent import Agent
from outlast.cli.findings import Finding, missing, ok, optional
from outlast.cli.mcp_checks import mcp_servers
from tests.mcp_servers import Shelf, tool


class Away(Shelf):
    """A server that does not list its tools."""

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[Any]:
        raise ConnectionError("nobody \x1b[2Jthere")


async def findings(*servers: Any, **options: Any) -> list[Finding]:
    """Return the findings for an agent that another one hands over to."""
    agent = Agent[Any](name="B", mcp_servers=list(servers), **options)
    return await mcp_servers([Agent[Any](name="A", handoffs=[agent])])


async def test_a_server_lists_its_tools_and_says_which_are_odd() -> None:
    shelf = Shelf(tool("find"), tool("books.find"))
    found = await findings(shelf, Shelf(tool("pay"), name="shop"))
    assert found[0] == ok("MCP server 'shelf'", "lists 2 tools")
    assert found[1].level == "optional"
    assert found[1].detail.startswith("the tool 'books.find' is called books_find_")
    assert found[2:] == [ok("MCP server 'shop'", "lists 1 tool")]
    assert shelf.steps[-1] == "release"


async def test_a_server_that_is_away_is_named_in_harmless_words() -> None:
    words = "does not list its tools: ConnectionError: nobody \\u001b[2Jthere"
    assert await findings(Away()) == [optional("MCP server 'shelf'", words)]
    assert await findings(Away(required=True)) == [missing("MCP server 'shelf'", words)]


async def test_names_that_two_servers_have_are_named() -> None:
    [found] = await findings(Shelf(), Shelf(name="other"))
    assert (found.level, found.what) == ("missing", "MCP tools")
    assert "both have a tool 'find'" in found.detail


async def test_an_agent_without_servers_needs_none() -> None:
    assert await findings() == []
