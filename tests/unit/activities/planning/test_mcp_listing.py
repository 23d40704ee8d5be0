"""The tools of an agent's MCP servers: asked for, and found again."""

from typing import Any

import pytest

from outlast.activities.errors import USER_CODE_ATTEMPTS, EffectError
from outlast.activities.planning.mcp_listing import list_mcp_tools, listed_tool
from outlast.agents.agent import Agent
from outlast.agents.mcp.server import MCPFault, MCPProtocolError, MCPRefusal
from outlast.contract import failures
from tests.mcp_servers import Shelf, tool
from tests.unit.activities.desk import invocation_of


def agent_of(*shelves: Shelf) -> Agent[Any]:
    return Agent(name="A", mcp_servers=list(shelves))


async def test_what_is_listed_is_known_from_then_on() -> None:
    invocation = invocation_of(agent_of(Shelf(tool("find"), tool("tear"))))
    listed = await list_mcp_tools(invocation)
    assert [one.name for one in listed.tools] == ["find", "tear"]
    assert listed.away == []
    assert invocation.worker.registry.tool("A", "tear") is listed.tools[1]


async def test_a_tool_that_another_worker_listed_is_asked_for() -> None:
    shelf = Shelf()
    found, _ = await listed_tool(invocation_of(agent_of(shelf)), "find")
    assert found is not None
    assert found.name == "find"
    assert shelf.steps == ["list"]


async def test_a_tool_that_its_server_does_not_have_any_more_is_none() -> None:
    found, away = await listed_tool(invocation_of(agent_of(Shelf(tool("tear")))), "find")
    assert (found, away) == (None, [])


async def test_without_servers_another_worker_may_know_the_tool() -> None:
    with pytest.raises(EffectError, match="has no tool 'find'") as caught:
        await listed_tool(invocation_of(agent_of()), "find")
    assert caught.value.retryable


class Away(Shelf):
    def __init__(self, error: Exception, **options: Any) -> None:
        super().__init__(**options)
        self.error = error

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[Any]:
        raise self.error


OUTAGE, FAULT = ConnectionRefusedError("nobody there"), MCPFault("HTTP status 503")
LATE, NONSENSE, REFUSAL = TimeoutError("too late"), MCPProtocolError("what?"), MCPRefusal("401")


@pytest.mark.parametrize(
    ("error", "most"), [(OUTAGE, 10), (FAULT, 10), (LATE, 2), (NONSENSE, 2), (REFUSAL, 1)]
)
async def test_a_server_is_asked_as_often_as_can_help_and_then_left_out(
    error: Exception, most: int, caplog: pytest.LogCaptureFixture
) -> None:
    agent = agent_of(Away(error, name="x"), Shelf(name="y"))
    for attempt in range(1, most):
        with pytest.raises(EffectError, match="Listing the tools of the MCP server 'x'") as caught:
            await list_mcp_tools(invocation_of(agent), attempt=attempt, attempts=10)
        assert (caught.value.retryable, caught.value.attempts) == (True, most)
    listed = await list_mcp_tools(invocation_of(agent), attempt=most, attempts=10)
    assert ([one.name for one in listed.tools], listed.away) == (["find"], ["x"])
    assert "agent 'A' continues without MCP tools: " in caplog.text
    assert str(error) in caplog.text


@pytest.mark.parametrize(("error", "most"), [(OUTAGE, 10), (LATE, 2), (REFUSAL, 1)])
async def test_a_server_that_is_required_ends_the_run_instead(error: Exception, most: int) -> None:
    invocation = invocation_of(agent_of(Away(error, required=True)))
    with pytest.raises(EffectError, match=r"Listing|401") as caught:
        await list_mcp_tools(invocation, attempt=most, attempts=10)
    assert (caught.value.retryable, caught.value.attempts) == (False, most)


async def test_a_server_keeps_what_it_was_seen_with_while_it_is_away() -> None:
    shelf = Away(REFUSAL)
    shelf.seen_tools = [tool("find")]
    await list_mcp_tools(invocation_of(agent_of(shelf)))
    assert [one.name for one in shelf.seen_tools] == ["find"]


async def test_who_looks_for_a_tool_hears_which_servers_are_away() -> None:
    found, away = await listed_tool(invocation_of(agent_of(Away(REFUSAL))), "find")
    assert (found, away) == (None, ["shelf"])


async def test_a_filter_or_server_of_the_users_that_is_wrong_fails_as_their_code() -> None:
    with pytest.raises(EffectError, match=r"Listing the MCP tools of agent 'A'.*Key") as caught:
        await list_mcp_tools(invocation_of(agent_of(Away(KeyError("k")))), attempts=10)
    assert (caught.value.retryable, caught.value.attempts) == (True, USER_CODE_ATTEMPTS)
    with pytest.raises(EffectError, match=r"Listing the MCP tools of agent 'A'.*Type") as caught:
        await list_mcp_tools(invocation_of(agent_of(Away(TypeError("t")))), attempts=10)
    assert not caught.value.retryable


async def test_tools_that_clash_are_the_programs_mistake() -> None:
    with pytest.raises(EffectError, match="'x' and 'y' both have a tool 'find'") as caught:
        await list_mcp_tools(invocation_of(agent_of(Shelf(name="x"), Shelf(name="y"))))
    assert (caught.value.code, caught.value.retryable) == (failures.USER_ERROR, False)
