"""Realtime agents: their fields, their checks, and how a worker registers them."""

from typing import Any, cast

import pytest

from outlast import Agent, RunContextWrapper, UserError, function_tool, handoff
from outlast.agents.hooks import check_agent_hooks, check_run_hooks
from outlast.agents.registry import Registry
from outlast.agents.tools.hosted import WebSearchTool
from outlast.realtime.agents import (
    RealtimeAgent,
    RealtimeAgentHooks,
    RealtimeRunHooks,
    realtime_handoff,
)


@function_tool
def track(order: str) -> str:
    """Track an order."""
    return f"{order} is on its way"


def test_a_realtime_agent_is_registered_with_its_tools_and_handoffs() -> None:
    orders = RealtimeAgent("Orders", tools=[track])
    desk = RealtimeAgent("Desk", handoffs=[realtime_handoff(orders)])
    orders.handoffs.append(desk)
    registry = Registry([desk])
    assert registry.names == ["Desk", "Orders"]
    assert registry.tool("Orders", "track") is track
    assert registry.handoff("Desk", "transfer_to_orders", "Orders").agent is orders
    assert registry.handoff("Orders", "transfer_to_desk", "Desk").agent is desk


def test_a_clone_is_a_realtime_agent_with_the_changed_field() -> None:
    desk = RealtimeAgent("Desk", instructions="Be brief.", tools=[track])
    clone = desk.clone(name="Night desk")
    assert isinstance(clone, RealtimeAgent)
    assert (clone.name, clone.instructions, clone.tools) == ("Night desk", "Be brief.", [track])


async def test_instructions_may_be_a_callable_of_the_context_and_the_agent() -> None:
    def instructions(context: RunContextWrapper[Any], agent: Agent[Any]) -> str:
        return f"You are {agent.name}. Caller: {context.context}."

    desk = RealtimeAgent[str]("Desk", instructions=instructions)
    assert await desk.get_system_prompt(RunContextWrapper("Ann")) == "You are Desk. Caller: Ann."


@pytest.mark.parametrize(
    "field",
    [
        "model",
        "model_settings",
        "output_type",
        "input_guardrails",
        "tool_use_behavior",
        "reset_tool_choice",
    ],
)
def test_fields_of_text_agents_cannot_be_set(field: str) -> None:
    with pytest.raises(TypeError, match=field):
        cast("Any", RealtimeAgent)("Desk", **{field: None})


def test_a_hosted_tool_is_refused() -> None:
    with pytest.raises(UserError, match=r"RealtimeAgent 'Desk'.*functions only"):
        RealtimeAgent("Desk", tools=[WebSearchTool()])


def test_a_handoff_to_a_text_agent_is_refused() -> None:
    with pytest.raises(UserError, match=r"is not a RealtimeAgent.*as_tool"):
        RealtimeAgent("Desk", handoffs=[Agent("Writer")])
    with pytest.raises(UserError, match="needs a RealtimeAgent"):
        realtime_handoff(Agent("Writer"))  # pyright: ignore[reportArgumentType]


def test_a_handoff_with_an_input_filter_is_refused() -> None:
    filtered = handoff(RealtimeAgent("Orders"), input_filter=lambda data: data)
    with pytest.raises(UserError, match=r"transfer_to_orders.*keeps the conversation"):
        RealtimeAgent("Desk", handoffs=[filtered])


def test_realtime_handoffs_take_the_names_of_the_sdk_by_place() -> None:
    entry = realtime_handoff(RealtimeAgent("Orders"), "to_orders", "About parcels.")
    assert (entry.tool_name, entry.tool_description) == ("to_orders", "About parcels.")


def test_hooks_derived_from_the_realtime_names_are_hooks() -> None:
    class OfAgent(RealtimeAgentHooks[Any]):
        pass

    class OfRun(RealtimeRunHooks[Any]):
        pass

    check_agent_hooks(OfAgent(), "RealtimeAgent 'Desk'")
    check_run_hooks(OfRun())
    assert RealtimeAgent("Desk", hooks=OfAgent()).hooks is not None
