"""Agents: a definition with its mistakes found where they are made."""

from dataclasses import fields as fields_of
from functools import partial
from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter

from outlast.agents.agent import Agent
from outlast.agents.agent_tools.agent_tool import AgentTool
from outlast.agents.config.model_settings import ModelSettings
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import UserError
from outlast.agents.guardrails.guardrail import (
    GuardrailFunctionOutput,
    input_guardrail,
    output_guardrail,
)
from outlast.agents.handoffs.handoff import handoff
from outlast.agents.hooks import AgentHooks, RunHooks
from outlast.agents.schemas.agent_output import AgentOutputSchema
from outlast.agents.tools.function_tool import function_tool
from outlast.agents.tools.hosted import WebSearchTool
from tests.mcp_servers import Shelf

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


class InPieces:
    async def get_response(self, instructions: object, items: object) -> None: ...


class HouseModel:
    async def get_response(self, request: object) -> object:
        return request


@input_guardrail
def polite(ctx: RunContextWrapper[Any], agent: Any, text: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)


@output_guardrail
def safe(ctx: RunContextWrapper[Any], agent: Any, output: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)


class Watching(AgentHooks[Any]):
    """Hooks of an agent."""


class WatchingRun(RunHooks[Any]):
    """Hooks of a run."""


class Thing:
    """Nothing that JSON can express."""


def test_an_agent_needs_a_name_only() -> None:
    agent = Agent[Any]("Triage")
    assert agent.name == "Triage"
    assert (agent.instructions, agent.tools, agent.handoffs) == (None, [], [])
    assert (agent.model, agent.model_settings) == (None, ModelSettings())
    assert (agent.input_guardrails, agent.output_guardrails) == ([], [])
    assert (agent.prompt, agent.output_type, agent.hooks) == (None, None, None)
    assert (agent.tool_use_behavior, agent.reset_tool_choice) == ("run_llm_again", True)


def test_every_field_is_taken() -> None:
    given: dict[str, Any] = {
        "name": "Triage",
        "instructions": two_parameters,
        "prompt": {"id": "pmpt_1"},
        "handoff_description": "Sorts.",
        "tools": [look_up],
        "mcp_servers": [Shelf()],
        "mcp_config": {"convert_schemas_to_strict": True},
        "handoffs": [Agent[Any]("Billing")],
        "model": HouseModel(),
        "model_settings": ModelSettings(temperature=0),
        "input_guardrails": [polite, polite],
        "output_guardrails": [safe],
        "output_type": list[int],
        "hooks": Watching(),
        "tool_use_behavior": {"stop_at_tool_names": ["look_up"]},
        "reset_tool_choice": False,
        "output_approval": False,
        "compaction": None,
    }
    agent = AnyAgent(**given)
    assert {field.name: getattr(agent, field.name) for field in fields_of(agent)} == given


@pytest.mark.parametrize(
    "output_type", [str, int, list[str], dict[str, Any] | None, Annotated[int, "n"]]
)
def test_an_output_type_may_be_wrapped_in_a_schema(output_type: Any) -> None:
    schema = AgentOutputSchema(output_type, strict_json_schema=False)
    assert Agent[Any]("A", output_type=schema).output_type is schema


def test_agents_in_a_circle_can_be_compared() -> None:
    one = Agent[Any]("A")
    one.handoffs.append(one)
    other = Agent[Any]("A")
    other.handoffs.append(other)
    assert one == other
    assert one != Agent[Any]("A", handoffs=[Agent("B")])
    assert one != "A"
    assert len({one, other, one}) == 2
    assert "A" in repr(one)


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
        ({"name": ""}, "Agent name must be a non-empty string, not ''"),
        ({"name": "  "}, "non-empty string"),
        ({"name": None}, "must be a string, got NoneType"),
        ({"name": 5}, "must be a string, got int"),
        ({"instructions": 5}, "instructions must be a string, a callable or None, not int"),
        ({"instructions": ["a"]}, "not list"),
        ({"instructions": no_parameters}, r"instructions is called with \(context, agent\), but"),
        ({"instructions": one_parameter}, r"called with \(context, agent\)"),
        ({"tools": [print]}, "tools holds print: decorate it with @function_tool"),
        ({"tools": ["look_up"]}, "tools holds 'look_up'"),
        ({"tools": look_up}, "tools must be a list, not FunctionTool"),
        ({"tools": None}, "tools must be a list, not NoneType"),
        ({"handoffs": ["Orders"]}, "handoffs holds 'Orders': use an Agent or handoff"),
        ({"handoffs": [Agent]}, "handoffs holds Agent"),
        ({"handoffs": Agent(name="B")}, "handoffs must be a list, not Agent"),
        (
            {"model_settings": ["top_p"]},
            r"must be ModelSettings, not \['top_p'\]",
        ),
        ({"model_settings": None}, "must be ModelSettings, not None"),
        ({"model": 5}, "model must be a model's name, a model .* or None, not 5"),
        ({"model": HouseModel}, "model must be a model's name"),
        ({"model": InPieces()}, r"model: get_response of InPieces is called with \(request\)"),
        ({"prompt": "pmpt_1"}, "prompt must be a dict with an id"),
        ({"prompt": no_parameters}, r"prompt is called with \(data\)"),
        ({"handoff_description": 5}, "handoff_description must be a string, not 5"),
        ({"tools": [Agent(name="B")]}, r"use agent\.as_tool\(\.\.\.\), or put it into handoffs="),
        (
            {"input_guardrails": [safe]},
            "input_guardrails holds .*decorate it with @input_guardrail",
        ),
        ({"input_guardrails": polite}, "input_guardrails must be a list, not InputGuardrail"),
        ({"output_guardrails": [no_parameters]}, "output_guardrails holds no_parameters"),
        ({"output_guardrails": None}, "output_guardrails must be a list, not NoneType"),
        ({"output_type": Thing}, "Thing"),
        ({"output_type": "Thing"}, "'Thing' is a value of type str"),
        ({"hooks": WatchingRun()}, r"RunHooks go to Runner\.run\(hooks="),
        ({"hooks": Watching}, "must be an AgentHooks instance"),
        ({"tool_use_behavior": "stop"}, "tool_use_behavior must be 'run_llm_again'"),
        ({"tool_use_behavior": one_parameter}, r"tool_use_behavior is called with \(context, res"),
        ({"reset_tool_choice": None}, "reset_tool_choice must be True or False, not None"),
    ],
)
def test_a_mistake_is_found_where_it_is_made(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        AnyAgent(**{"name": "A", **fields})


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [print]},
        {"instructions": 5},
        {"handoffs": [1]},
        {"tools": None},
        {"model": 5},
        {"model_settings": None},
        {"output_type": Thing},
        {"prompt": 5},
        {"hooks": 5},
        {"tool_use_behavior": 5},
        {"input_guardrails": 5},
    ],
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


def test_an_agent_can_be_a_tool_of_another() -> None:
    spanish = Agent[Any]("Spanish Desk", handoff_description="Answers in Spanish.")
    tool = spanish.as_tool(None, "Translates.", needs_approval=True)
    triage = Agent[Any]("Triage", tools=[look_up, tool, spanish.as_tool("other", None)])
    assert isinstance(tool, AgentTool)
    assert (tool.name, tool.description) == ("spanish_desk", "Translates.")
    assert (tool.agent, tool.needs_approval) == (spanish, True)
    assert [one.name for one in triage.tools] == ["look_up", "spanish_desk", "other"]
    other = triage.tools[2]
    assert isinstance(other, AgentTool)
    assert other.description == "Answers in Spanish."


async def test_an_agent_tells_its_prompt_and_tools_for_a_context() -> None:
    async def prompt(ctx: RunContextWrapper[str], agent: Agent[str]) -> str:
        return f"{agent.name} for {ctx.context}"

    def enabled(ctx: RunContextWrapper[str], agent: Agent[str]) -> bool:
        return ctx.context == "Ann"

    @function_tool(is_enabled=enabled)
    def often() -> str:
        return "x"

    @function_tool(is_enabled=False)
    def never() -> str:
        return "x"

    search = WebSearchTool()
    agent = Agent[str](name="A", instructions=prompt, tools=[often, never, search])
    ann, bob = RunContextWrapper("Ann"), RunContextWrapper("Bob")
    assert await agent.get_system_prompt(ann) == "A for Ann"
    assert await Agent[str](name="B", instructions="Be kind.").get_system_prompt(ann) == "Be kind."
    stored = Agent[str](name="C", prompt={"id": "pmpt_1"})
    assert await stored.get_prompt(ann) == {"id": "pmpt_1"}
    assert await agent.get_prompt(ann) is None
    assert await agent.get_all_tools(ann) == [often, search]
    assert await agent.get_all_tools(bob) == [search]


async def test_tools_of_mcp_servers_come_first() -> None:
    search = WebSearchTool()
    agent = Agent[Any](name="A", tools=[search], mcp_servers=[Shelf()])
    context = RunContextWrapper[Any](None)
    (found,) = await agent.get_mcp_tools(context)
    assert found.name == "find"
    assert [one.name for one in await agent.get_all_tools(context)] == ["find", search.name]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"mcp_servers": ["shelf"]}, "Agent 'A': mcp_servers holds 'shelf'"),
        ({"mcp_servers": Shelf()}, "Agent 'A': mcp_servers must be a list"),
        ({"mcp_config": {"strict": True}}, "Agent 'A': mcp_config must be a dict with"),
    ],
)
def test_mcp_servers_that_are_none_are_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        AnyAgent(name="A", **fields)


def test_agents_are_equal_by_their_fields_and_two_keys() -> None:
    one, other = Agent[Any](name="Desk"), Agent[Any](name="Desk")
    assert one == other == one.clone()
    assert one != Agent[Any](name="Desk", instructions="Help.")
    assert len({one, other}) == 2


def test_pydantic_takes_agents() -> None:
    desk = Agent[Any](name="Desk")
    assert TypeAdapter(Agent).validate_python(desk) is desk
