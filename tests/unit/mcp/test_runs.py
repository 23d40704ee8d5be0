"""Runs in memory with tools of MCP servers: the loop is the one of durable runs."""

import asyncio
import json
import os
import sys
from datetime import timedelta
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.config.model_settings import ModelSettings
from outlast.agents.config.run_config import RunConfig
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import AgentsException, ToolFailed
from outlast.agents.mcp.filters import create_static_tool_filter
from outlast.agents.mcp.server import MCPConfig
from outlast.agents.tools.function_tool import function_tool
from outlast.mcp import MCPServerStdio, MCPServerStreamableHttp
from outlast.testing import ScriptedModel, call, run_in_memory
from tests.conformance.views import offered, outputs, tool_outputs
from tests.mcp_servers import PATIENCE_SECONDS, Nonsense, Shelf, stdio, tool


def text(said: str) -> list[dict[str, str]]:
    """A result that is text, as the model reads it."""
    return [{"type": "input_text", "text": said}]


def broken(*_call: Any) -> Any:
    raise ConnectionError("nobody there")


@pytest.mark.full
@pytest.mark.parametrize(
    "kind", ["mute", "mute_list", "ssh", "page", "json", "shape", "401", "404", "503"]
)
async def test_a_server_that_makes_no_sense_costs_seconds_and_the_model_is_told(kind: str) -> None:
    async with Nonsense(kind) as program:
        bound_seconds = 0.3 if "mute" in kind else 30
        server = MCPServerStreamableHttp(
            {"url": program.url}, name="shelf", client_session_timeout_seconds=bound_seconds
        )
        agent = Agent(
            name="A",
            instructions="Be kind.",
            mcp_servers=[server],
            model_settings=ModelSettings(tool_choice="required"),
        )
        model = ScriptedModel([call("find", "c1")], "Done.")
        async with asyncio.timeout(PATIENCE_SECONDS):
            result = await run_in_memory(agent, "Hello", model=model)
        assert result.final_output == "Done."
        away = "The tools of 'shelf' are not available at the moment."
        assert model.requests[0].instructions == (
            f"Be kind.\n\n{away} If they are needed, say so instead of guessing."
        )
        assert model.requests[0].settings.tool_choice is None
        assert tool_outputs(result) == [f"There is no tool 'find'. Available: none. {away}"]


@pytest.mark.full
async def test_a_process_that_never_says_hello_costs_its_time_to_start_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("outlast.mcp.connected_server.PATIENCE", timedelta(seconds=1))
    params: Any = {"command": sys.executable, "args": ["-c", "import sys; sys.stdin.read()"]}
    server = MCPServerStdio(params, name="shelf", client_session_timeout_seconds=0.3)
    model = ScriptedModel("Done.")
    async with asyncio.timeout(PATIENCE_SECONDS):
        await run_in_memory(Agent(name="A", mcp_servers=[server]), "Hello", model=model)
    assert "The tools of 'shelf' are not available" in str(model.requests[0].instructions)
    for bound in ["1 s", "0.3 s"]:
        with pytest.raises(TimeoutError, match=f"'shelf' did not answer within {bound}"):
            await server.list_tools()
    await server.cleanup()


@pytest.mark.full
async def test_a_run_ends_where_a_server_that_it_requires_makes_no_sense() -> None:
    async with Nonsense("page") as program:
        server = MCPServerStreamableHttp({"url": program.url}, name="shelf", required=True)
        model = ScriptedModel("never")
        with pytest.raises(AgentsException, match="'shelf' refused to"):
            await run_in_memory(Agent(name="A", mcp_servers=[server]), "Hello", model=model)
    assert model.calls == 0


async def test_a_tool_of_a_server_that_is_away_is_no_unknown_tool() -> None:
    config = RunConfig(tool_not_found_behavior="raise")
    async with Nonsense("401") as program:
        server = MCPServerStreamableHttp({"url": program.url}, name="shelf")
        model = ScriptedModel([call("find", "c1")], "Done.")
        agent = Agent(name="A", mcp_servers=[server])
        result = await run_in_memory(agent, "Hello", model=model, run_config=config)
    assert result.final_output == "Done."


async def test_tools_of_servers_are_offered_first_and_the_agents_own_wins() -> None:
    @function_tool
    def tear() -> str:
        """Tear."""
        return "own"

    shelf = Shelf(tool("find"), tool("tear"))
    agent = Agent(name="A", tools=[tear], mcp_servers=[shelf])
    model = ScriptedModel([call("tear", "c1"), call("find", "c2")], "Done.")
    result = await run_in_memory(agent, "Hello", model=model)
    assert offered(model.requests[0]) == ["find", "tear"]
    assert tool_outputs(result) == ["own", text("find {}")]
    assert [name for name, _, _ in shelf.calls] == ["find"]


async def test_a_filter_hides_tools_from_the_model() -> None:
    chosen = create_static_tool_filter(allowed_tool_names=["find", "tear"])
    agent = Agent(name="A", mcp_servers=[stdio(tool_filter=chosen)])
    model = ScriptedModel([call("process_id", "c1")], "Done.")
    result = await run_in_memory(agent, "Hello", model=model)
    assert offered(model.requests[0]) == ["find", "tear"]
    assert "There is no tool 'process_id'" in tool_outputs(result)[0]


async def test_a_person_decides_where_the_server_says_so() -> None:
    schema: Any = {"type": "object", "properties": {"title": {"type": "string"}}}
    listed = [tool("find", inputSchema=schema), tool("tear", inputSchema=schema)]

    def torn(_context: Any, agent: Agent[Any], one: Any) -> bool:
        assert agent.name == "A"
        return one.name == "tear"

    agent = Agent(name="A", mcp_servers=[Shelf(*listed, require_approval=torn)])
    model = ScriptedModel([call("find", "c1"), call("tear", "c2")], "Done.")
    asked: list[str] = []

    def decide(request: Any) -> bool:
        asked.append(request.name)
        return False

    await run_in_memory(agent, "Hello", model=model, decide=decide)
    assert asked == ["tear"]
    assert outputs(model.requests[1])["c1"] == text("find {}")


async def test_results_of_every_kind_are_read_by_the_model() -> None:
    agent = Agent(name="A", mcp_servers=[stdio(use_structured_content=True)])
    model = ScriptedModel(
        [call("cover", "c1"), call("count", "c2"), call("tear", "c3", page=3)], "Done."
    )
    await run_in_memory(agent, "Hello", model=model)
    told = outputs(model.requests[1])
    assert told["c1"][0] == {"type": "input_text", "text": "A cover:"}
    assert told["c1"][1]["image_url"].startswith("data:image/png;base64,")
    assert json.loads(told["c2"]) == {"books": 3}
    assert "page 3 is glued in" in told["c3"][0]["text"]


async def test_a_text_can_be_the_answer() -> None:
    agent = Agent(name="A", mcp_servers=[Shelf()], tool_use_behavior="stop_on_first_tool")
    result = await run_in_memory(agent, "Hello", model=ScriptedModel([call("find", "c1")]))
    assert result.final_output == "find {}"


@pytest.mark.parametrize(("says", "calls"), [({}, 1), ({"idempotentHint": True}, 3)])
async def test_a_call_that_fails_is_told_in_the_servers_words(
    says: dict[str, bool], calls: int
) -> None:
    def sorry(_context: Any, error: Exception) -> str:
        return f"Sorry: {error}"

    shelf = Shelf(tool(annotations=says), answer=broken, failure_error_function=sorry)
    model = ScriptedModel([call("find", "c1")], "Done.")
    result = await run_in_memory(Agent(name="A", mcp_servers=[shelf]), "Hello", model=model)
    assert tool_outputs(result) == ["Sorry: nobody there"]
    assert len(shelf.calls) == calls


async def test_a_call_that_fails_can_end_the_run() -> None:
    agent = Agent(
        name="A",
        mcp_servers=[Shelf(answer=broken)],
        mcp_config=MCPConfig(failure_error_function=None),
    )
    with pytest.raises(ToolFailed, match="nobody there"):
        await run_in_memory(agent, "Hello", model=ScriptedModel([call("find", "c1")]))


async def test_a_run_in_memory_leaves_no_process_behind() -> None:
    model = ScriptedModel([call("process_id", "c1")], "Done.")
    await run_in_memory(Agent(name="A", mcp_servers=[stdio()]), "Hello", model=model)
    process = int(outputs(model.requests[1])["c1"][0]["text"])
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


async def test_an_agent_can_be_asked_for_all_its_tools() -> None:
    agent = Agent[Any](name="A", mcp_servers=[Shelf()])
    assert [one.name for one in await agent.get_all_tools(RunContextWrapper(None))] == ["find"]
