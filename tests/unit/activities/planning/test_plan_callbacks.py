"""What users' code has to say to the plan of a call."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outlast.activities.guardrails.tool_checks import ToolCheck
from outlast.activities.invocation import Invocation
from outlast.activities.planning.plan_callbacks import (
    checked_before_approval,
    nested_plan,
    not_offered,
    rejection_text,
    tool_context,
)
from outlast.agents.agent import Agent
from outlast.agents.config.run_config import RunConfig, ToolErrorFormatterArgs
from outlast.agents.context.wrapper import ToolContext
from outlast.agents.errors import UserError
from outlast.agents.guardrails.tool_guardrails import (
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
)
from outlast.agents.run_objects import RunKey
from outlast.agents.tools.definition import (
    FunctionTool,
)
from outlast.agents.tools.function_tool import function_tool
from outlast.agents.tools.search import tool_namespace
from outlast.agents.tools.use_behavior import ToolExecutionConfig
from outlast.loop.calls import NestedPlan
from outlast.loop.changes import Change
from outlast.loop.values import JsonObject, ServerThread
from outlast.sessions.sqlite import SQLiteSession
from outlast.testing import call, custom_call
from tests.unit.activities.desk import answering, invocation_of, raising, settings_of

PAY = call("pay", "c1", amount=5)


def context_of(invocation: Invocation, tool: FunctionTool) -> ToolContext[Any]:
    arguments = str(PAY["arguments"])
    return tool_context(invocation, tool, PAY, name="pay", call_id="c1", arguments=arguments)


def with_formatter(formatter: Any, **config: Any) -> Invocation:
    return invocation_of(settings=settings_of(RunConfig(tool_error_formatter=formatter, **config)))


# --- Texts ------------------------------------------------------------------------------------------------


async def test_without_a_formatter_our_own_words_are_used() -> None:
    assert await rejection_text(invocation_of(), PAY) is None
    text = await not_offered(invocation_of(), PAY, ["look_up", "refund"])
    assert text == "There is no tool 'pay'. Available: look_up, refund."
    text = await not_offered(invocation_of(), PAY, [], ["bank", "till"])
    assert text.endswith("The tools of 'bank' and 'till' are not available at the moment.")


async def test_the_runs_formatter_is_told_what_happened() -> None:
    asked: list[ToolErrorFormatterArgs[Any]] = []

    async def say(args: ToolErrorFormatterArgs[Any]) -> str:
        asked.append(args)
        return f"{args.kind}!"

    invocation = with_formatter(say)
    assert await rejection_text(invocation, PAY) == "approval_rejected!"
    assert await not_offered(invocation, custom_call("look", "c2", "here"), []) == "tool_not_found!"
    assert [(one.tool_name, one.call_id, one.tool_type) for one in asked] == [
        ("pay", "c1", "function"),
        ("look", "c2", "custom"),
    ]
    assert asked[0].default_message == "A person decided that this call must not run."
    assert asked[1].default_message == "There is no tool 'look'. Available: none."
    assert asked[0].run_context is invocation.wrapper


@pytest.mark.parametrize("said", [None, 5, ""])
async def test_a_formatter_that_says_nothing_leaves_the_default(said: Any) -> None:
    def say(_args: object) -> Any:
        return said

    invocation = with_formatter(say)
    text = await not_offered(invocation, PAY, [])
    assert text == "There is no tool 'pay'. Available: none."


async def test_a_formatter_that_fails_does_not_repeat_the_paid_call() -> None:
    invocation = with_formatter(raising(KeyError("k")))
    assert await rejection_text(invocation, PAY) is None
    unknown = invocation_of(settings={"tool_error_formatter": "gone:formatter"})
    assert await rejection_text(unknown, PAY) is None


# --- Guardrails before a person is asked --------------------------------------------------------------------


EARLY = settings_of(
    RunConfig(tool_execution=ToolExecutionConfig(pre_approval_tool_input_guardrails=True))
)


def guarded(function: Any) -> FunctionTool:
    @function_tool(needs_approval=True, tool_input_guardrails=[ToolInputGuardrail(function)])
    async def pay(amount: int) -> str:
        """Pay."""
        raise AssertionError(amount)

    return pay


def reject(data: Any) -> ToolGuardrailFunctionOutput:
    if data.context.context is not None:
        data.context.context = {"refused": data.context.tool_call_id}
    return ToolGuardrailFunctionOutput.reject_content(f"Not {data.context.tool_arguments}.")


def allow(_data: Any) -> ToolGuardrailFunctionOutput:
    return ToolGuardrailFunctionOutput.allow()


def end(_data: Any) -> ToolGuardrailFunctionOutput:
    return ToolGuardrailFunctionOutput.raise_exception()


async def test_a_call_that_is_refused_anyway_does_not_bother_a_person() -> None:
    invocation = invocation_of(settings=EARLY)
    refused = await checked_before_approval(invocation, guarded(reject), PAY)
    assert (refused.message, refused.failure) == ('Not {"amount": 5}.', None)
    (record,) = refused.records
    assert (record.tool, record.behavior) == (
        "pay",
        {"type": "reject_content", "message": 'Not {"amount": 5}.'},
    )
    allowed = await checked_before_approval(invocation, guarded(allow), PAY)
    assert (allowed.message, allowed.failure) == (None, None)
    assert [one.behavior for one in allowed.records] == [{"type": "allow"}]


async def test_without_the_setting_guardrails_wait_for_the_person() -> None:
    tool = guarded(raising(AssertionError()))
    assert await checked_before_approval(invocation_of(), tool, PAY) == ToolCheck()


@pytest.mark.parametrize(
    ("function", "code"),
    [(end, "tool_input_guardrail_tripwire"), (raising(ConnectionError("down")), "user_error")],
)
async def test_a_guardrail_that_ends_the_run_is_part_of_the_plan(function: Any, code: str) -> None:
    invocation = invocation_of(settings=EARLY)
    checked = await checked_before_approval(invocation, guarded(function), PAY)
    message, failure = checked.message, checked.failure
    assert message is None
    assert failure is not None
    assert failure.code == code


async def test_what_an_early_guardrail_raises_is_what_the_program_catches() -> None:
    tool = guarded(raising(ConnectionError("down")))
    checked = await checked_before_approval(invocation_of(settings=EARLY), tool, PAY)
    assert checked.failure is not None
    assert checked.failure.details == {"exception": "builtins:ConnectionError", "text": "down"}


async def test_what_an_early_guardrail_changes_in_the_context_is_kept() -> None:
    invocation = invocation_of(settings=EARLY, context={})
    await checked_before_approval(invocation, guarded(reject), PAY)
    assert invocation.changes() == (Change("set", ("refused",), "c1"),)


def test_the_context_of_a_call_that_is_not_run_yet_knows_the_call() -> None:
    invocation = invocation_of(context={"n": 1})
    tool = guarded(reject)
    context = context_of(invocation, tool)
    assert (context.tool_namespace, context.qualified_tool_name) == (None, "pay")
    (grouped,) = tool_namespace(name="shop", description="Orders.", tools=[tool])
    assert context_of(invocation, grouped).qualified_tool_name == "shop.pay"
    assert (context.tool_name, context.tool_call_id) == ("pay", "c1")
    assert (context.tool_arguments, context.tool_call.name) == ('{"amount": 5}', "pay")
    assert (context.idempotency_key, context.agent) == ("support-42:c1", invocation.agent)
    assert (context.context, context.turn, context.attempt) == ({"n": 1}, 1, 1)


# --- How agents that work as tools are run -------------------------------------------------------------------


def planned(settings: JsonObject | None = None, **options: Any) -> NestedPlan:
    itself = Agent[Any](name="A")
    itself.tools.append(itself.as_tool("ask_a"))
    invocation = invocation_of(itself, settings=settings)
    return nested_plan(invocation, Agent[Any](name="B").as_tool("ask", **options))


OUTER: JsonObject = {
    "model": "gpt-5",
    "hooks": "mine:Hooks",
    "session": {"kind": "sqlite"},
    "error_handlers": {"max_turns": "mine:handle"},
    **answering("ask_a"),
}


def test_a_nested_run_takes_over_the_settings_of_the_run_that_asks() -> None:
    assert planned(OUTER) == NestedPlan(max_turns=10)
    assert planned(OUTER, max_turns=3) == NestedPlan(max_turns=3)


def test_a_tools_own_settings_take_the_place_of_the_outer_runs() -> None:
    plan = planned(OUTER, run_config=RunConfig(model="o9"))
    assert plan == NestedPlan(max_turns=10, settings={"model": "o9"})
    assert planned(OUTER, run_config=RunConfig()).settings == {}, "none, and not the outer run's"


def test_a_tools_session_is_not_the_outer_runs(tmp_path: Path) -> None:
    """It is found through the tool, and what belongs to the outer run alone stays there."""
    session = SQLiteSession("expert", tmp_path / "s.db")
    plan = planned(OUTER, session=session)
    assert plan.session
    assert plan.settings == {"model": "gpt-5", "session": {}}
    both = planned(OUTER, session=session, run_config=RunConfig(model="o9"))
    assert both.settings == {"model": "o9", "session": {}}
    session.close()


@pytest.mark.parametrize(
    ("options", "thread"),
    [
        ({}, None),
        ({"conversation_id": "conv_1"}, ServerThread(conversation_id="conv_1")),
        (
            {"previous_response_id": "resp_1"},
            ServerThread(previous_response_id="resp_1", chained=True),
        ),
    ],
)
def test_a_tool_may_go_on_with_a_conversation_of_the_provider(
    options: dict[str, Any], thread: ServerThread | None
) -> None:
    assert planned(**options).thread == thread


def test_settings_that_cannot_travel_are_told() -> None:
    config = RunConfig(trace_metadata={"x": 1})
    config.trace_metadata = {"x": object()}
    with pytest.raises(UserError, match=r"RunConfig\(trace_metadata=\.\.\.\) must be plain data"):
        planned(run_config=config)


# --- What a tool's callable gets --------------------------------------------------------------------------


def test_the_key_of_a_call_tells_runs_apart_that_use_one_id() -> None:
    invocation = invocation_of()
    tool = guarded(allow)
    context = context_of(invocation, tool)
    assert (context.run_key, context.idempotency_key) == ("support-42", "support-42:c1")
    keyed = replace(invocation.worker, key=RunKey("default", "first-execution"))
    invocation = replace(invocation, worker=keyed)
    context = context_of(invocation, tool)
    assert context.run_key == "support-42@st-execution"
    assert context.idempotency_key == "support-42@st-execution:c1"
