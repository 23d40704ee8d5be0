"""The SDK's own realtime client is the yardstick: of the scripted server, and of our model."""

import asyncio
from typing import Any

import pytest

from outlast import function_tool
from outlast.loop.values import JsonObject
from outlast.realtime.agents import RealtimeAgent, realtime_handoff
from outlast.realtime.port.config import RealtimeSessionModelSettings
from outlast.realtime.port.model_events import RealtimeModelToolCallEvent
from outlast.realtime.port.model_inputs import (
    RealtimeModelSendInterrupt,
    RealtimeModelSendSessionUpdate,
    RealtimeModelSendToolOutput,
    RealtimeModelSendUserInput,
)
from outlast.realtime.scripted_server.server import ScriptedRealtimeServer
from outlast.testing import call
from tests.unit.realtime.openai.realtime_client import connected

SCRIPT = (
    [call("look_up", "c1", order_id="A-17")],
    "It is shipped.",
    [call("transfer_to_refunds", "c2")],
    "Refunds here.",
)
QUESTIONS = ("Where is A-17?", "I want a refund.")


def frames(server: ScriptedRealtimeServer) -> list[JsonObject]:
    """Return the client's frames, but for what differs for other reasons than the protocol.

    That is their ids, the ids that our line gives to outputs, so that they are there once, the words
    and titles in the schemas of tools, and when the frame that sets up the trace is sent: it answers
    `session.created`.
    """
    plain: list[Any] = [{**frame, "event_id": None} for frame in server.received()]
    for frame in plain:
        frame.get("item", {}).pop("id", None)
        for tool in frame.get("session", {}).get("tools", []):
            tool["parameters"] = sorted(tool["parameters"]["properties"])
            tool["description"] = bool(tool["description"])
    traces = [one for one in plain if "tracing" in one.get("session", {})]
    assert len(traces) == 1
    return [one for one in plain if one not in traces]


async def frames_of_the_sdk(agents: Any, sdk: Any) -> list[JsonObject]:
    """Let the SDK's runner make a tool turn and a handoff, and return its frames."""

    def look_up(order_id: str) -> str:
        """Look up an order."""
        return f"{order_id} is shipped"

    refunds = sdk.RealtimeAgent(name="Refunds", instructions="Refund.")
    desk = sdk.RealtimeAgent(
        name="Desk",
        instructions="Help.",
        tools=[agents.function_tool(look_up)],
        handoffs=[sdk.realtime_handoff(refunds)],
    )
    ends = 0
    async with ScriptedRealtimeServer(*SCRIPT) as server:
        session = await sdk.RealtimeRunner(desk).run(
            model_config={"url": f"{server.url}?model=fake", "api_key": "x"}
        )
        async with session, asyncio.timeout(20):
            await session.send_message(QUESTIONS[0])
            async for event in session:
                assert event.type != "error", event
                ends += event.type == "agent_end"
                if ends == 2 and event.type == "agent_end":
                    await session.send_message(QUESTIONS[1])
                if ends == len(SCRIPT):
                    break
        return frames(server)


async def frames_of_our_model() -> list[JsonObject]:
    """Make the same exchange with our model, and return its frames."""

    @function_tool
    def look_up(order_id: str) -> str:
        """Look up an order."""
        return f"{order_id} is shipped"

    refunds = RealtimeAgent[None](name="Refunds", instructions="Refund.")
    first: RealtimeSessionModelSettings = {
        "instructions": "Help.",
        "tools": [look_up],
        "handoffs": [realtime_handoff(refunds)],
    }
    second: RealtimeSessionModelSettings = {"instructions": "Refund.", "tools": [], "handoffs": []}
    async with (
        ScriptedRealtimeServer(*SCRIPT) as server,
        connected(server, initial_model_settings=first) as (model, heard),
    ):
        await model.send_event(RealtimeModelSendUserInput(QUESTIONS[0]))
        tool_call = await heard.until(RealtimeModelToolCallEvent)
        await model.send_event(
            RealtimeModelSendToolOutput(tool_call, "A-17 is shipped", start_response=True)
        )
        await heard.turns(2)
        await model.send_event(RealtimeModelSendUserInput(QUESTIONS[1]))
        handoff = await heard.until(RealtimeModelToolCallEvent, 2)
        await model.send_event(RealtimeModelSendSessionUpdate(second))
        words = realtime_handoff(refunds).get_transfer_message(refunds)
        await model.send_event(RealtimeModelSendToolOutput(handoff, words, start_response=True))
        await heard.turns(4)
        return frames(server)


async def test_our_model_sends_the_frames_of_the_sdk_in_the_same_order() -> None:
    agents = pytest.importorskip("agents", reason="the SDK is not installed")
    sdk = pytest.importorskip("agents.realtime", reason="the SDK is not installed")
    agents.set_tracing_disabled(True)
    theirs, ours = await frames_of_the_sdk(agents, sdk), await frames_of_our_model()
    assert [one["type"] for one in ours] == [one["type"] for one in theirs]
    assert ours == theirs


async def test_our_model_cuts_off_an_answer_with_the_frames_of_the_sdk() -> None:
    sdk = pytest.importorskip("agents.realtime", reason="the SDK is not installed")
    inputs = pytest.importorskip("agents.realtime.model_inputs", reason="the SDK is not installed")

    async def cut_off(model: Any, tracker: Any, message: Any, interrupt: Any) -> list[JsonObject]:
        """Interrupt an answer after 150 ms of it were played."""
        async with ScriptedRealtimeServer("word " * 40, pause_s=0.005) as server:
            config = {"url": f"{server.url}?model=x", "api_key": "x", "playback_tracker": tracker}
            await model.connect(config)
            try:
                await server.until_received("session.update", 2)
                await model.send_event(message)
                delta = await server.until_sent("response.output_audio.delta", 5)
                tracker.on_play_ms(delta["item_id"], 0, 150)
                await model.send_event(interrupt)
                await server.until_received("response.cancel")
                await asyncio.sleep(0.05)
                return frames(server)
            finally:
                await model.close()

    from outlast import realtime

    theirs = await cut_off(
        sdk.OpenAIRealtimeWebSocketModel(),
        sdk.RealtimePlaybackTracker(),
        inputs.RealtimeModelSendUserInput("Count."),
        inputs.RealtimeModelSendInterrupt(force_response_cancel=True),
    )
    ours = await cut_off(
        realtime.OpenAIRealtimeWebSocketModel(),
        realtime.RealtimePlaybackTracker(),
        RealtimeModelSendUserInput("Count."),
        RealtimeModelSendInterrupt(force_response_cancel=True),
    )
    assert ours == theirs
    assert [one["type"] for one in ours][-3:] == [
        "conversation.item.truncate",
        "response.cancel",
        "conversation.item.retrieve",
    ]
    assert ours[-3]["audio_end_ms"] == 150
