"""The plan of a reply: what each call is, decided once."""

import json
from datetime import timedelta
from typing import Any

import pytest

from outlast.activities.offer import Offer
from outlast.activities.plan import (
    LARGEST_REPLY_BYTES,
    Plan,
    model_label,
    plan_reply,
    policy_of_tool,
)
from outlast.activities.scene import Scene
from outlast.agents.agent import Agent
from outlast.agents.context import RunContextWrapper, ToolContext
from outlast.agents.handoff import handoff
from outlast.agents.tool import FunctionTool, ToolRetry, function_tool
from outlast.loop.calls import DEFAULT_POLICY, ModelReply, PlannedCall, Policy
from outlast.loop.items import Item
from outlast.loop.values import JsonObject
from outlast.testing import ScriptedModel, call, say
from outlast.testing.scripted_model import raw_call
from tests.unit.activities.desk import raising, scene_of


@function_tool
async def look_up(order_id: str) -> str:
    """Look an order up."""
    return order_id


@function_tool(needs_approval=True)
async def refund(amount: int) -> str:
    """Pay back."""
    return f"{amount}"


async def invoke(_context: ToolContext[Any], _arguments: str) -> str:
    return ""


def by_hand(**fields: Any) -> FunctionTool:
    """A tool whose schema is only known at run time."""
    return FunctionTool(
        name="free",
        description="",
        params_json_schema={"type": "object", "properties": {}},
        on_invoke_tool=invoke,
        strict_json_schema=False,
        **fields,
    )


BILLING = Agent[Any](name="Billing", model="gpt-5-mini")


def offer_of(*tools: FunctionTool, handoffs: list[Any] | None = None, **fields: Any) -> Offer:
    return Offer(
        tools={tool.name: tool for tool in tools},
        handoffs={entry.tool_name: entry for entry in handoffs or []},
        **fields,
    )


async def plan_of(
    offer: Offer,
    *output: JsonObject,
    history: tuple[Item, ...] = (),
    scene: Scene | None = None,
    **agent: Any,
) -> Plan:
    scene = scene or scene_of(Agent(name="A", **agent), context={"limit": 10})
    plan = await plan_reply(output, offer, history, scene)
    # Whatever the plan, the loop takes it: a reply that it refused would be paid for again.
    ModelReply(items=plan.items, calls=plan.calls, final=plan.final, failure=plan.failure)
    return plan


async def only_call(offer: Offer, raw: JsonObject, **more: Any) -> PlannedCall:
    plan = await plan_of(offer, raw, **more)
    assert plan.items == (raw,)
    (planned,) = plan.calls
    return planned


# --- What a call is ----------------------------------------------------------------------------------


async def test_an_answer_has_no_calls() -> None:
    assert await plan_of(offer_of(look_up), *say("Hi")) == Plan(items=tuple(say("Hi")))


async def test_a_call_of_a_tool() -> None:
    planned = await only_call(offer_of(look_up), call("look_up", "c1", order_id="A-17"))
    assert planned == PlannedCall(item=0, kind="tool")


async def test_a_handoff() -> None:
    entry = handoff(BILLING, on_handoff=print)
    planned = await only_call(offer_of(handoffs=[entry]), call("transfer_to_billing", "h1"))
    assert planned == PlannedCall(
        item=0, kind="handoff", target="Billing", target_model="gpt-5-mini", callback=True
    )


async def test_a_handoff_without_a_callback_and_a_model() -> None:
    entry = handoff(Agent(name="B"))
    planned = await only_call(offer_of(handoffs=[entry]), call("transfer_to_b", "h1"))
    assert (planned.callback, planned.target_model) == (False, "")


async def test_a_name_that_nobody_offers_is_answered_with_those_there_are() -> None:
    offer = offer_of(look_up, handoffs=[handoff(BILLING)])
    planned = await only_call(offer, call("lookup", "c1"))
    assert planned.kind == "unknown"
    assert planned.problem == (
        "There is no tool 'lookup'. Available: look_up, transfer_to_billing."
    )
    nothing = await only_call(offer_of(), call("lookup", "c1"))
    assert nothing.problem == "There is no tool 'lookup'. Available: none."


async def test_a_name_that_nobody_offers_is_an_error_where_the_run_says_so() -> None:
    offer = offer_of(look_up, unknown_is_fatal=True)
    plan = await plan_of(offer, *say("One moment"), call("lookup", "c1"))
    assert plan.failure is not None
    assert plan.failure.code == "model_behavior"
    assert "it was not offered: 'lookup'" in plan.failure.message
    assert plan.items == tuple(say("One moment")), "no call is left without an output"
    known = await plan_of(offer, call("look_up", "c1", order_id="x"))
    assert known.failure is None


async def test_a_plan_points_into_a_mixed_reply() -> None:
    offer = offer_of(look_up, refund, handoffs=[handoff(BILLING)])
    thought: JsonObject = {"type": "reasoning", "summary": []}
    plan = await plan_of(
        offer,
        thought,
        call("look_up", "c1", order_id="x"),
        *say("One moment"),
        call("refund", "c2", amount=5),
        call("transfer_to_billing", "c3"),
        call("nothing", "c4"),
    )
    assert [(one.item, one.kind) for one in plan.calls] == [
        (1, "tool"),
        (3, "tool"),
        (4, "handoff"),
        (5, "unknown"),
    ]
    assert len(plan.items) == 6


# --- Arguments ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", ["{}", '{"order_id": 5}', "", "[]", "{", "null", '"x"'])
async def test_arguments_that_do_not_fit_are_told_to_the_model(arguments: str) -> None:
    planned = await only_call(offer_of(look_up), raw_call("look_up", "c1", arguments))
    assert planned.kind == "tool"
    assert planned.problem


DEEP = "[" * 100_000


@pytest.mark.parametrize("arguments", ["[]", "{", "null", "5", DEEP, '{"a":' * 100_000])
async def test_a_tool_without_a_check_takes_any_object_and_nothing_else(arguments: str) -> None:
    planned = await only_call(offer_of(by_hand()), raw_call("free", "c1", arguments))
    assert planned.problem == "The arguments of free have to be a JSON object."


@pytest.mark.parametrize("arguments", ["{}", "", '{"a": [1]}'])
async def test_an_object_is_an_object(arguments: str) -> None:
    planned = await only_call(offer_of(by_hand()), raw_call("free", "c1", arguments))
    assert planned.problem is None


async def test_arguments_nested_without_end_are_told_to_the_model() -> None:
    planned = await only_call(offer_of(look_up), raw_call("look_up", "c1", DEEP))
    assert planned.problem


async def test_a_check_that_fails_does_not_repeat_the_paid_call() -> None:
    tool = by_hand(validate=raising(KeyError("broken")))
    planned = await only_call(offer_of(tool), raw_call("free", "c1", "{}"))
    assert planned.problem == "The arguments of free have to be a JSON object."


# --- Approvals ------------------------------------------------------------------------------------------


async def test_a_tool_may_always_need_a_person() -> None:
    planned = await only_call(offer_of(refund), call("refund", "c1", amount=5))
    assert (planned.needs_approval, planned.reason) == (True, None)


async def test_nobody_is_asked_about_a_call_that_cannot_run() -> None:
    planned = await only_call(offer_of(refund), call("refund", "c1", amount="all"))
    assert planned.problem
    assert not planned.needs_approval


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize(("amount", "asked"), [(5, False), (50, True)])
async def test_a_rule_sees_the_context_the_arguments_and_the_call(
    amount: int, *, asked: bool, is_async: bool
) -> None:
    seen: list[Any] = []

    def rule(ctx: RunContextWrapper[Any], arguments: JsonObject, call_id: str) -> bool:
        seen.append((ctx, arguments, call_id))
        return arguments["amount"] > ctx.context["limit"]

    async def later(ctx: RunContextWrapper[Any], arguments: JsonObject, call_id: str) -> bool:
        return rule(ctx, arguments, call_id)

    tool = by_hand(needs_approval=later if is_async else rule)
    planned = await only_call(offer_of(tool), call("free", "c1", amount=amount))
    assert (planned.needs_approval, planned.reason) == (asked, None)
    ((ctx, given, call_id),) = seen
    assert (ctx.run_id, given, call_id) == ("support-42", {"amount": amount}, "c1")


@pytest.mark.parametrize("error", [ValueError("secret"), SystemExit(1), KeyError()])
async def test_a_rule_that_fails_asks_a_person(error: BaseException) -> None:
    def rule(_ctx: object, _arguments: object, _call_id: str) -> bool:
        raise error

    planned = await only_call(offer_of(by_hand(needs_approval=rule)), raw_call("free", "c1", ""))
    assert planned.needs_approval
    assert planned.reason is not None
    assert "The approval rule failed" in planned.reason
    assert "secret" not in planned.reason


async def test_no_argument_is_given_to_a_rule_as_an_empty_object() -> None:
    seen: list[Any] = []

    def rule(_ctx: object, arguments: JsonObject, _call_id: str) -> bool:
        seen.append(arguments)
        return False

    await only_call(offer_of(by_hand(needs_approval=rule)), raw_call("free", "c1", ""))
    assert seen == [{}]


# --- Bounds ----------------------------------------------------------------------------------------------


def test_an_ordinary_tool_needs_no_policy_of_its_own_in_history() -> None:
    assert policy_of_tool(look_up) == DEFAULT_POLICY


def test_a_tools_bounds_are_in_the_plan() -> None:
    tool = by_hand(
        timeout=timedelta(seconds=2.5),
        retry=ToolRetry(
            attempts=7,
            initial_interval=timedelta(milliseconds=10),
            backoff=1.5,
            maximum_interval=timedelta(seconds=4),
        ),
    )
    assert policy_of_tool(tool) == Policy(
        timeout_ms=2500, attempts=7, initial_interval_ms=10, backoff=1.5, maximum_interval_ms=4000
    )


@pytest.mark.parametrize(("seconds", "bound_ms"), [(120, 5000), (2, 2000)])
def test_a_fast_tool_gets_a_few_seconds_at_most(seconds: int, bound_ms: int) -> None:
    policy = policy_of_tool(by_hand(fast=True, timeout=timedelta(seconds=seconds)))
    assert (policy.fast, policy.timeout_ms) == (True, bound_ms)


@pytest.mark.parametrize(("function", "fatal"), [(None, True), (raising(ValueError()), False)])
async def test_a_tool_whose_failure_the_model_may_not_know_ends_the_run(
    function: Any, *, fatal: bool
) -> None:
    tool = by_hand(failure_error_function=function)
    assert (await only_call(offer_of(tool), raw_call("free", "c1", "{}"))).fatal is fatal


# --- Call ids --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", [call("look_up", "", order_id="x"), {"type": "function_call"}])
async def test_a_call_without_an_id_is_the_models_error(raw: JsonObject) -> None:
    plan = await plan_of(offer_of(look_up), *say("Hi"), raw)
    assert plan.failure is not None
    assert "without a call id" in plan.failure.message
    assert plan.items == tuple(say("Hi"))


async def test_a_call_that_is_repeated_word_for_word_is_one_call() -> None:
    one = call("look_up", "c1", order_id="x")
    plan = await plan_of(offer_of(look_up), one, dict(one), call("look_up", "c2", order_id="x"))
    assert [raw["call_id"] for raw in plan.items] == ["c1", "c2"]
    assert [planned.item for planned in plan.calls] == [0, 1]


async def test_an_id_used_for_two_calls_is_the_models_error() -> None:
    plan = await plan_of(
        offer_of(look_up), call("look_up", "c1", order_id="x"), call("look_up", "c1", order_id="y")
    )
    assert plan.failure is not None
    assert "the call id 'c1' for two different calls" in plan.failure.message
    assert (plan.items, plan.calls) == ((), ())


async def test_an_id_of_an_earlier_turn_counts_too() -> None:
    before = (Item("tool_call", call("refund", "c1", amount=5), "A", 1),)
    other = await plan_of(offer_of(refund), call("refund", "c1", amount=500), history=before)
    assert other.failure is not None
    same = await plan_of(
        offer_of(refund), *say("Again"), call("refund", "c1", amount=5), history=before
    )
    assert (same.items, same.calls, same.failure) == (tuple(say("Again")), (), None)


# --- The end, and junk -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("types", "final"),
    [
        (["message"], "text"),
        (["reasoning", "message"], "text"),
        (["web_search_call", "message"], "text"),
        (["web_search_call"], "again"),
        (["reasoning", "web_search_call"], "again"),
        (["reasoning"], "text"),
        ([], "text"),
    ],
)
async def test_a_reply_in_which_the_provider_only_worked_is_no_answer(
    types: list[str], final: str
) -> None:
    plan = await plan_of(offer_of(), *({"type": one} for one in types))
    assert plan.final == final


JUNK: list[tuple[Any, str]] = [
    (None, "is no list of items: None"),
    ("text", "is no list of items"),
    ([None], "is no list of items"),
    ([["type"]], "is no list of items"),
    ([{"type": "message", "content": object()}], "cannot be written as JSON"),
    ([{"type": "message", "content": "x" * LARGEST_REPLY_BYTES}], "bytes, of at most 1,000,000"),
]


@pytest.mark.parametrize(("output", "problem"), JUNK)
async def test_junk_is_the_models_error_and_is_not_kept(output: Any, problem: str) -> None:
    plan = await plan_reply(output, offer_of(look_up), (), scene_of())
    assert plan.failure is not None
    assert plan.failure.code == "model_behavior"
    assert problem in plan.failure.message
    assert len(json.dumps(plan.failure.message)) < 1000
    assert plan.items == ()


@pytest.mark.parametrize(
    ("model", "label"),
    [(None, ""), ("gpt-5", "gpt-5"), (ScriptedModel(), "ScriptedModel")],
)
def test_a_model_has_a_name_for_people(model: object, label: str) -> None:
    assert model_label(model) == label
