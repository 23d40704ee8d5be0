"""Handoffs: what the model sees of a way to another agent."""

import json
from dataclasses import dataclass, replace
from typing import Any, get_args

import pytest
from pydantic import BaseModel, ConfigDict
from typing_extensions import TypedDict

from outlast.agents.agent import Agent
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import ModelBehaviorError, UserError
from outlast.agents.handoffs.handoff import NO_INPUT, Handoff, OnHandoffWithInput, handoff
from outlast.agents.handoffs.input_data import HandoffInputData


def no_parameters() -> None: ...


def one_parameter(ctx: object) -> None: ...


def two_parameters(ctx: object, more: object) -> None: ...


class Reason(BaseModel):
    why: str
    urgency: int = 0


class Loose(BaseModel):
    more: dict[str, int]


class Handmade:
    """A type that pydantic knows nothing of."""


BILLING = Agent[Any](name="Billing", handoff_description="Pays money back.")


def test_a_handoff_is_named_and_described_after_its_agent() -> None:
    entry = handoff(BILLING)
    assert entry.tool_name == "transfer_to_billing"
    assert entry.tool_description == (
        "Hand the conversation over to the agent Billing. Pays money back."
    )
    assert (entry.agent, entry.agent_name) == (BILLING, "Billing")
    assert (entry.on_handoff, entry.is_enabled) == (None, True)
    assert (entry.input_filter, entry.nest_handoff_history) == (None, None)
    assert (entry.input_json_schema, entry.strict_json_schema) == (NO_INPUT, True)


def test_without_a_description_the_name_has_to_do() -> None:
    description = handoff(Agent(name="Orders")).tool_description
    assert description == "Hand the conversation over to the agent Orders."


def test_name_and_description_can_be_chosen() -> None:
    entry = handoff(BILLING, "pay", "For money.")  # in the SDK's order
    assert (entry.tool_name, entry.tool_description) == ("pay", "For money.")


@pytest.mark.parametrize(
    ("agent", "tool"),
    [
        ("Billing", "transfer_to_billing"),
        ("Order Desk", "transfer_to_order_desk"),
        ("Löschen & Ändern", "transfer_to_l_schen_ndern_c0b683d7"),
        ("a-b.c", "transfer_to_a_b_c_fb187eed"),
        ("受付", "transfer_to_受付"),
        ("Возвраты (RU)", "transfer_to_ru_f0e96585"),
        ("Доставка (RU)", "transfer_to_ru_fa735913"),
        ("Billing EU", "transfer_to_billing_eu"),
        ("Billing/EU", "transfer_to_billing_eu_4860451a"),
        ("x" * 60, "transfer_to_" + "x" * 43 + "_42f2d973"),
        ("!!", "transfer_to_233d26e9"),
    ],
)
def test_any_agents_name_makes_a_name_that_providers_take(agent: str, tool: str) -> None:
    assert Handoff.default_tool_name(agent) == tool
    assert Handoff.default_tool_name(Agent[Any](name=agent)) == tool
    assert handoff(Agent(name=agent)).tool_name == tool


@pytest.mark.parametrize("name", ["pay back", "pay!", "x" * 65, "a\n"])
def test_a_name_that_no_provider_takes_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=r"1 to 64 letters.*tool_name_override"):
        handoff(BILLING, tool_name_override=name)


def test_the_name_of_an_agent_may_be_too_long_for_a_tool() -> None:
    one, other = handoff(Agent(name="x" * 60)), handoff(Agent(name="x" * 61))
    assert one.tool_name != other.tool_name
    assert len(one.tool_name) == len(other.tool_name) == 64
    assert handoff(Agent(name="x" * 60), tool_name_override="to_x").agent_name == "x" * 60


@pytest.mark.parametrize("agent", ["Billing", None, Agent, object()])
def test_a_handoff_leads_to_an_agent(agent: Any) -> None:
    with pytest.raises(UserError, match=r"handoff\(\) needs an Agent, not"):
        handoff(agent)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"on_handoff": 5}, r"'transfer_to_billing': on_handoff must be callable .*\(context\)"),
        ({"on_handoff": no_parameters}, r"on_handoff is called with \(context\), but"),
        ({"on_handoff": two_parameters}, r"on_handoff is called with \(context\), but"),
        ({"on_handoff": one_parameter, "input_type": Reason}, r"called with \(context, input\)"),
        ({"input_type": Reason}, r"'transfer_to_billing'.* must provide on_handoff"),
        ({"on_handoff": two_parameters, "input_type": str}, r"'transfer_to_billing'.*not an objec"),
        (
            {"on_handoff": two_parameters, "input_type": Handmade},
            r"cannot give .* Handmade: [^\n]*TypedDict.$",
        ),
        (
            {"on_handoff": two_parameters, "input_type": Loose},
            r"'more' accepts any keys .*create the handoff with Handoff\(.*strict_json_schema=False\)",
        ),
        (
            {"on_handoff": two_parameters, "input_type": {"type": "object", "properties": {}}},
            r"input_type must be a type, not a JSON Schema.* pass the schema to Handoff\(",
        ),
        ({"input_filter": "mine"}, r"input_filter must be callable with \(data\)"),
        ({"input_filter": two_parameters}, r"input_filter is called with \(data\), but"),
        ({"nest_handoff_history": "yes"}, r"nest_handoff_history must be True or False, not 'yes'"),
        ({"is_enabled": "yes"}, r"is_enabled must be callable with \(context, agent\)"),
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


def context() -> RunContextWrapper[Any]:
    return RunContextWrapper[Any](context={"seen": []})


async def test_invoked_it_calls_back_and_leads_to_its_agent() -> None:
    def taken_over(ctx: RunContextWrapper[Any]) -> str:
        ctx.context["seen"].append("sync")
        return "ignored"

    async def taken_over_async(ctx: RunContextWrapper[Any]) -> None:
        ctx.context["seen"].append("async")

    wrapper = context()
    for callback in (taken_over, taken_over_async):
        entry = handoff(BILLING, on_handoff=callback)
        assert await entry.on_invoke_handoff(wrapper, "not read at all") is BILLING
    assert await handoff(BILLING).on_invoke_handoff(wrapper, "") is BILLING
    assert wrapper.context["seen"] == ["sync", "async"]


async def test_what_the_callback_raises_is_raised() -> None:
    def broken(ctx: object) -> None:
        raise ValueError("no such desk")

    with pytest.raises(ValueError, match="no such desk"):
        await handoff(BILLING, on_handoff=broken).on_invoke_handoff(context(), "{}")


@dataclass
class ReasonData:
    why: str
    urgency: int = 0


class ReasonDict(TypedDict):
    why: str
    urgency: int


@pytest.mark.parametrize("input_type", [Reason, ReasonData, ReasonDict])
async def test_the_input_of_the_model_is_given_to_the_callback_typed(input_type: Any) -> None:
    got: list[Any] = []

    async def taken_over(ctx: object, reason: Any) -> None:
        got.append(reason)

    entry = handoff(BILLING, on_handoff=taken_over, input_type=input_type)
    arguments = json.dumps({"why": "refund", "urgency": 2, "extra": "ignored"})
    assert await entry.on_invoke_handoff(context(), arguments) is BILLING
    assert got == [input_type(why="refund", urgency=2)]
    assert set(entry.input_json_schema["required"]) == {"why", "urgency"}
    assert entry.input_json_schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ('{"why": "x", "urgency": "1"}', "urgency: Input should be a valid integer"),
        ('{"urgency": 1}', "why is missing"),
        ("", "it is not JSON"),
        ("null", "the whole value"),
        ("{", "it is not JSON"),
    ],
)
async def test_input_that_does_not_fit_strictly_is_the_models_fault(
    arguments: str, problem: str
) -> None:
    called: list[Any] = []
    entry = handoff(BILLING, on_handoff=lambda _, reason: called.append(reason), input_type=Reason)
    message = f"handoff 'transfer_to_billing', which does not fit Reason: .*{problem}"
    with pytest.raises(ModelBehaviorError, match=message):
        await entry.on_invoke_handoff(context(), arguments)
    assert called == []


async def test_a_type_may_forbid_more_than_it_names() -> None:
    class Exact(BaseModel):
        model_config = ConfigDict(extra="forbid")
        why: str

    entry = handoff(BILLING, on_handoff=two_parameters, input_type=Exact)
    with pytest.raises(ModelBehaviorError, match="more: Extra"):
        await entry.on_invoke_handoff(context(), '{"why": "x", "more": 1}')


async def test_what_the_model_wrote_is_not_in_the_message() -> None:
    entry = handoff(BILLING, on_handoff=two_parameters, input_type=Reason)
    with pytest.raises(ModelBehaviorError) as caught:
        await entry.on_invoke_handoff(context(), '{"why": "x", "urgency": "card 1234"}')
    assert "1234" not in str(caught.value)


def test_only_a_handoff_with_something_to_run_needs_an_activity() -> None:
    def same(data: HandoffInputData) -> HandoffInputData:
        return data

    async def pick(ctx: object, arguments: str) -> Agent[Any]:
        return BILLING

    assert not handoff(BILLING).needs_activity
    assert not handoff(BILLING, nest_handoff_history=False, is_enabled=False).needs_activity
    assert handoff(BILLING, on_handoff=one_parameter).needs_activity
    assert handoff(BILLING, on_handoff=two_parameters, input_type=Reason).needs_activity
    assert handoff(BILLING, input_filter=same).needs_activity
    assert handoff(BILLING, nest_handoff_history=True).needs_activity
    picked = Handoff(
        tool_name="go", tool_description="", agent_name="some desk", on_invoke_handoff=pick
    )
    assert picked.needs_activity


async def test_a_handoff_made_by_hand_picks_its_agent_when_it_is_invoked() -> None:
    desks = {name: Agent[Any](name=name) for name in ("Billing", "Orders")}

    async def pick(ctx: RunContextWrapper[Any], arguments: str) -> Agent[Any]:
        return desks[json.loads(arguments)["desk"]]

    entry = Handoff[Any, Any](
        tool_name="to_a_desk",
        tool_description="To the desk that fits.",
        input_json_schema={"type": "object", "properties": {"desk": {"type": "string"}}},
        on_invoke_handoff=pick,
        agent_name="a desk",
    )
    assert (entry.agent, entry.agent_name, entry.picks_agent) == (None, "a desk", True)
    assert entry.input_json_schema["required"] == ["desk"], "held to strictly"
    assert await entry.on_invoke_handoff(context(), '{"desk": "Orders"}') is desks["Orders"]


def test_a_schema_may_be_loose_where_it_is_said() -> None:
    schema: dict[str, Any] = {"type": "object", "additionalProperties": True}
    entry = Handoff(
        tool_name="go",
        tool_description="",
        agent=BILLING,
        input_json_schema=schema,
        strict_json_schema=False,
    )
    assert entry.input_json_schema == schema
    empty = Handoff(tool_name="go", tool_description="", agent=BILLING, input_json_schema={})
    assert empty.input_json_schema == NO_INPUT


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "'go' has no target: set agent=, or on_invoke_handoff="),
        ({"agent_name": "A"}, "'go' has no target"),
        ({"on_invoke_handoff": two_parameters}, "'go' needs agent_name="),
        ({"on_invoke_handoff": one_parameter, "agent_name": "A"}, r"called with \(context, argu"),
        (
            {"agent": BILLING, "on_invoke_handoff": two_parameters, "on_handoff": one_parameter},
            "on_handoff and input_type do not go with it",
        ),
        (
            {"agent": BILLING, "input_json_schema": {"type": "string"}},
            "'go'.*is not an object",
        ),
    ],
)
def test_a_handoff_made_by_hand_has_to_lead_somewhere(fields: Any, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        Handoff(tool_name="go", tool_description="", **fields)


async def test_a_handoff_can_be_changed_and_copied() -> None:
    entry = handoff(BILLING)
    entry.is_enabled = False
    entry.on_handoff = lambda ctx: ctx.context["seen"].append("called")
    wrapper = context()
    await entry.on_invoke_handoff(wrapper, "")
    orders = Agent[Any](name="Orders")
    copy = replace(entry, agent=orders, on_handoff=None)
    assert (copy.is_enabled, copy.agent_name, copy.picks_agent) == (False, "Orders", False)
    assert await copy.on_invoke_handoff(wrapper, "") is orders
    assert wrapper.context["seen"] == ["called"]


def test_the_transfer_message_names_the_agent_that_takes_over() -> None:
    message = handoff(BILLING).get_transfer_message(Agent[Any](name="Löschen"))
    assert json.loads(message) == {"assistant": "Löschen"}


def test_an_annotation_that_is_evaluated_may_leave_out_the_kind_of_agent() -> None:
    def take(way: Handoff[int], other: Handoff[int, Agent[int]]) -> None: ...

    way, other = (take.__annotations__[name] for name in ("way", "other"))
    assert get_args(way) == (int,)
    assert get_args(other) == (int, Agent[int])


def test_the_type_of_a_callback_names_its_input_as_in_the_sdk() -> None:
    (_, number), _ = get_args(OnHandoffWithInput[int])
    assert number is int


async def test_a_handoff_is_invoked_by_hand_with_the_names_of_the_sdk() -> None:
    heard: list[Any] = []
    entry = handoff(Agent(name="B"), on_handoff=lambda ctx: heard.append(ctx.context))
    invoke: Any = entry.on_invoke_handoff
    invoked: Any = await invoke(ctx=context(), input_json="")
    assert (invoked.name, len(heard)) == ("B", 1)


async def test_a_handoff_is_made_by_place_in_the_order_of_the_sdk() -> None:
    async def pick(ctx: object, arguments: str) -> Agent[Any]:
        return BILLING

    def same(data: HandoffInputData) -> HandoffInputData:
        return data

    schema: dict[str, Any] = {"type": "object", "properties": {}}
    entry = Handoff[Any, Any]("go", "Go.", schema, pick, "some desk", same, True, False, False)
    assert (entry.tool_name, entry.tool_description, entry.agent_name) == ("go", "Go.", "some desk")
    assert (entry.input_json_schema, entry.on_invoke_handoff) == (schema, pick)
    assert (entry.input_filter, entry.nest_handoff_history) == (same, True)
    assert (entry.strict_json_schema, entry.is_enabled) == (False, False)
    assert Handoff[Any, Any]("go", "Go.", {}, pick, "x").input_json_schema == NO_INPUT
    made: Any = Handoff
    with pytest.raises(TypeError):
        made("go", "Go.", {}, pick, "x", None, None, True, True, BILLING)


def test_the_options_of_handoff_go_by_place_in_the_order_of_the_sdk() -> None:
    def same(data: HandoffInputData) -> HandoffInputData:
        return data

    entry = handoff(BILLING, "go", "Go.", two_parameters, Reason, same, True, False)
    assert (entry.tool_name, entry.tool_description, entry.on_handoff) == (
        "go",
        "Go.",
        two_parameters,
    )
    assert (entry.input_type, entry.input_filter) == (Reason, same)
    assert (entry.nest_handoff_history, entry.is_enabled) == (True, False)


async def test_a_handoff_without_input_is_invoked_by_hand_without_arguments() -> None:
    invoke: Any = handoff(BILLING).on_invoke_handoff
    assert await invoke(context()) is BILLING
    invoke = handoff(BILLING, on_handoff=two_parameters, input_type=Reason).on_invoke_handoff
    with pytest.raises(ModelBehaviorError, match="does not fit Reason"):
        await invoke(context())


async def test_the_way_out_for_a_type_that_cannot_be_strict_is_one() -> None:
    heard: list[Any] = []
    entry = Handoff[Any, Any](
        tool_name="go",
        tool_description="",
        agent=BILLING,
        on_handoff=lambda _, given: heard.append(given),
        input_type=Loose,
        input_json_schema=Loose.model_json_schema(),
        strict_json_schema=False,
    )
    assert await entry.on_invoke_handoff(context(), '{"more": {"a": 1}}') is BILLING
    assert heard == [Loose(more={"a": 1})]
