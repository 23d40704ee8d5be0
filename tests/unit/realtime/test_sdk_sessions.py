"""Sessions send the events of the SDK's sessions, in their order, for the same provider."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from outlast import function_tool
from outlast.realtime import RealtimeAgent, realtime_handoff
from outlast.realtime.openai.model import OpenAIRealtimeWebSocketModel
from outlast.realtime.port.model import RealtimeModelConfig
from outlast.realtime.scripted_server.server import RealtimeReply, ScriptedRealtimeServer
from outlast.testing import call
from tests.unit.realtime.test_session import calling

ours: dict[str, Any] = {
    "RealtimeAgent": RealtimeAgent,
    "function_tool": function_tool,
    "realtime_handoff": realtime_handoff,
}

QUIET = {"raw_model_event", "history_updated", "history_added", "audio"}


def desk(names: dict[str, Any]) -> Any:
    @names["function_tool"]
    async def track(order: str) -> str:
        """Track an order."""
        return f"{order} is on its way"

    orders = names["RealtimeAgent"](name="Orders", instructions="Orders.", tools=[track])
    handoffs = [names["realtime_handoff"](orders)]
    tools = [track]
    return names["RealtimeAgent"](name="Desk", instructions="Hi.", tools=tools, handoffs=handoffs)


async def heard_by(session: Any, say: Callable[[Any], Awaitable[None]], turns: int) -> list[str]:
    """Return the events of a session up to the end of a number of responses."""
    found: list[str] = []
    ends = 0
    await say(session)
    async with asyncio.timeout(10):
        async for event in session:
            if event.type not in QUIET:
                found.append(event.type)
            ends += event.type == "agent_end"
            if ends == turns:
                break
    return found


async def both(*script: RealtimeReply) -> tuple[list[str], list[str]]:
    """Return our events and the SDK's."""
    theirs: Any = pytest.importorskip("agents.realtime", reason="the SDK is not installed")
    tools: Any = pytest.importorskip("agents")
    names: dict[str, Any] = {**vars(theirs), "function_tool": tools.function_tool}

    async def say(session: Any) -> None:
        await session.send_message("Hello")

    async with ScriptedRealtimeServer(*script) as server:
        config = RealtimeModelConfig(url=server.url, api_key="none")
        model: Any = OpenAIRealtimeWebSocketModel()
        async with calling(desk(ours), model, model_config=config) as one:
            await one.session.send_message("Hello")
            await one.until("agent_end", len(script))
        kinds = [kind for kind in one.kinds if kind not in QUIET]
    async with ScriptedRealtimeServer(*script) as server:
        config = RealtimeModelConfig(url=server.url, api_key="none")
        runner = theirs.RealtimeRunner(desk(names))
        async with await runner.run(model_config=config) as session:
            return kinds, await heard_by(session, say, len(script))


async def test_an_answer() -> None:
    ours, theirs = await both("Hello, what can I do?")
    assert ours == theirs


async def test_a_tool_starts_when_its_response_is_complete() -> None:
    ours, theirs = await both([call("track", "c1", order="A-17")], "Done.")
    assert sorted(ours) == sorted(theirs), "there, it starts a moment earlier"
    assert ours == [
        "agent_start",
        "agent_end",
        "tool_start",
        "tool_end",
        "agent_start",
        "audio_end",
        "agent_end",
    ]


async def test_a_handoff() -> None:
    script = ([call("transfer_to_orders", "h1")], "Orders here.")
    ours, theirs = await both(*script)
    assert sorted(ours) == sorted(theirs)
    assert ours[:3] == ["agent_start", "agent_end", "handoff"]
