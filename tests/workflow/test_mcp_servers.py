"""Tools of MCP servers in durable runs: a run names them, and whichever worker has it calls them."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.errors import UserError
from outlast.agents.mcp.server import MCPConfig, MCPRefusal
from outlast.mcp import MCPServerStreamableHttp
from outlast.mcp.connected_server import CHECKED_AFTER_SECONDS
from outlast.testing import ScriptedModel, call
from tests.conformance.views import outputs
from tests.mcp_servers import PATIENCE_SECONDS, Listening, Shelf, stdio, tool
from tests.workflow.desk import Desk, waits_for


def text(said: str) -> list[dict[str, str]]:
    """A result that is text, as the model reads it."""
    return [{"type": "input_text", "text": said}]


@pytest.mark.smoke
async def test_a_run_calls_a_real_server_that_its_worker_starts_and_ends(desk: Desk) -> None:
    server = stdio()
    agent = Agent(name="A", mcp_servers=[server])
    model = ScriptedModel(
        [call("find", "c1", title="Dune"), call("process_id", "c2"), call("key", "c3")], "Done."
    )
    worker = await desk.open(agent, model=model)
    run_id = desk.new_id()
    result = await desk.run(agent, id=run_id)
    assert result.final_output == "Done."
    told = outputs(model.requests[1])
    assert told["c1"] == text("Dune (0) is here")
    assert told["c3"] == text(f"{await desk.key_of(run_id)}:c3 None")
    process = int(told["c2"][0]["text"])
    os.kill(process, 0)
    await desk.close(worker)
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


@pytest.mark.full
async def test_a_server_that_is_killed_in_the_middle_of_a_call_is_started_again(
    desk: Desk, tmp_path: Path
) -> None:
    server = stdio(max_retry_attempts=2, retry_backoff_seconds_base=0.01)
    agent = Agent(name="A", mcp_servers=[server])
    model = ScriptedModel([call("drop", "c1", marker=str(tmp_path / "dead"))], "Done.")
    await desk.open(agent, model=model)
    await desk.run(agent)
    killed, answered = outputs(model.requests[1])["c1"][0]["text"].split()
    assert killed == (tmp_path / "dead").read_text(encoding="utf-8")
    assert answered != killed
    assert model.calls == 2


async def test_a_call_that_broke_is_not_sent_twice_unless_that_is_allowed(
    desk: Desk, tmp_path: Path
) -> None:
    agent = Agent(name="A", mcp_servers=[stdio(cache_tools_list=True)])
    marker = str(tmp_path / "dead")
    model = ScriptedModel([call("drop", "c1", marker=marker)], [call("process_id", "c2")], "Done.")
    await desk.open(agent, model=model)
    await desk.run(agent)
    told = outputs(model.requests[2])
    assert told["c1"].startswith("The tool drop failed and returned no result. It may have had")
    assert told["c2"] != text((tmp_path / "dead").read_text(encoding="utf-8"))


@pytest.mark.full
async def test_a_server_that_died_while_it_was_idle_is_started_again_for_the_next_call(
    desk: Desk,
) -> None:
    server = stdio(cache_tools_list=True, require_approval={"key": "always"})
    agent = Agent(name="A", mcp_servers=[server])
    model = ScriptedModel([call("process_id", "c1")], [call("key", "c2")], "Done.")
    await desk.open(agent, model=model)
    handle = await desk.start(agent)
    await desk.until(handle, waits_for(1))
    os.kill(int(outputs(model.requests[1])["c1"][0]["text"]), 9)
    await asyncio.sleep(CHECKED_AFTER_SECONDS)  # people are slower
    (request,) = await handle.approvals()
    await handle.approve(request.id)
    assert (await desk.result(handle)).final_output == "Done."
    assert outputs(model.requests[2])["c2"] == text(f"{await desk.key_of(handle.id)}:c2 None")


async def test_a_connection_of_the_callers_is_used_and_left_open(desk: Desk) -> None:
    async with stdio() as server:
        agent = Agent(name="A", mcp_servers=[server])
        own = (await server.call_tool("process_id", {})).content[0].text
        model = ScriptedModel([call("process_id", "c1")], "Done.")
        worker = await desk.open(agent, model=model)
        await desk.run(agent)
        await desk.close(worker)
        assert outputs(model.requests[1])["c1"] == text(own)
        assert (await server.call_tool("process_id", {})).content[0].text == own


@pytest.mark.full
async def test_a_server_may_be_started_anew_while_a_person_thinks(desk: Desk) -> None:
    async with Listening() as program:
        server = MCPServerStreamableHttp(
            {"url": program.url},
            cache_tools_list=True,
            client_session_timeout_seconds=PATIENCE_SECONDS,
            require_approval={"process_id": "always"},
            retry_backoff_seconds_base=0.01,
        )
        agent = Agent(name="A", mcp_servers=[server])
        model = ScriptedModel([call("process_id", "c1")], "Done.")
        worker = await desk.open(agent, model=model)
        handle = await desk.start(agent)
        await desk.until(handle, waits_for(1))
        before = (await server.call_tool("process_id", {})).content[0].text
        await program.kill()
        await program.start()
        (request,) = await handle.approvals()
        await handle.approve(request.id)
        assert (await desk.result(handle)).final_output == "Done."
        assert outputs(model.requests[1])["c1"] != text(before)
        await desk.close(worker)


@pytest.mark.full
async def test_a_server_that_is_away_for_longer_than_a_restart_takes_ends_nothing(
    desk: Desk,
) -> None:
    async with Listening() as program:
        server = MCPServerStreamableHttp(
            {"url": program.url}, client_session_timeout_seconds=PATIENCE_SECONDS
        )
        agent = Agent(name="A", mcp_servers=[server])
        model = ScriptedModel("Hello.", [call("find", "c1", title="Dune")], "Done.")
        worker = await desk.open(agent, model=model)
        handle = await desk.start(agent, keep_open=True)
        await desk.until_status(handle, "idle")
        await program.kill()
        sent = await handle.send("Where is Dune?")
        # The fourth attempt is 7 s after the first: a server has been away for longer than 3 s.
        await desk.pending_activity(handle, lambda one: one.attempt >= 4)
        await program.start()
        async with desk.patience(handle):
            assert (await sent.answer()).final_output == "Done."
        assert outputs(model.requests[2])["c1"] == text("Dune (0) is here")
        assert model.calls == 3
        await desk.close(worker)


@pytest.mark.full
async def test_an_approved_call_of_a_server_that_is_away_answers_the_model(desk: Desk) -> None:
    def agent_with(shelf: Shelf) -> Agent[Any]:
        return Agent(name="A", mcp_servers=[shelf])

    class Away(Shelf):
        async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[Any]:
            raise MCPRefusal("not any more")

    worker = await desk.open(
        agent_with(Shelf(require_approval="always")),
        model=ScriptedModel([call("find", "c1", title="Dune")]),
    )
    handle = await desk.start("A")
    await desk.until(handle, waits_for(1))
    await desk.close(worker)
    model = ScriptedModel("Sorry.")
    await desk.open(agent_with(Away()), model=model)
    (request,) = await handle.approvals()
    await handle.approve(request.id)
    assert (await desk.result(handle)).final_output == "Sorry."
    answer = outputs(model.requests[0])["c1"]
    assert "The tools of 'shelf' are not available at the moment." in answer
    assert "The call was not carried out." in answer


@pytest.mark.full
async def test_an_approved_call_runs_on_a_worker_that_has_listed_nothing(desk: Desk) -> None:
    def agent_with(shelf: Shelf) -> Agent[Any]:
        return Agent(name="A", mcp_servers=[shelf])

    first, second = Shelf(require_approval="always"), Shelf(require_approval="always")
    agent = agent_with(first)
    worker = await desk.open(agent, model=ScriptedModel([call("find", "c1", title="Dune")]))
    handle = await desk.start(agent)
    state = await desk.until(handle, waits_for(1))
    assert state.pending_approvals[0].name == "find"
    await desk.close(worker)
    model = ScriptedModel("Done.")
    await desk.open(agent_with(second), model=model)
    (request,) = await handle.approvals()
    await handle.approve(request.id, by="ann")
    assert (await desk.result(handle)).final_output == "Done."
    assert first.calls == []
    assert second.calls == [("find", {"title": "Dune"}, None)]
    assert outputs(model.requests[0])["c1"] == text("find {'title': 'Dune'}")


async def test_the_activity_is_named_after_the_tool(desk: Desk) -> None:
    agent = Agent(
        name="A",
        mcp_servers=[Shelf()],
        mcp_config=MCPConfig(include_server_in_tool_names=True),
    )
    await desk.open(agent, model=ScriptedModel([call("mcp_shelf__find", "c1")], "Done."))
    handle = await desk.start(agent)
    await desk.result(handle)
    history = await desk.workflow(handle).fetch_history()
    types = [
        event.activity_task_scheduled_event_attributes.activity_type.name
        for event in history.events
    ]
    assert "tool:mcp_shelf__find" in types


async def test_a_tool_that_is_gone_when_it_is_called_is_told_to_the_model(desk: Desk) -> None:
    def agent_with(*names: str) -> Agent[Any]:
        shelf = Shelf(*(tool(name) for name in names), require_approval={"find": "always"})
        return Agent(name="A", mcp_servers=[shelf])

    worker = await desk.open(agent_with("find"), model=ScriptedModel([call("find", "c1")]))
    handle = await desk.start("A")
    await desk.until(handle, waits_for(1))
    await desk.close(worker)
    model = ScriptedModel("Sorry.")
    await desk.open(agent_with("tear"), model=model)
    (request,) = await handle.approvals()
    await handle.approve(request.id)
    assert (await desk.result(handle)).final_output == "Sorry."
    assert "find no longer exists" in outputs(model.requests[0])["c1"]


async def test_tools_that_clash_end_the_run_before_the_model_is_paid(desk: Desk) -> None:
    agent = Agent(name="A", mcp_servers=[Shelf(name="x"), Shelf(name="y")])
    model = ScriptedModel("never")
    await desk.open(agent, model=model)
    with pytest.raises(UserError, match="the MCP servers 'x' and 'y' both have a tool 'find'"):
        await desk.run(agent)
    assert model.calls == 0
