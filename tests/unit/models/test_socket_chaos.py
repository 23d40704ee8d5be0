"""Many runs over few sockets, while connections break: each run gets the answer to its own words."""

import asyncio
import random

import pytest

from outlast.loop.values import JsonObject
from outlast.models import OpenAIConnection, ResponsesModel
from outlast.models.openai.socket_connection import SocketConnection
from outlast.models.openai.sockets import PoolLimits
from outlast.ports.model import ModelError, ModelRequest
from outlast.testing import ScriptedResponsesServer, say

RUNS, TURNS = 24, 6
CANCELLED = 0.05
"""The share of requests that are cancelled."""


def said(items: list[JsonObject]) -> str:
    return "|".join(item["content"] for item in items if item.get("role") == "user")


def reply(request: ModelRequest) -> list[JsonObject]:
    return say(said(list(request.input)))


async def converse(model: ResponsesModel, run: int, chance: random.Random) -> None:
    """Ask turn after turn, as often as needed, and check each answer."""
    items: list[JsonObject] = []
    for turn in range(TURNS):
        items.append({"role": "user", "content": f"{run}.{turn}"})
        request = ModelRequest(instructions=None, input=[*items], run_id=f"run-{run}")
        while True:
            call = asyncio.create_task(model.get_response(request))
            if chance.random() < CANCELLED:
                await asyncio.sleep(chance.random() / 50)
                call.cancel()
            try:
                response = await call
            except asyncio.CancelledError:
                if not call.cancelled() or _is_cancelled():
                    raise
                continue
            except ModelError as failure:
                if not failure.retryable:
                    raise
                continue
            break
        assert response.output[0]["content"][0]["text"] == said(items)
        items += response.output


def _is_cancelled() -> bool:
    """Whether the whole conversation is cancelled, and not only its request."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def break_connections(server: ScriptedResponsesServer, chance: random.Random) -> None:
    """Do something bad every few requests, so that a slow machine meets no more of it."""
    requests = 0
    while True:
        requests += chance.randint(1, 3)
        await server.until_received("response.create", requests)
        match chance.randrange(6):
            case 0:
                server.close_after("response.created", chance.choice([1006, 1011, 1012]))
            case 1:
                server.close_before("response.completed")
            case 2:
                server.forget_responses()
            case 3:
                server.reach_limit()
            case 4:
                server.refuse_connection(503)
            case _:
                server.close_after("response.completed", 1001)


@pytest.mark.parametrize("sockets", [3, RUNS])
async def test_no_answer_is_lost_or_another_runs(sockets: int) -> None:
    chance = random.Random(sockets)
    async with ScriptedResponsesServer(always=reply) as server:
        http = OpenAIConnection(websocket_base_url=server.websocket_base_url)
        limits = PoolLimits(sockets=sockets, idle_s=0.05)
        connection = SocketConnection(http=http, limits=limits)
        model = ResponsesModel("gpt-test", connection)
        chaos = asyncio.create_task(break_connections(server, chance))
        async with asyncio.timeout(60), asyncio.TaskGroup() as conversations:
            for run in range(RUNS):
                conversations.create_task(converse(model, run, chance))
        chaos.cancel()
        continued = ["previous_response_id" in body for body in server.received("response.create")]
        assert any(continued) or sockets < RUNS
        assert not all(continued)
        async with asyncio.timeout(10):  # those that broke may still be closing
            while sum(not socket.is_closed for socket in server.sockets) > sockets:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await connection.aclose()
        await http.aclose()
