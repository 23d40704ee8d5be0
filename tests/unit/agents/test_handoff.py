"""Handoffs: what the model sees of a way to another agent."""

from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.errors import UserError
from outlast.agents.handoff import Handoff, handoff


def no_parameters() -> None: ...


def one_parameter(ctx: object) -> None: ...


def two_parameters(ctx: object, more: object) -> None: ...


BILLING = Agent[Any](name="Billing", handoff_description="Pays money back.")


def test_a_handoff_is_named_and_described_after_its_agent() -> None:
    entry = handoff(BILLING)
    assert entry.tool_name == "transfer_to_billing"
    assert entry.tool_description == (
        "Hand the conversation over to the agent Billing. Pays money back."
    )
    assert (entry.agent, entry.agent_name) == (BILLING, "Billing")
    assert (entry.on_handoff, entry.is_enabled) == (None, True)


def test_without_a_description_the_name_has_to_do() -> None:
    description = handoff(Agent(name="Orders")).tool_description
    assert description == "Hand the conversation over to the agent Orders."


def test_name_and_description_can_be_chosen() -> None:
    entry = handoff(BILLING, tool_name_override="pay", tool_description_override="For money.")
    assert (entry.tool_name, entry.tool_description) == ("pay", "For money.")


@pytest.mark.parametrize(
    ("agent", "tool"),
    [
        ("Billing", "transfer_to_billing"),
        ("Order Desk", "transfer_to_order_desk"),
        ("Löschen & Ändern", "transfer_to_l_schen____ndern"),
        ("a-b.c", "transfer_to_a_b_c"),
        ("受付", "transfer_to___"),
    ],
)
def test_any_agents_name_makes_a_name_that_providers_take(agent: str, tool: str) -> None:
    assert Handoff.default_tool_name(agent) == tool
    assert handoff(Agent(name=agent)).tool_name == tool


@pytest.mark.parametrize("name", ["pay back", "pay!", "x" * 65, "überweisen"])
def test_a_name_that_no_provider_takes_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=r"1 to 64 letters.*tool_name_override"):
        handoff(BILLING, tool_name_override=name)


def test_the_name_of_an_agent_may_be_too_long_for_a_tool() -> None:
    with pytest.raises(UserError, match=r"1 to 64 letters.*tool_name_override"):
        handoff(Agent(name="x" * 60))
    assert handoff(Agent(name="x" * 60), tool_name_override="to_x").agent_name == "x" * 60


@pytest.mark.parametrize("agent", ["Billing", None, Agent, object()])
def test_a_handoff_leads_to_an_agent(agent: Any) -> None:
    with pytest.raises(UserError, match=r"handoff\(\) needs an Agent, not"):
        handoff(agent)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"on_handoff": 5}, r"'transfer_to_billing': on_handoff must be a callable .*\(context\)"),
        ({"on_handoff": no_parameters}, r"on_handoff is called with \(context\), but"),
        ({"on_handoff": two_parameters}, r"on_handoff is called with \(context\), but"),
        ({"is_enabled": "yes"}, r"is_enabled must be a callable that takes \(context, agent\)"),
        ({"is_enabled": one_parameter}, r"is_enabled is called with \(context, agent\)"),
    ],
)
def test_a_callable_that_does_not_fit_is_refused_at_once(
    fields: dict[str, Any], problem: str
) -> None:
    with pytest.raises(UserError, match=problem):
        handoff(BILLING, **fields)


def test_callables_that_fit_are_kept() -> None:
    def taken_over(ctx: Any) -> None: ...

    async def by_day(ctx: Any, agent: Any) -> bool:
        return True

    entry = handoff(BILLING, on_handoff=taken_over, is_enabled=by_day)
    assert (entry.on_handoff, entry.is_enabled) == (taken_over, by_day)
