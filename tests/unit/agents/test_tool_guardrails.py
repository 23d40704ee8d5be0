"""Guardrails on tools are made, named, checked and called."""

from typing import Any

import pytest

from outlast.agents.context.wrapper import ToolContext
from outlast.agents.errors import UserError
from outlast.agents.guardrails.tool_guardrails import (
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolInputGuardrailData,
    ToolOutputGuardrail,
    ToolOutputGuardrailData,
    tool_input_guardrail,
    tool_output_guardrail,
)


class Billing:
    name = "Billing"
    handoff_description: str | None = None


AGENT = Billing()
CONTEXT = ToolContext[Any](
    context=None, tool_name="refund", tool_call_id="c1", tool_arguments='{"sum": 5}', agent=AGENT
)
CALL = ToolInputGuardrailData(context=CONTEXT, agent=AGENT)
RESULT = ToolOutputGuardrailData(context=CONTEXT, agent=AGENT, output="paid")


def test_the_three_verdicts_say_what_follows() -> None:
    allow = ToolGuardrailFunctionOutput.allow(output_info=1)
    assert (allow.output_info, allow.behavior) == (1, {"type": "allow"})
    reject = ToolGuardrailFunctionOutput.reject_content("Not that.", output_info=2)
    assert reject.output_info == 2
    assert reject.behavior == {"type": "reject_content", "message": "Not that."}
    end = ToolGuardrailFunctionOutput.raise_exception(output_info=3)
    assert (end.output_info, end.behavior) == (3, {"type": "raise_exception"})
    assert ToolGuardrailFunctionOutput(output_info=None) == ToolGuardrailFunctionOutput.allow()


@pytest.mark.parametrize(
    ("behavior", "message"),
    [
        ({"type": "modify"}, r"'modify'\}\) is not a behavior"),
        ("allow", r"behavior='allow'\) is not a behavior"),
        ({"type": "reject_content"}, r"message=\.\.\.\) must be a string, not None"),
        ({"type": "reject_content", "message": 7}, r"must be a string, not 7"),
    ],
)
def test_a_verdict_that_means_nothing_is_refused(behavior: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        ToolGuardrailFunctionOutput(output_info=None, behavior=behavior)


async def test_an_input_guardrail_sees_the_call() -> None:
    @tool_input_guardrail
    def small_sums(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        seen = (data.context.tool_name, data.context.tool_arguments, data.agent.name)
        return ToolGuardrailFunctionOutput.reject_content("Too much.", output_info=seen)

    assert isinstance(small_sums, ToolInputGuardrail)
    assert small_sums.get_name() == "small_sums"
    output = await small_sums.run(CALL)
    assert output.output_info == ("refund", '{"sum": 5}', "Billing")
    assert output.behavior["type"] == "reject_content"


async def test_an_output_guardrail_sees_the_result_too() -> None:
    @tool_output_guardrail(name="no secrets")
    async def check(data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.allow((data.context.tool_call_id, data.output))

    assert isinstance(check, ToolOutputGuardrail)
    assert check.get_name() == "no secrets"
    assert (await check.run(RESULT)).output_info == ("c1", "paid")


def test_a_name_may_be_given_or_left_out() -> None:
    def check(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.allow()

    assert tool_input_guardrail(name="sums")(check).get_name() == "sums"
    assert tool_output_guardrail()(check).get_name() == "check"


def no_parameters() -> Any: ...


@pytest.mark.parametrize(
    ("make", "kind"), [(tool_input_guardrail, "input"), (tool_output_guardrail, "output")]
)
async def test_mistakes_name_the_guardrail(make: Any, kind: str) -> None:
    with pytest.raises(UserError, match=rf"^Tool {kind} guardrail 'no_parameters': .* \(data\)"):
        make(no_parameters)
    with pytest.raises(UserError, match=rf"^Tool {kind} guardrail 'sums': .* not NoneType"):
        (ToolInputGuardrail if kind == "input" else ToolOutputGuardrail)(None, name="sums")  # pyright: ignore[reportArgumentType]  # the mistake

    forgets = make(name="forgets")(bool)  # returns True
    with pytest.raises(UserError, match=rf"^Tool {kind} guardrail 'forgets' returned bool: return"):
        await forgets.run(RESULT)


def test_a_decorated_guardrail_has_the_name_of_its_function() -> None:
    def check(data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.allow()

    assert tool_input_guardrail(check).name == "check"
    assert tool_output_guardrail(check).name == "check"
    assert tool_input_guardrail(name="own")(check).name == "own"
