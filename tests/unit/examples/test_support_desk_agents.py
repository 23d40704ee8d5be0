"""The agents: who hands over to whom, what each may do, and what each is told."""

from typing import Any

import pytest
from support_desk import app
from support_desk.agents import billing, orders, triage
from support_desk.context import Customer
from support_desk.tools import (
    ask_human,
    change_address,
    look_up_invoice,
    look_up_order,
    refund_large_order,
    refund_order,
    send_courier,
)

from outlast import Agent, Handoff, RunContextWrapper
from outlast.agents.registry import Registry, target_of

DESK = [triage, orders, billing]


def handoffs_of(agent: Agent[Any]) -> list[Handoff]:
    found = [handoff for handoff in agent.handoffs if isinstance(handoff, Handoff)]
    assert len(found) == len(agent.handoffs)
    return found


def told(agent: Agent[Customer], customer: Customer | None = None) -> str:
    assert callable(agent.instructions)
    text = agent.instructions(RunContextWrapper(context=customer or Customer()), agent)
    assert isinstance(text, str)
    return text


def test_the_app_offers_what_a_worker_looks_for() -> None:
    assert app.agents == [triage]
    assert app.context_type is Customer


def test_from_triage_every_agent_is_found() -> None:
    found = Registry(app.agents).names
    assert found == ["Billing", "Orders", "Triage"]


@pytest.mark.parametrize("agent", DESK, ids=lambda agent: agent.name)
def test_each_agent_can_hand_over_to_each_other(agent: Agent[Customer]) -> None:
    others = {other.name for other in DESK if other is not agent}
    assert {handoff.agent_name for handoff in handoffs_of(agent)} == others
    assert {handoff.tool_name for handoff in handoffs_of(agent)} == {
        f"transfer_to_{name.lower()}" for name in others
    }


@pytest.mark.parametrize("agent", DESK, ids=lambda agent: agent.name)
def test_a_handoff_tells_the_model_what_the_other_agent_is_for(agent: Agent[Customer]) -> None:
    for handoff in handoffs_of(agent):
        target = target_of(handoff)
        assert target.handoff_description
        assert target.handoff_description in handoff.tool_description


def test_each_agent_has_the_tools_of_its_work() -> None:
    assert triage.tools == [ask_human]
    assert orders.tools == [look_up_order, change_address, send_courier, ask_human]
    assert billing.tools == [
        *(look_up_order, look_up_invoice, refund_order, refund_large_order),
        ask_human,
    ]


def test_billing_makes_one_call_a_reply() -> None:
    assert billing.model_settings.parallel_tool_calls is False


def test_a_handoff_notes_who_had_the_conversation() -> None:
    ctx: RunContextWrapper[Customer] = RunContextWrapper(context=Customer())
    for source, target in [(triage, orders), (orders, billing), (billing, triage)]:
        (way,) = (way for way in handoffs_of(source) if way.agent is target)
        on_handoff: Any = way.on_handoff
        on_handoff(ctx)
    assert ctx.context.handled_by == ["Triage", "Orders", "Billing"]


@pytest.mark.parametrize("agent", DESK, ids=lambda agent: agent.name)
def test_instructions_name_only_agents_and_tools_that_there_are(agent: Agent[Customer]) -> None:
    text = told(agent)
    available = {tool.name for tool in agent.tools}
    everything = {tool.name for each in DESK for tool in each.tools}
    assert {name for name in everything if name in text} <= available
    assert "ask_human" in text
    assert all(other.name in text for other in DESK if other is not agent)


def test_instructions_grow_with_what_is_known() -> None:
    customer = Customer(
        name="Mara Lindholm",
        notes="Has a standing discount.",
        last_order="A-17",
        handled_by=["Triage", "Orders", "Triage"],
    )
    assert told(billing, customer) == told(billing) + (
        "\n\nThe customer's name is Mara Lindholm. The order talked about last is A-17. "
        "Until now the customer has talked to Triage, Orders. Has a standing discount."
    )
