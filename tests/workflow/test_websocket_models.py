"""Runs whose model answers over WebSocket: a connection that is lost costs a retry, and no more."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.config.model_settings import ModelSettings
from outlast.agents.config.run_config import RunConfig
from outlast.agents.tools.function_tool import function_tool
from outlast.client.start.responses_websocket_session import responses_websocket_session
from outlast.client.start.runner import Runner
from outlast.local.engine import LocalEngine
from outlast.loop.values import JsonObject
from outlast.models import OpenAIProvider
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedResponsesServer, call, say
from tests.workflow.desk import Desk
from tests.workflow.test_local_engine import home

__all__ = ["home"]


def reply(request: ModelRequest) -> list[JsonObject]:
    """Ask for two orders, one after the other, and answer."""
    outputs = [item for item in request.input if item.get("type") == "function_call_output"]
    if len(outputs) == 2:
        return say(" and ".join(item["output"] for item in outputs))
    order = "AB"[len(outputs)]
    return [call("look_up", f"c-{order}", order=order)]


@asynccontextmanager
async def clerk(
    server: ScriptedResponsesServer, looked_up: list[str]
) -> AsyncGenerator[Agent[Any]]:
    """An agent with a tool, whose model is behind the server."""

    @function_tool
    async def look_up(order: str) -> str:
        looked_up.append(order)
        return f"{order} is on its way"

    url = server.websocket_base_url
    provider = OpenAIProvider(api_key="k", transport="websocket", websocket_base_url=url)
    yield Agent[Any](name="Clerk", tools=[look_up], model=provider.get_model("gpt-test"))
    await provider.aclose()


def sent(server: ScriptedResponsesServer) -> list[int]:
    """How many items each request brought."""
    return [len(one["input"]) for one in server.received("response.create")]


@pytest.mark.smoke
async def test_a_run_keeps_its_connection_and_sends_only_what_is_new(desk: Desk):
    looked_up: list[str] = []
    async with (
        ScriptedResponsesServer(always=reply) as server,
        clerk(server, looked_up) as agent,
    ):
        await desk.open(agent)
        result = await desk.run(agent)
        assert result.final_output == "A is on its way and B is on its way"
        assert sent(server) == [1, 1, 1]
        assert len(server.sockets) == 1


@pytest.mark.parametrize(
    ("when", "kind", "again"),
    [
        ("after", "response.create", [1, 1, 3, 1]),
        ("before", "response.created", [1, 1, 3, 1]),
        ("after", "response.created", [1, 1, 3, 1]),
        ("before", "response.completed", [1, 1, 3, 1]),
        ("after", "response.completed", [1, 1, 5]),
    ],
)
async def test_a_connection_that_is_lost_at_any_event_loses_and_doubles_nothing(
    desk: Desk, when: str, kind: str, again: list[int]
):
    looked_up: list[str] = []
    async with (
        ScriptedResponsesServer(always=reply) as server,
        clerk(server, looked_up) as agent,
    ):
        await desk.open(agent)
        close = server.close_after if when == "after" else server.close_before
        close(kind, 1006, skip=1)
        result = await desk.run(agent)
        assert result.final_output == "A is on its way and B is on its way"
        assert looked_up == ["A", "B"]
        assert sent(server) == again
        assert result.usage.requests == 3, "what was lost is not counted"


async def test_a_worker_that_takes_over_sends_the_whole_conversation(desk: Desk):
    looked_up: list[str] = []
    async with ScriptedResponsesServer(always=reply) as server:
        async with clerk(server, looked_up) as agent:
            worker = await desk.open(agent)
            handle = await desk.start(agent, keep_open=True)
            await desk.until_status(handle, "idle")
            await desk.close(worker)
        async with clerk(server, looked_up) as agent:
            await desk.open(agent)
            message = await handle.send("And again?")
            async with desk.patience(handle):
                answer = await message.answer()
        assert answer.final_output == "A is on its way and B is on its way"
        assert sent(server) == [1, 1, 1, 7]
        assert "previous_response_id" not in server.received("response.create")[-1]


async def test_the_runs_of_a_session_share_its_connections(home: Path):
    del home
    looked_up: list[str] = []
    async with ScriptedResponsesServer(always=reply) as server, clerk(server, looked_up) as known:
        agent = known.clone(model=None)
        url = server.websocket_base_url
        try:
            async with responses_websocket_session(api_key="k", websocket_base_url=url) as session:
                first = await session.run(agent, "Where are they?")
                streamed = session.run_streamed(agent, "Where are they?")
                kinds = {event.type async for event in streamed.stream_events()}
                assert first.final_output == streamed.final_output
                assert "raw_response_event" in kinds
        finally:
            await LocalEngine.close_shared()
        assert sent(server) == [1, 1, 1] * 2
        assert len(server.sockets) == 1


async def test_runs_with_one_provider_in_their_configuration_share_its_connection(home: Path):
    del home
    looked_up: list[str] = []
    async with ScriptedResponsesServer(always=reply) as server, clerk(server, looked_up) as known:
        url = server.websocket_base_url
        agents = OpenAIProvider("k", transport="websocket", websocket_base_url=url)
        other = OpenAIProvider("other", transport="websocket", websocket_base_url=url)
        try:
            for provider in (agents, other, agents, agents):
                settings = ModelSettings(store=False)
                await Runner.run(
                    known.clone(model=None),
                    "Where are they?",
                    run_config=RunConfig(model_provider=provider, model_settings=settings),
                )
        finally:
            await LocalEngine.close_shared()
        keys = [socket.headers["authorization"] for socket in server.sockets]
        assert keys == ["Bearer k", "Bearer other"]
        assert sent(server) == [1, 1, 1] * 4
        await agents.aclose()
        await other.aclose()


async def test_a_run_continues_the_response_of_the_run_before_that_is_not_stored(home: Path):
    del home
    async with ScriptedResponsesServer("It is on its way.", "Tomorrow.") as server:
        agent = Agent[Any](name="Clerk", model_settings=ModelSettings(store=False))
        url = server.websocket_base_url
        try:
            async with responses_websocket_session(api_key="k", websocket_base_url=url) as session:
                first = await session.run(agent, "Where is it?")
                second = await session.run(
                    agent, "When does it come?", previous_response_id=first.last_response_id
                )
        finally:
            await LocalEngine.close_shared()
        assert second.final_output == "Tomorrow."
        assert len(server.script.requests[1].input) == 3
        assert len(server.sockets) == 1
