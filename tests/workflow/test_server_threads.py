"""Conversations that the provider's server keeps: it is sent what it does not have, once."""

from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.tools.function_tool import function_tool
from outlast.loop.items import text_of
from outlast.loop.values import JsonObject
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, say
from tests.workflow.desk import Desk
from tests.workflow.replies import last_user_text


@function_tool
async def act(number: int) -> str:
    return f"acted {number}"


@function_tool(needs_approval=True)
async def ask() -> str:
    return "asked"


def sent(request: ModelRequest) -> list[str]:
    """What a call sends: the outputs of tools, and texts."""
    return [_short(item) for item in request.input]


def _short(item: JsonObject) -> str:
    return str(item["output"]) if "output" in item else text_of(item)


def acting(turns: int) -> ScriptedModel:
    return ScriptedModel(*([call("act", f"c{at}", number=at)] for at in range(turns)), "Done.")


THREADS: dict[str, Any] = {
    "conversation": {"conversation_id": "conv_1"},
    "response": {"previous_response_id": "resp_0"},
    "automatic": {"auto_previous_response_id": True},
}


@pytest.mark.parametrize("kind", list(THREADS))
async def test_across_histories_each_item_is_sent_once(desk: Desk, kind: str):
    turns = 5
    agent = Agent[Any](name="A", tools=[act])
    model = acting(turns)
    await desk.open(agent, model=model)
    handle = await desk.start_short(agent, events=40, **THREADS[kind])
    assert (await desk.result(handle)).final_output == "Done."
    assert len(await desk.all_events(handle)) >= 2
    assert [sent(request) for request in model.requests] == [
        ["Hello"],
        *([f"acted {at}"] for at in range(turns)),
    ]
    ids = [(one.conversation_id, one.previous_response_id) for one in model.requests]
    if kind == "conversation":
        assert ids == [("conv_1", None)] * (turns + 1)
    else:
        first = "resp_0" if kind == "response" else None
        assert ids == [(None, first), *((None, f"resp_{at}") for at in range(1, turns + 1))]


@pytest.mark.parametrize("kind", ["automatic"])
async def test_another_worker_goes_on_where_the_server_is(desk: Desk, kind: str):
    agent = Agent[Any](name="A", tools=[act, ask])
    first = ScriptedModel([call("act", "c1", number=1)], [call("ask", "c2")])
    worker = await desk.open(agent, model=first)
    handle = await desk.start(agent, **THREADS[kind])
    await desk.until_status(handle, "waiting")
    await desk.close(worker)
    second = ScriptedModel("Done.")
    await desk.open(agent, model=second)
    await handle.approve("a1")
    assert (await desk.result(handle)).final_output == "Done."
    [request] = second.requests
    assert sent(request) == ["asked"]
    expected = ("conv_1", None) if kind == "conversation" else (None, "resp_2")
    assert (request.conversation_id, request.previous_response_id) == expected


@pytest.mark.smoke
async def test_a_conversation_of_ours_may_be_one_of_the_providers(desk: Desk):
    agent = Agent[Any](name="A", handoffs=[Agent[Any](name="Billing")])
    model = ScriptedModel(
        [call("transfer_to_billing", "h1")],
        "Paid.",
        always=lambda request: say(f"To {last_user_text(request)}"),
    )
    await desk.open(agent, model=model)
    handle = await desk.start_short(agent, keep_open=True, conversation_id="conv_1")
    await desk.until_status(handle, "idle")
    for text in ("one", "two"):
        assert (await (await handle.send(text)).answer()).final_output == f"To {text}"
    assert [sent(request) for request in model.requests] == [
        ["Hello"],
        ['{"assistant": "Billing"}'],
        ["one"],
        ["two"],
    ]
    await handle.cancel("after_turn")
    await desk.result(handle)
