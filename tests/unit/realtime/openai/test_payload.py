"""A call is accepted with the session that its first agent wants."""

from typing import Any

import pytest

from outlast import RunContextWrapper, function_tool
from outlast.realtime.agents import RealtimeAgent, realtime_handoff
from outlast.realtime.openai.model import OpenAIRealtimeSIPModel

build = OpenAIRealtimeSIPModel.build_initial_session_payload


@function_tool
def look_up(order_id: str) -> str:
    """Look up an order."""
    return order_id


@function_tool(is_enabled=lambda context, agent: context.context == "staff")
def cancel_order(order_id: str) -> str:
    """Cancel an order."""
    return order_id


def greet(context: RunContextWrapper[Any], agent: Any) -> str:
    return f"Help {context.context}."


def only_staff(context: RunContextWrapper[Any], agent: Any) -> bool:
    return context.context == "staff"


def desk() -> RealtimeAgent[Any]:
    refunds = RealtimeAgent[Any](name="Refunds", instructions="Refund.")
    return RealtimeAgent[Any](
        name="Desk",
        instructions=greet,
        tools=[look_up, cancel_order],
        handoffs=[realtime_handoff(refunds, is_enabled=only_staff)],
    )


def names(payload: Any) -> list[str]:
    return [tool.name for tool in payload.tools]


async def test_the_instructions_tools_and_handoffs_of_the_agent_are_sent() -> None:
    payload = await build(desk(), context="staff")
    assert payload.instructions == "Help staff."
    assert names(payload) == ["look_up", "cancel_order", "transfer_to_refunds"]
    plain = payload.model_dump(exclude_unset=True)
    assert plain["model"] == "gpt-realtime-2.1"
    assert plain["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": 24000}


async def test_what_is_not_enabled_is_left_out() -> None:
    payload = await build(desk(), context="guest")
    assert names(payload) == ["look_up"]


async def test_later_sources_precede_earlier_ones() -> None:
    payload = await build(
        desk(),
        context="guest",
        run_config={
            "model_settings": {"instructions": "Run.", "voice": "cedar", "speed": 1.5},
            "tracing_disabled": True,
        },
        model_config={"initial_model_settings": {"voice": "marin", "model_name": "gpt-realtime"}},
        overrides={"instructions": "Override.", "tools": [cancel_order]},
    )
    plain = payload.model_dump(exclude_unset=True)
    assert (plain["instructions"], plain["model"]) == ("Override.", "gpt-realtime")
    assert plain["audio"]["output"]["voice"] == "marin"
    assert plain["audio"]["output"]["speed"] == 1.5
    assert names(payload) == []


async def test_a_stored_prompt_is_sent() -> None:
    agent = RealtimeAgent[Any](name="Desk", prompt={"id": "pmpt_1", "version": "2"})
    plain = (await build(agent)).model_dump(exclude_unset=True)
    assert plain["prompt"] == {"id": "pmpt_1", "version": "2"}
    assert plain["instructions"] == ""


async def test_it_is_the_payload_of_the_sdk() -> None:
    sdk = pytest.importorskip("agents.realtime", reason="the SDK is not installed")
    theirs = await sdk.OpenAIRealtimeSIPModel.build_initial_session_payload(
        sdk.RealtimeAgent(name="Desk", instructions="Help."),
        overrides={"voice": "cedar", "turn_detection": None},
    )
    ours = await build(
        RealtimeAgent[Any](name="Desk", instructions="Help."),
        overrides={"voice": "cedar", "turn_detection": None},
    )
    assert ours.model_dump(exclude_unset=True) == theirs.model_dump(exclude_unset=True)
