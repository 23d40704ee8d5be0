"""The plan of a reply: what each call is, decided once."""

import json
import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from outlast.activities.invocation import Invocation
from outlast.activities.planning.offered_tools import OfferedTools
from outlast.activities.planning.plan import (
    LARGEST_REPLY_BYTES,
    Plan,
    model_label,
    plan_reply,
    policy_of_tool,
)
from outlast.activities.worker_memory import SHORT_CALLS
from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.agents.config.run_config import RunConfig
from outlast.agents.context.wrapper import RunContextWrapper, ToolContext
from outlast.agents.guardrails.guardrail import OutputGuardrail
from outlast.agents.guardrails.tool_guardrails import (
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
)
from outlast.agents.handoffs.handoff import Handoff, handoff
from outlast.agents.hooks import AgentHooks, RunHooks
from outlast.agents.schemas.agent_output import AgentOutputSchema
from outlast.agents.tools.definition import (
    FunctionTool,
    ToolRetry,
)
from outlast.agents.tools.function_tool import function_tool
from outlast.agents.tools.use_behavior import ToolExecutionConfig
from outlast.extensions.machine.shell import ShellTool
from outlast.loop.calls import (
    DEFAULT_OPTIONS,
    ExecutionOptions,
    ModelReply,
    NestedPlan,
    PlannedCall,
    ToolResult,
)
from outlast.loop.items import Item
from outlast.loop.phrases import REJECTED
from outlast.loop.values import JsonObject
from outlast.testing import ScriptedModel, call, refuse, say, shell_call
from outlast.testing.scripted_model import raw_call
from tests.unit.activities.desk import answering, invocation_of, name_of, raising, settings_of


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


def offered_tools(
    *tools: FunctionTool, handoffs: list[Any] | None = None, **fields: Any
) -> OfferedTools:
    return OfferedTools(
        tools={tool.name: tool for tool in tools},
        handoffs={entry.tool_name: entry for entry in handoffs or []},
        **fields,
    )


async def plan_of(
    offer: OfferedTools,
    *output: JsonObject,
    history: tuple[Item, ...] = (),
    invocation: Invocation | None = None,
    **agent: Any,
) -> Plan:
    invocation = invocation or invocation_of(Agent(name="A", **agent), context={"limit": 10})
    plan = await plan_reply(output, offer, history, invocation)
    # Whatever the plan, the loop takes it: a reply that it refused would be paid for again.
    ModelReply(items=plan.items, calls=plan.calls, final=plan.final, failure=plan.failure)
    return plan


async def only_call(offer: OfferedTools, raw: JsonObject, **more: Any) -> PlannedCall:
    plan = await plan_of(offer, raw, **more)
    assert plan.items == (raw,)
    (planned,) = plan.calls
    return planned


# --- What a call is ----------------------------------------------------------------------------------


async def test_an_answer_has_no_calls() -> None:
    assert await plan_of(offered_tools(look_up), *say("Hi")) == Plan(items=tuple(say("Hi")))


async def test_a_call_of_a_tool() -> None:
    planned = await only_call(offered_tools(look_up), call("look_up", "c1", order_id="A-17"))
    assert planned == PlannedCall(item=0, kind="tool")


async def test_a_handoff() -> None:
    entry = handoff(BILLING, on_handoff=print)
    planned = await only_call(offered_tools(handoffs=[entry]), call("transfer_to_billing", "h1"))
    assert planned == PlannedCall(
        item=0, kind="handoff", target="Billing", target_model="gpt-5-mini", callback=True
    )


async def test_a_handoff_without_a_callback_and_a_model() -> None:
    entry = handoff(Agent(name="B"))
    planned = await only_call(offered_tools(handoffs=[entry]), call("transfer_to_b", "h1"))
    assert (planned.callback, planned.target_model) == (False, "")


async def test_a_name_that_nobody_offers_is_answered_with_those_there_are() -> None:
    offer = offered_tools(look_up, handoffs=[handoff(BILLING)])
    planned = await only_call(offer, call("lookup", "c1"))
    assert planned.kind == "unknown"
    assert planned.problem == (
        "There is no tool 'lookup'. Available: look_up, transfer_to_billing."
    )
    nothing = await only_call(offered_tools(), call("lookup", "c1"))
    assert nothing.problem == "There is no tool 'lookup'. Available: none."


async def test_a_name_that_nobody_offers_is_an_error_where_the_run_says_so() -> None:
    offer = offered_tools(look_up, unknown_is_fatal=True)
    plan = await plan_of(offer, *say("One moment"), call("lookup", "c1"))
    assert plan.failure is not None
    assert plan.failure.code == "model_behavior"
    assert "it was not offered: 'lookup'" in plan.failure.message
    assert plan.items == tuple(say("One moment")), "no call is left without an output"
    known = await plan_of(offer, call("look_up", "c1", order_id="x"))
    assert known.failure is None


async def test_a_plan_points_into_a_mixed_reply() -> None:
    offer = offered_tools(look_up, refund, handoffs=[handoff(BILLING)])
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
    planned = await only_call(offered_tools(look_up), raw_call("look_up", "c1", arguments))
    assert planned.kind == "tool"
    assert planned.problem


DEEP = "[" * 100_000


@pytest.mark.parametrize("arguments", ["[]", "{", "null", "5", DEEP, '{"a":' * 100_000])
async def test_a_tool_without_a_check_takes_any_object_and_nothing_else(arguments: str) -> None:
    planned = await only_call(offered_tools(by_hand()), raw_call("free", "c1", arguments))
    assert planned.problem == "Invalid JSON input for tool free: expected a JSON object."


@pytest.mark.parametrize("arguments", ["{}", "", '{"a": [1]}'])
async def test_an_object_is_an_object(arguments: str) -> None:
    planned = await only_call(offered_tools(by_hand()), raw_call("free", "c1", arguments))
    assert planned.problem is None


async def test_arguments_nested_without_end_are_told_to_the_model() -> None:
    planned = await only_call(offered_tools(look_up), raw_call("look_up", "c1", DEEP))
    assert planned.problem


async def test_a_check_that_fails_does_not_repeat_the_paid_call(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tool = by_hand(validate=raising(KeyError("broken")))
    planned = await only_call(offered_tools(tool), raw_call("free", "c1", "{}"))
    assert "the arguments of free could not be checked: KeyError('broken')" in caplog.text
    assert planned.problem == "Invalid JSON input for tool free: expected a JSON object."


# --- Approvals ------------------------------------------------------------------------------------------


async def test_a_tool_may_always_need_a_person() -> None:
    planned = await only_call(offered_tools(refund), call("refund", "c1", amount=5))
    assert planned.approval is not None
    assert planned.approval.reason is None


async def test_a_plan_has_the_terms_of_a_calls_approval_and_the_schema_for_edits() -> None:
    policy = ApprovalPolicy(quorum=2, effect="irreversible", reason="It is final.")
    tool = by_hand(needs_approval=policy)
    planned = await only_call(offered_tools(tool), raw_call("free", "c1", "{}"))
    assert planned.approval is not None
    assert planned.approval.reason == "It is final."
    assert planned.approval.terms == policy.terms()
    assert planned.approval.schema == tool.params_json_schema


async def test_a_handoff_waits_for_a_person_under_its_own_policy() -> None:
    policy = ApprovalPolicy(audience="leads")
    entry = handoff(BILLING, needs_approval=policy)
    planned = await only_call(offered_tools(handoffs=[entry]), call("transfer_to_billing", "h1"))
    assert planned.approval is not None
    assert planned.approval.terms == policy.terms(possible=("approve", "reject"))
    assert planned.approval.schema is None


@pytest.mark.parametrize(
    ("output", "is_gated"),
    [
        (say("Hi"), True),
        (refuse("No."), False),
        ([{"type": "web_search_call", "id": "w1", "status": "completed"}], False),
        ([call("free", "c1")], False),
    ],
    ids=["answer", "refusal", "no-answer-yet", "call"],
)
async def test_only_an_answer_waits_for_its_approval(
    output: list[JsonObject], *, is_gated: bool
) -> None:
    policy = ApprovalPolicy(quorum=2, reason="It goes to a customer.")
    plan = await plan_of(offered_tools(by_hand()), *output, output_approval=policy)
    assert (plan.approval is not None) is is_gated
    if plan.approval is not None:
        assert plan.approval.terms.quorum == 2
        assert plan.approval.reason == "It goes to a customer."


async def test_a_fast_tool_that_waits_for_a_person_runs_as_an_activity() -> None:
    tool = by_hand(fast=True, timeout=timedelta(seconds=60))
    assert policy_of_tool(tool).fast
    policy = policy_of_tool(tool, waits=True)
    assert (policy.fast, policy.timeout_ms) == (False, 60_000)


async def test_nobody_is_asked_about_a_call_that_cannot_run() -> None:
    planned = await only_call(offered_tools(refund), call("refund", "c1", amount="all"))
    assert planned.problem
    assert planned.approval is None


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
    planned = await only_call(offered_tools(tool), call("free", "c1", amount=amount))
    assert (planned.approval is not None) is asked
    ((ctx, given, call_id),) = seen
    assert (ctx.run_id, given, call_id) == ("support-42", {"amount": amount}, "c1")


@pytest.mark.parametrize("error", [ValueError("secret"), SystemExit(1), KeyError()])
async def test_a_rule_that_fails_asks_a_person(error: BaseException) -> None:
    def rule(_ctx: object, _arguments: object, _call_id: str) -> bool:
        raise error

    planned = await only_call(
        offered_tools(by_hand(needs_approval=rule)), raw_call("free", "c1", "")
    )
    assert planned.approval is not None
    assert "The approval rule failed" in str(planned.approval.reason)
    assert "secret" not in str(planned.approval.reason)


@pytest.mark.parametrize(("limit", "asks"), [(499, True), (500, False)])
async def test_a_rule_is_asked_about_the_defaults_of_what_a_call_leaves_out(
    limit: int, *, asks: bool
) -> None:
    def rule(_context: object, given: JsonObject, _call_id: str) -> bool:
        return given["amount"] > limit

    @function_tool(needs_approval=rule, strict_mode=False)
    def pay(order_id: str, amount: float = 500) -> str:
        return f"{amount} for {order_id}"

    planned = await only_call(offered_tools(pay), call("pay", "c1", order_id="A-17"))
    assert (planned.approval is not None) is asks


async def test_a_reply_of_nothing_but_repetitions_is_no_answer() -> None:
    repeated = call("free", "c1", amount=5)
    history = [Item("tool_call", repeated, "A", 1)]
    invocation = invocation_of(Agent(name="A"))
    invocation.server_managed = True
    plan = await plan_reply([repeated], offered_tools(by_hand()), history, invocation)
    assert (plan.items, plan.calls, plan.final) == ((), (), "again")


async def test_no_argument_is_given_to_a_rule_as_an_empty_object() -> None:
    seen: list[Any] = []

    def rule(_ctx: object, arguments: JsonObject, _call_id: str) -> bool:
        seen.append(arguments)
        return False

    await only_call(offered_tools(by_hand(needs_approval=rule)), raw_call("free", "c1", ""))
    assert seen == [{}]


# --- Bounds ----------------------------------------------------------------------------------------------


def test_an_ordinary_tool_needs_no_policy_of_its_own_in_history() -> None:
    assert policy_of_tool(look_up) == DEFAULT_OPTIONS


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
    assert policy_of_tool(tool) == ExecutionOptions(
        timeout_ms=2500, attempts=7, initial_interval_ms=10, backoff=1.5, maximum_interval_ms=4000
    )


@pytest.mark.parametrize(("seconds", "bound_ms"), [(120, 5000), (2, 2000)])
def test_a_fast_tool_gets_a_few_seconds_at_most(seconds: int, bound_ms: int) -> None:
    policy = policy_of_tool(by_hand(fast=True, timeout=timedelta(seconds=seconds)))
    assert (policy.fast, policy.timeout_ms) == (True, bound_ms)


@pytest.mark.parametrize(
    ("tool", "is_short", "fast"),
    [
        (by_hand(effect="read"), True, True),
        (by_hand(effect="read"), False, False),
        (by_hand(effect="read", fast=False), True, False),
        (by_hand(effect="reversible"), True, False),
        (by_hand(), True, False),
    ],
)
def test_a_tool_that_only_reads_is_fast_while_its_calls_are_short(
    tool: FunctionTool, *, is_short: bool, fast: bool
) -> None:
    policy = policy_of_tool(tool, is_short=is_short)
    assert (policy.fast, policy.defers, policy.timeout_ms) == (fast, fast, 120_000)


async def test_a_short_call_that_waits_for_a_person_runs_within_a_moment_or_as_an_activity() -> (
    None
):
    tool = by_hand(needs_approval=True, effect="read")
    invocation = invocation_of(Agent(name="A"))
    for _ in range(SHORT_CALLS):
        invocation.worker.memory.tool_times.record("free", 0.01, ToolResult(output="found"))
    plan = await only_call(offered_tools(tool), raw_call("free", "c1", "{}"), invocation=invocation)
    assert plan.approval is not None
    assert (plan.policy.fast, plan.policy.defers) == (True, True)


@pytest.mark.parametrize(("function", "fatal"), [(None, True), (raising(ValueError()), False)])
async def test_a_tool_whose_failure_the_model_may_not_know_ends_the_run(
    function: Any, *, fatal: bool
) -> None:
    tool = by_hand(failure_error_function=function)
    assert (await only_call(offered_tools(tool), raw_call("free", "c1", "{}"))).fatal is fatal


# --- Call ids --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", [call("look_up", "", order_id="x"), {"type": "function_call"}])
async def test_a_call_without_an_id_is_the_models_error(raw: JsonObject) -> None:
    plan = await plan_of(offered_tools(look_up), *say("Hi"), raw)
    assert plan.failure is not None
    assert "non-empty string call ID" in plan.failure.message
    assert plan.items == tuple(say("Hi"))


async def test_a_call_that_is_repeated_word_for_word_is_one_call() -> None:
    one = call("look_up", "c1", order_id="x")
    plan = await plan_of(
        offered_tools(look_up), one, dict(one), call("look_up", "c2", order_id="x")
    )
    assert [raw["call_id"] for raw in plan.items] == ["c1", "c2"]
    assert [planned.item for planned in plan.calls] == [0, 1]


TWICE = (call("look_up", "c1", order_id="x"), call("look_up", "c1", order_id="y"))


async def test_two_calls_with_one_id_are_two_calls() -> None:
    plan = await plan_of(offered_tools(look_up), *TWICE)
    assert plan.items == (TWICE[0], {**TWICE[1], "call_id": "c0"})
    assert [planned.item for planned in plan.calls] == [0, 1]


@pytest.mark.parametrize("field", ["server_managed", "is_live"])
async def test_an_id_used_for_two_calls_of_a_thread_is_the_models_error(field: str) -> None:
    invocation = invocation_of(Agent(name="A"))
    setattr(invocation, field, True)
    plan = await plan_of(offered_tools(look_up), *TWICE, invocation=invocation)
    assert plan.failure is not None
    assert "call ID 'c1' for two different calls" in plan.failure.message
    assert (plan.items, plan.calls) == ((), ())


@pytest.mark.parametrize("amount", [5, 500])
async def test_an_id_of_an_earlier_turn_is_that_of_another_call(amount: int) -> None:
    before = (Item("tool_call", call("refund", "c1", amount=5), "A", 1),)
    again = call("refund", "c1", amount=amount)
    plan = await plan_of(offered_tools(refund), *say("Again"), again, history=before)
    assert plan.items == (*say("Again"), {**again, "call_id": "c100"})
    assert [planned.item for planned in plan.calls] == [1]


@pytest.mark.parametrize("content", ["", [], [{"type": "output_text", "text": ""}]])
async def test_an_empty_message_is_not_recorded_and_the_answer_is_empty(content: Any) -> None:
    empty = {**say("")[0], "content": content}
    plan = await plan_of(offered_tools(look_up), empty)
    assert (plan.items, plan.final, plan.failure) == ((), "text", None)
    one = call("look_up", "c1", order_id="x")
    calls = await plan_of(offered_tools(look_up), empty, one)
    assert calls.items == (one,)
    assert [planned.item for planned in calls.calls] == [0]
    searched = {"type": "web_search_call", "id": "ws", "status": "completed"}
    assert (await plan_of(offered_tools(look_up), searched, empty)).final == "text"
    assert (await plan_of(offered_tools(look_up), *say("Hi"), empty)).items == tuple(say("Hi"))


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
    plan = await plan_of(offered_tools(), *({"type": one} for one in types))
    assert plan.final == final


JUNK: list[tuple[Any, str]] = [
    (None, "is not a list of items: None"),
    ("text", "is not a list of items"),
    ([None], "is not a list of items"),
    ([["type"]], "is not a list of items"),
    ([{"type": "message", "content": object()}], "cannot be written as JSON"),
    ([{"type": "message", "content": "x" * LARGEST_REPLY_BYTES}], "bytes; the limit is 1,000,000"),
]


@pytest.mark.parametrize(("output", "problem"), JUNK)
async def test_junk_is_the_models_error_and_is_not_kept(output: Any, problem: str) -> None:
    plan = await plan_reply(output, offered_tools(look_up), (), invocation_of())
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


# --- Agents as tools ---------------------------------------------------------------------------------------


async def test_an_agent_as_a_tool_is_planned_with_how_it_is_run() -> None:
    tool = BILLING.as_tool("ask", max_turns=3)
    planned = await only_call(offered_tools(tool), call("ask", "c1", input="Hi"))
    assert planned == PlannedCall(
        item=0,
        kind="agent",
        target="Billing",
        nested=NestedPlan(max_turns=3),
        policy=ExecutionOptions(attempts=1),
    )


@pytest.mark.parametrize("arguments", ["{}", '{"input": 5}', "[", '{"input": "x", "more": 1}'])
async def test_what_an_agent_cannot_be_asked_is_told_to_the_model(arguments: str) -> None:
    """No function would say it later, so also where somebody listens."""
    planned = await only_call(
        offered_tools(BILLING.as_tool("ask")), raw_call("ask", "c1", arguments), hooks=ToolHooks()
    )
    assert (planned.kind, planned.nested) == ("agent", None)
    assert planned.problem is not None
    assert planned.problem.startswith("Invalid JSON input for tool ask")


async def test_an_agent_as_a_tool_may_wait_for_a_person_and_end_the_run() -> None:
    tool = BILLING.as_tool("ask", needs_approval=True, failure_error_function=None)
    planned = await only_call(
        offered_tools(tool), call("ask", "c1", input="Hi"), tool_use_behavior="stop_on_first_tool"
    )
    assert (planned.kind, planned.approval is not None, planned.fatal, planned.final) == (
        "agent",
        True,
        True,
        True,
    )


async def test_settings_of_a_tool_that_cannot_travel_are_told_and_not_paid_for_again() -> None:
    config = RunConfig()
    config.trace_metadata = {"x": object()}
    plan = await plan_of(
        offered_tools(BILLING.as_tool("ask", run_config=config)), call("ask", "c1", input="Hi")
    )
    assert plan.failure is not None
    assert (plan.failure.code, plan.items) == ("user_error", ())


async def test_a_reply_fails_with_any_call_that_fails() -> None:
    config = RunConfig()
    config.trace_metadata = {"x": object()}
    offer = offered_tools(look_up, BILLING.as_tool("ask", run_config=config))
    plan = await plan_of(offer, *say("Wait."), LOOK, call("ask", "c2", input="Hi"))
    assert plan.failure is not None
    assert (plan.items, plan.calls) == (tuple(say("Wait.")), ())


# --- Handoffs with something to run --------------------------------------------------------------------------


class HandoffHooks(AgentHooks[Any]):
    async def on_handoff(self, context: Any, agent: Any, source: Any) -> None: ...


class RunHandoffHooks(RunHooks[Any]):
    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None: ...


def kept(data: Any) -> Any:
    return data


def checks(*_arguments: Any) -> Any:
    raise AssertionError


@pytest.mark.parametrize(
    ("options", "config", "callback", "filters"),
    [
        ({}, {}, False, False),
        ({"on_handoff": print}, {}, True, False),
        ({"input_filter": kept}, {}, True, True),
        ({}, {"handoff_input_filter": kept}, True, True),
        ({}, {"nest_handoff_history": True}, True, True),
        ({"nest_handoff_history": True}, {}, True, True),
        ({"nest_handoff_history": False}, {"nest_handoff_history": True}, False, False),
    ],
)
async def test_a_handoff_needs_an_activity_where_it_has_something_to_run(
    options: dict[str, Any], config: dict[str, Any], *, callback: bool, filters: bool
) -> None:
    invocation = invocation_of(settings=settings_of(RunConfig(**config)))
    offer = offered_tools(handoffs=[handoff(BILLING, **options)])
    planned = await only_call(offer, call("transfer_to_billing", "h1"), invocation=invocation)
    assert (planned.callback, planned.filters) == (callback, filters)


async def test_a_handoff_that_is_told_to_an_on_stream_sees_the_transcript() -> None:
    tool = Agent[Any](name="B").as_tool("ask", on_stream=checks)
    invocation = invocation_of(Agent(name="A", tools=[tool]), settings=answering("ask"))
    offer = offered_tools(handoffs=[handoff(BILLING)])
    planned = await only_call(offer, call("transfer_to_billing", "h1"), invocation=invocation)
    assert (planned.callback, planned.filters) == (True, True)


async def test_what_the_providers_server_keeps_is_not_told_as_a_summary(
    caplog: pytest.LogCaptureFixture,
) -> None:
    invocation = invocation_of(settings={"nest_handoff_history": True})
    invocation.server_managed = True
    offer = offered_tools(handoffs=[handoff(BILLING)])
    with caplog.at_level(logging.WARNING):
        planned = await only_call(offer, call("transfer_to_billing", "h1"), invocation=invocation)
    assert (planned.filters, planned.callback) == (False, False)
    assert "do not support nest_handoff_history" in caplog.text
    caplog.clear()
    invocation = invocation_of(settings={"nest_handoff_history": False})
    invocation.server_managed = True
    await only_call(offer, call("transfer_to_billing", "h1"), invocation=invocation)
    assert caplog.text == ""


async def test_hooks_on_handoffs_need_an_activity() -> None:
    offer = offered_tools(handoffs=[handoff(BILLING)])
    raw = call("transfer_to_billing", "h1")
    assert (await only_call(offer, raw, hooks=HandoffHooks())).callback
    of_run = invocation_of(settings={"hooks": name_of(RunHandoffHooks())})
    assert (await only_call(offer, raw, invocation=of_run)).callback
    assert not (await only_call(offer, raw, hooks=AgentHooks[Any]())).callback


async def test_a_handoff_that_picks_its_agent_says_so_when_it_is_run() -> None:
    async def pick(_ctx: object, _arguments: str) -> Any:
        return BILLING

    entry = Handoff(
        tool_name="escalate", tool_description="", agent_name="Somebody", on_invoke_handoff=pick
    )
    planned = await only_call(offered_tools(handoffs=[entry]), call("escalate", "h1"))
    assert (planned.target, planned.callback) == ("Somebody", True)
    assert (planned.target_model, planned.target_steps) == ("", ())


async def test_what_is_due_for_the_agent_that_takes_over_is_in_the_plan() -> None:
    target = Agent[Any](name="B", output_guardrails=[OutputGuardrail(checks)])
    offer = offered_tools(handoffs=[handoff(target)])
    planned = await only_call(offer, call("transfer_to_b", "h1"))
    assert planned.target_steps == ("finalize_answer", "check_output")


# --- Tools whose output may be the answer ------------------------------------------------------------------


LOOK, PAY = call("look_up", "c1", order_id="x"), call("free", "c2")


@pytest.mark.parametrize(
    ("behavior", "finals", "ends_with"),
    [
        ("run_llm_again", [], None),
        ("stop_on_first_tool", [0], 0),
        ({"stop_at_tool_names": ["free"]}, [1], 1),
        ({"stop_at_tool_names": ["other"]}, [], None),
        (checks, [], "judged"),
    ],
)
async def test_which_output_is_the_answer_is_planned(
    behavior: Any, finals: list[int], ends_with: Any
) -> None:
    offer = offered_tools(look_up, by_hand())
    plan = await plan_of(offer, LOOK, PAY, tool_use_behavior=behavior)
    assert [one.item for one in plan.calls if one.final] == finals
    assert plan.ends_with == ends_with


async def test_a_name_that_nobody_offers_is_never_the_answer() -> None:
    plan = await plan_of(
        offered_tools(look_up), call("gone", "c0"), LOOK, tool_use_behavior="stop_on_first_tool"
    )
    assert plan.ends_with == 1


async def test_a_reply_that_hands_over_has_no_other_end() -> None:
    offer = offered_tools(look_up, handoffs=[handoff(BILLING)])
    plan = await plan_of(
        offer, LOOK, call("transfer_to_billing", "h1"), tool_use_behavior="stop_on_first_tool"
    )
    assert (plan.ends_with, [one.final for one in plan.calls]) == (None, [False, False])


# --- Tools that were switched off meanwhile -------------------------------------------------------------------


def off(_ctx: object, _agent: object) -> bool:
    return False


@pytest.mark.parametrize(
    ("predicate", "code", "message"),
    [
        (off, "model_behavior", "'free', which is no longer enabled"),
        (raising(ConnectionError("down")), "user_error", "is_enabled of 'free' of agent 'A' rais"),
    ],
)
async def test_a_tool_that_is_off_by_now_stops_its_siblings_too(
    predicate: Any, code: str, message: str
) -> None:
    offer = offered_tools(look_up, by_hand(is_enabled=predicate))
    plan = await plan_of(offer, *say("One moment"), LOOK, PAY)
    assert plan.failure is not None
    assert plan.failure.code == code
    assert message in plan.failure.message
    assert (plan.calls, plan.items) == ((), tuple(say("One moment")))


# --- Somebody listens ----------------------------------------------------------------------------------------


class ToolHooks(AgentHooks[Any]):
    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None: ...


def passing(_data: Any) -> ToolGuardrailFunctionOutput:
    return ToolGuardrailFunctionOutput.allow()


@pytest.mark.parametrize(
    ("options", "agent"),
    [
        ({}, {"hooks": ToolHooks()}),
        ({"tool_input_guardrails": [ToolInputGuardrail(passing)]}, {}),
        ({"failure_error_function": raising(ValueError())}, {}),
        ({"failure_error_function": None}, {}),
    ],
)
async def test_where_somebody_hears_of_bad_arguments_the_tool_is_run_to_say_it(
    options: dict[str, Any], agent: dict[str, Any]
) -> None:
    offer = offered_tools(by_hand(**options))
    planned = await only_call(offer, raw_call("free", "c1", "["), **agent)
    assert planned.problem is None


# --- Approvals and the run's own words ------------------------------------------------------------------------


async def test_what_the_model_reads_of_a_rejection_is_written_beforehand() -> None:
    def explain(args: Any) -> str:
        return f"{args.kind}: {args.tool_name}"

    settings = settings_of(RunConfig(tool_error_formatter=explain))
    offer = offered_tools(refund, look_up)
    asked = await only_call(
        offer, call("refund", "c1", amount=5), invocation=invocation_of(settings=settings)
    )
    assert asked.rejection == "approval_rejected: refund"
    unknown = await only_call(
        offer, call("gone", "c1"), invocation=invocation_of(settings=settings)
    )
    assert unknown.problem == "tool_not_found: gone"
    free = await only_call(offer, LOOK, invocation=invocation_of(settings=settings))
    assert free.rejection is None


@pytest.mark.parametrize(
    ("verdict", "problem", "needs_approval", "code"),
    [
        (ToolGuardrailFunctionOutput.allow(), None, True, None),
        (ToolGuardrailFunctionOutput.reject_content("No."), "No.", False, None),
        (
            ToolGuardrailFunctionOutput.raise_exception(),
            None,
            True,
            "tool_input_guardrail_tripwire",
        ),
    ],
)
async def test_a_guardrail_may_answer_before_a_person_is_asked(
    verdict: Any, problem: str | None, *, needs_approval: bool, code: str | None
) -> None:
    execution = ToolExecutionConfig(pre_approval_tool_input_guardrails=True)
    invocation = invocation_of(settings=settings_of(RunConfig(tool_execution=execution)))
    guardrail = ToolInputGuardrail[Any](lambda _data: verdict)
    tool = by_hand(needs_approval=True, tool_input_guardrails=[guardrail])
    plan = await plan_of(offered_tools(tool), raw_call("free", "c1", "{}"), invocation=invocation)
    assert [(one.tool, one.call_id, one.behavior) for one in plan.checks] == [
        ("free", "c1", verdict.behavior)
    ]
    if code is not None:
        assert plan.failure is not None
        assert (plan.failure.code, plan.items) == (code, ())
        return
    assert [(one.problem, one.approval is not None) for one in plan.calls] == [
        (problem, needs_approval)
    ]


async def test_a_guardrail_does_not_run_twice_for_a_call_that_nobody_is_asked_about() -> None:
    execution = ToolExecutionConfig(pre_approval_tool_input_guardrails=True)
    invocation = invocation_of(settings=settings_of(RunConfig(tool_execution=execution)))
    guardrail = ToolInputGuardrail[Any](lambda _: ToolGuardrailFunctionOutput.allow())
    tool = by_hand(tool_input_guardrails=[guardrail])
    plan = await plan_of(offered_tools(tool), raw_call("free", "c1", "{}"), invocation=invocation)
    assert (plan.failure, plan.checks) == (None, ())


# --- Answers with a type ---------------------------------------------------------------------------------------


@dataclass
class Order:
    number: int


REFUSAL = refuse("I cannot help with that.")


@pytest.mark.parametrize(
    ("output_type", "text", "value"),
    [
        (Order, '{"response": {"number": 5}}', {"number": 5}),
        (list[int], '{"response": [1, 2]}', [1, 2]),
        (dict[str, int], '{"a": 1}', {"a": 1}),
    ],
)
async def test_an_answer_is_read_as_the_agents_type(
    output_type: Any, text: str, value: Any
) -> None:
    schema = AgentOutputSchema(output_type, strict_json_schema=False)
    plan = await plan_of(offered_tools(), *say(text), output_type=schema)
    assert (plan.final, plan.value, plan.failure) == ("value", value, None)


@pytest.mark.parametrize("text", ["No idea.", '{"number": 5}', '{"response": {"number": "5"}}'])
async def test_an_answer_that_does_not_fit_is_a_failure_of_its_own(text: str) -> None:
    plan = await plan_of(offered_tools(), *say(text), output_type=Order)
    assert plan.failure is not None
    assert plan.failure.code == "invalid_final_output"
    assert "does not fit Order" in plan.failure.message
    assert (plan.final, plan.value) == ("text", None)
    assert plan.items == tuple(say(text)), "it can be read in the transcript"


async def test_only_the_last_message_is_the_answer() -> None:
    thought: JsonObject = {"type": "reasoning", "id": "r1", "summary": []}
    answer = [*say("Let me see."), *say('{"response": 5}'), thought]
    plan = await plan_of(offered_tools(), *answer, output_type=int)
    assert plan.value == 5


@pytest.mark.parametrize(
    ("output", "final"), [(say(""), "again"), ([], "again"), (REFUSAL, "text")]
)
async def test_an_empty_answer_is_asked_for_again_and_a_refusal_is_not(
    output: Any, final: str
) -> None:
    plan = await plan_of(offered_tools(), *output, output_type=Order)
    assert (plan.final, plan.value, plan.failure) == (final, None, None)


async def test_what_is_said_beside_a_call_is_not_read() -> None:
    plan = await plan_of(offered_tools(look_up), *say("No idea."), LOOK, output_type=Order)
    assert (plan.failure, len(plan.calls)) == (None, 1)


async def test_a_schema_of_the_users_that_fails_does_not_repeat_the_paid_call() -> None:
    class Broken(AgentOutputSchema):
        def validate_json(self, json_str: str) -> Any:
            raise ZeroDivisionError

    plan = await plan_of(offered_tools(), *say("{}"), output_type=Broken(Order))
    assert plan.failure is not None
    assert plan.failure.code == "invalid_final_output"
    assert "The answer of agent 'A' could not be read" in plan.failure.message
    assert (plan.final, plan.value) == ("text", None)


# --- Calls of other forms ------------------------------------------------------------------------------


def shell(**options: Any) -> ShellTool:
    return ShellTool(lambda _request: "", **options)


def shell_offer(**options: Any) -> OfferedTools:
    return OfferedTools(tools={"shell": shell(**options)}, handoffs={})


async def test_a_command_is_planned_like_a_function_and_tried_once() -> None:
    planned = await only_call(shell_offer(), shell_call("c1", "ls"))
    assert planned == PlannedCall(item=0, kind="tool", policy=ExecutionOptions(attempts=1))


async def test_what_a_command_lacks_is_told_to_the_model() -> None:
    planned = await only_call(shell_offer(), shell_call("c1"))
    assert "at least one command" in str(planned.problem)


async def test_a_call_that_the_tool_refuses_is_settled_with_its_reason() -> None:
    def decide(_context: Any, _item: Any) -> Any:
        return verdict

    offer = shell_offer(needs_approval=True, on_approval=decide)
    verdict: JsonObject = {"approve": False, "reason": "Never."}
    planned = await only_call(offer, shell_call("c1", "ls"))
    assert (planned.problem, planned.approval) == ("Never.", None)
    verdict = {"approve": False}
    planned = await only_call(offer, shell_call("c1", "ls"))
    assert planned.problem == REJECTED
    verdict = {"approve": True}
    planned = await only_call(offer, shell_call("c1", "ls"))
    assert (planned.problem, planned.approval) == (None, None)


async def test_a_run_ends_with_a_command_that_nobody_can_carry_out() -> None:
    plan = await plan_of(
        offered_tools(look_up), call("look_up", "c1", order_id="x"), shell_call("c2")
    )
    assert plan.failure is not None
    assert "without a shell tool" in plan.failure.message
    assert (plan.items, plan.calls) == ((), ())


async def test_what_the_provider_did_itself_is_kept_and_not_planned() -> None:
    asked = shell_call("c1", "ls")
    answered: JsonObject = {"type": "shell_call_output", "call_id": "c1", "output": []}
    plan = await plan_of(offered_tools(), asked, answered)
    assert (plan.items, plan.calls, plan.final) == ((asked, answered), (), "again")


async def test_a_command_that_is_off_by_now_ends_the_run() -> None:
    plan = await plan_of(shell_offer(is_enabled=off), shell_call("c1", "ls"))
    assert plan.failure is not None
    assert "no longer enabled" in plan.failure.message


async def test_a_commands_output_is_never_the_answer() -> None:
    offer = OfferedTools(tools={"shell": shell(), "look_up": look_up}, handoffs={})
    reply = [shell_call("c1", "ls"), call("look_up", "c2", order_id="x")]
    plan = await plan_of(offer, *reply, tool_use_behavior="stop_on_first_tool")
    assert plan.ends_with == 1
    assert [one.final for one in plan.calls] == [False, True]
