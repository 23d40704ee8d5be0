"""The tools of an agent's MCP servers: asked for, and found again."""

from typing import Any

import pytest

from outlast.activities.errors import USER_CODE_ATTEMPTS, EffectError
from outlast.activities.listing import list_mcp_tools, listed_tool
from outlast.agents.agent import Agent
from outlast.contract import failures
from tests.mcp_servers import Shelf, tool
from tests.unit.activities.desk import scene_of


def agent_of(*shelves: Shelf) -> Agent[Any]:
    return Agent(name="A", mcp_servers=list(shelves))


async def test_what_is_listed_is_known_from_then_on() -> None:
    scene = scene_of(agent_of(Shelf(tool("find"), tool("tear"))))
    tools = await list_mcp_tools(scene)
    assert [one.name for one in tools] == ["find", "tear"]
    assert scene.worker.registry.tool("A", "tear") is tools[1]


async def test_a_tool_that_another_worker_listed_is_asked_for() -> None:
    shelf = Shelf()
    found = await listed_tool(scene_of(agent_of(shelf)), "find")
    assert found is not None
    assert found.name == "find"
    assert shelf.steps == ["list"]


async def test_a_tool_that_its_server_does_not_have_any_more_is_none() -> None:
    assert await listed_tool(scene_of(agent_of(Shelf(tool("tear")))), "find") is None


async def test_without_servers_another_worker_may_know_the_tool() -> None:
    with pytest.raises(EffectError, match="has no tool 'find'") as caught:
        await listed_tool(scene_of(agent_of()), "find")
    assert caught.value.retryable


class Away(Shelf):
    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[Any]:
        raise ConnectionError("nobody there")


async def test_a_server_that_cannot_be_reached_is_tried_a_few_times() -> None:
    with pytest.raises(EffectError, match=r"Listing the MCP tools of agent 'A'.*there") as caught:
        await list_mcp_tools(scene_of(agent_of(Away())))
    assert caught.value.retryable
    assert caught.value.attempts == USER_CODE_ATTEMPTS


async def test_tools_that_clash_are_the_programs_mistake() -> None:
    with pytest.raises(EffectError, match="'x' and 'y' both have a tool 'find'") as caught:
        await list_mcp_tools(scene_of(agent_of(Shelf(name="x"), Shelf(name="y"))))
    assert (caught.value.code, caught.value.retryable) == (failures.USER_ERROR, False)
