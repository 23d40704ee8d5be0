"""Agents: a definition with its mistakes found where they are made."""

from functools import partial
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.errors import UserError
from outlast.agents.handoff import handoff
from outlast.agents.settings import ModelSettings
from outlast.agents.tool import function_tool

AnyAgent: Any = Agent
"""As a program without types sees it."""


def no_parameters() -> str:
    return "x"


def one_parameter(ctx: object) -> str:
    return "x"


def two_parameters(ctx: object, agent: object) -> str:
    return "x"


@function_tool
def look_up(order_id: str) -> str:
    """Look an order up."""
    return order_id


def test_an_agent_needs_a_name_only() -> None:
    agent = Agent[Any](name="Triage")
    assert (agent.instructions, agent.tools, agent.handoffs) == (None, [], [])
    assert (agent.model, agent.model_settings) == (None, ModelSettings())


def test_agents_do_not_share_their_lists() -> None:
    one, other = Agent[Any](name="A"), Agent[Any](name="B")
    one.tools.append(look_up)
    one.handoffs.append(other)
    assert (other.tools, other.handoffs) == ([], [])


def test_a_cycle_is_closed_afterwards() -> None:
    triage = Agent[Any](name="Triage")
    orders = Agent[Any](name="Orders", handoffs=[triage])
    triage.handoffs.append(handoff(orders))
    assert orders.handoffs == [triage]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"name": ""}, r"Agent\(name=\.\.\.\) must be a non-empty string, not ''"),
        ({"name": "  "}, "non-empty string"),
        ({"name": None}, "non-empty string, not None"),
        ({"name": 5}, "non-empty string, not 5"),
        ({"instructions": 5}, "instructions must be a string, a callable or None, not int"),
        ({"instructions": ["a"]}, "not list"),
        ({"instructions": no_parameters}, r"instructions is called with \(context, agent\), but"),
        ({"instructions": one_parameter}, r"called with \(context, agent\)"),
        ({"tools": [print]}, "print in tools= does not fit: decorate it with @function_tool"),
        ({"tools": ["look_up"]}, "'look_up' in tools= does not fit"),
        ({"tools": look_up}, "tools= must be a list, not FunctionTool"),
        ({"tools": None}, "tools= must be a list, not NoneType"),
        ({"handoffs": ["Orders"]}, "'Orders' in handoffs= does not fit: use an Agent or handoff"),
        ({"handoffs": [Agent]}, "Agent in handoffs= does not fit"),
        ({"handoffs": Agent(name="B")}, "handoffs= must be a list, not Agent"),
        ({"model_settings": {"top_p": 1}}, r"model_settings is {'top_p': 1}: use ModelSettings"),
        ({"model_settings": None}, "model_settings is None"),
    ],
)
def test_a_mistake_is_found_where_it_is_made(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        AnyAgent(**{"name": "A", **fields})


@pytest.mark.parametrize(
    "fields", [{"tools": [print]}, {"instructions": 5}, {"handoffs": [1]}, {"tools": None}]
)
def test_a_mistake_names_its_agent(fields: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="Agent 'Billing'"):
        AnyAgent(name="Billing", **fields)


@pytest.mark.parametrize("instructions", ["text", "", None, two_parameters, partial(max, 1)])
def test_instructions_are_text_or_a_callable(instructions: Any) -> None:
    assert Agent(name="A", instructions=instructions).instructions is instructions


def test_a_copy_differs_where_it_is_told_to_and_shares_the_rest() -> None:
    agent = Agent[Any](name="A", instructions="Be kind.", tools=[look_up])
    copy = agent.clone(name="B", model="gpt-5")
    assert (copy.name, copy.model, copy.instructions) == ("B", "gpt-5", "Be kind.")
    assert copy.tools is agent.tools
    assert agent.clone(tools=[]).tools == []
    assert (agent.name, agent.model) == ("A", None)


def test_a_copy_is_checked_too() -> None:
    with pytest.raises(UserError, match="non-empty string"):
        Agent(name="A").clone(name="")
