"""The scripted server of the Responses API over WebSocket, with clients that are not ours."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from outlast.loop.values import JsonObject
from outlast.ports.model import ModelError, ModelRequest
from outlast.testing import ScriptedResponsesServer, call, fail_after, say
from outlast.testing.socket_server import ServerSocket


async def ask(socket: ClientConnection, **body: Any) -> list[JsonObject]:
    """Send a request, and return the events up to the last one."""
    await socket.send(json.dumps({"type": "response.create", "model": "m", **body}))
    events: list[JsonObject] = []
    while True:
        events.append(json.loads(await socket.recv()))
        if events[-1]["type"] in {"response.completed", "error"}:
            return events


def code_of(events: list[JsonObject]) -> str:
    return events[-1]["error"]["code"]


def client(server: ScriptedResponsesServer) -> connect:
    return connect(f"{server.websocket_base_url}/responses")


async def test_it_streams_the_next_step_as_the_events_of_a_response() -> None:
    async with ScriptedResponsesServer([call("f", "c1"), *say("Hi.")]) as server:
        async with client(server) as socket:
            *events, last = await ask(socket, input="Hello", instructions="Be kind.")
        assert events[0]["type"] == "response.created"
        ids = [item["id"] for item in last["response"]["output"]]
        assert ids == ["fc_c1", "msg_1_1"], "every item has an id"
        assert server.script.requests[0].instructions == "Be kind."
        assert server.script.requests[0].input == [{"role": "user", "content": "Hello"}]


async def test_a_response_is_continued_by_its_id() -> None:
    def count(request: ModelRequest) -> list[JsonObject]:
        return say(str(len(request.input)))

    async with ScriptedResponsesServer(always=count) as server:
        async with client(server) as socket:
            kept = (await ask(socket, input="1"))[-1]["response"]["id"]
            last = (await ask(socket, input="2", previous_response_id=kept, store=False))[-1]
            assert last["response"]["output"][0]["content"][0]["text"] == "3"
            unkept = last["response"]["id"]
            await ask(socket, input="3", previous_response_id=unkept, store=False)
            # Without `store`, only the last response of the connection is there.
            gone = await ask(socket, input="4", previous_response_id=unkept)
            assert code_of(gone) == "previous_response_not_found"
        async with client(server) as other:
            assert (await ask(other, input="5", previous_response_id=kept))[-1]["type"] != "error"
            server.forget_responses()
            gone = await ask(other, input="6", previous_response_id=kept)
            assert code_of(gone) == "previous_response_not_found"
            assert gone[-1]["error"]["param"] == "previous_response_id"


async def test_connections_at_the_same_time_continue_their_own_responses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    send, both_sent = ServerSocket.send, asyncio.Barrier(2)

    async def send_and_wait(socket: ServerSocket, event: Any) -> None:
        await send(socket, event)
        if event["type"] == "response.completed" and len(server.sent("response.completed")) <= 2:
            await both_sent.wait()

    def echo(request: ModelRequest) -> list[JsonObject]:
        return say("|".join(item["content"] for item in request.input if item["role"] == "user"))

    monkeypatch.setattr(ServerSocket, "send", send_and_wait)
    async with (
        ScriptedResponsesServer(always=echo) as server,
        client(server) as first,
        client(server) as second,
    ):
        sockets = {"1": first, "2": second}
        answers = await asyncio.gather(*(ask(one, input=name) for name, one in sockets.items()))
        assert len({events[-1]["response"]["id"] for events in answers}) == 2
        for (name, socket), events in zip(sockets.items(), answers, strict=True):
            kept = events[-1]["response"]["id"]
            last = (await ask(socket, input="again", previous_response_id=kept))[-1]
            assert last["response"]["output"][0]["content"][0]["text"] == f"{name}|again"


async def test_it_refuses_what_it_does_not_understand_and_goes_on() -> None:
    async with ScriptedResponsesServer("Hi.") as server, client(server) as socket:
        for frame in ("no json", '["a"]', '{"type": "response.dance"}', "{}"):
            await socket.send(frame)
            assert json.loads(await socket.recv())["status"] == 400
        assert (await ask(socket, input="Hello"))[-1]["type"] == "response.completed"


async def test_a_connection_at_its_limit_is_refused_and_closed() -> None:
    async with ScriptedResponsesServer("Hi.") as server:
        server.reach_limit()
        async with client(server) as socket:
            assert code_of(await ask(socket, input="1")) == "websocket_connection_limit_reached"
            with pytest.raises(ConnectionClosed):
                await socket.recv()
        async with client(server) as socket:
            assert (await ask(socket, input="1"))[-1]["type"] == "response.completed"


async def test_an_error_of_the_script_is_an_error_event() -> None:
    slow = ModelError(
        "Slow down.",
        code="rate_limit_exceeded",
        retryable=True,
        retry_after=timedelta(seconds=2),
        status=429,
    )
    steps = slow, fail_after(2, slow, "Hi.")
    async with ScriptedResponsesServer(*steps) as server, client(server) as socket:
        (event,) = await ask(socket, input="1")
        assert (event["status"], event["error"]["type"]) == (429, "invalid_request_error")
        assert event["error"]["headers"] == {"retry-after": "2.0"}
        assert len(await ask(socket, input="1")) == 3
        assert code_of(await ask(socket, input="the script has no more")) == "invalid_request"


async def test_the_sdks_own_client_runs_against_it() -> None:
    """The yardstick: the Agents SDK's transport, where it is installed."""
    agents = pytest.importorskip("agents", reason="the OpenAI Agents SDK is not installed")
    agents.set_tracing_disabled(disabled=True)

    def look_up(order: str) -> str:
        return f"{order} is on its way"

    steps = [call("look_up", "c1", order="A")], "It is on its way."
    async with ScriptedResponsesServer(*steps, *steps) as server:
        provider = agents.OpenAIProvider(
            api_key="test",
            websocket_base_url=server.websocket_base_url,
            use_responses_websocket=True,
        )
        agent = agents.Agent(name="Clerk", tools=[agents.function_tool(look_up)])
        config = agents.RunConfig(model_provider=provider)
        result = await agents.Runner.run(agent, "Where is A?", run_config=config)
        assert result.final_output == "It is on its way."
        streamed = agents.Runner.run_streamed(agent, "Where is A?", run_config=config)
        kinds = [event.type async for event in streamed.stream_events()]
        assert streamed.final_output == "It is on its way."
        assert "raw_response_event" in kinds
        outputs = [item.get("type") for item in server.received("response.create")[1]["input"]]
        assert outputs[-1] == "function_call_output"
        assert len(server.sockets) == 1
        await provider.aclose()
