"""A tool's own guardrails."""

from collections.abc import Callable
from typing import Any

import pytest

from outlast.activities.guardrails.tool_checks import ToolCheck, check_call, check_result
from outlast.agents.agent import Agent
from outlast.agents.context.wrapper import ToolContext
from outlast.agents.errors import UserError
from outlast.agents.guardrails.tool_guardrails import (
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolOutputGuardrail,
)
from outlast.agents.tools.definition import (
    FunctionTool,
)
from outlast.agents.tools.function_tool import function_tool
from outlast.loop.checks import GuardrailRecord
from tests.unit.activities.desk import raising

ALLOW = ToolGuardrailFunctionOutput.allow({"score": 1})
REJECT = ToolGuardrailFunctionOutput.reject_content("Not this order.")
RAISE = ToolGuardrailFunctionOutput.raise_exception(object())
CONTEXT = ToolContext[Any](
    context={}, tool_name="pay", tool_call_id="c1", tool_arguments="{}", agent=Agent(name="A")
)


def saying(verdict: Any, heard: list[Any]) -> Callable[[Any], Any]:
    def check(data: Any) -> Any:
        heard.append((data, verdict))
        return verdict

    return check


def guarded(*verdicts: Any, heard: list[Any] | None = None) -> FunctionTool:
    """A tool whose guardrails, before and after, say these."""
    seen = [] if heard is None else heard
    checks = [saying(verdict, seen) for verdict in verdicts]

    @function_tool(
        tool_input_guardrails=[ToolInputGuardrail(one, name="g") for one in checks],
        tool_output_guardrails=[ToolOutputGuardrail(one, name="g") for one in checks],
    )
    async def pay() -> str:
        """Pay."""
        return ""

    return pay


def record(stage: Any, behavior: Any, info: Any = None, *, tripped: bool = False) -> Any:
    return GuardrailRecord(
        stage=stage,
        name="g",
        agent="A",
        info=info,
        tripped=tripped,
        tool="pay",
        call_id="c1",
        behavior=behavior,
    )


async def test_a_tool_without_guardrails_is_not_checked() -> None:
    assert await check_call(guarded(), CONTEXT) == ToolCheck()
    assert await check_result(guarded(), CONTEXT, "x") == ToolCheck()


async def test_a_call_that_all_allow_passes_with_what_they_told() -> None:
    checked = await check_call(guarded(ALLOW, ALLOW), CONTEXT)
    allowed = record("tool_input", {"type": "allow"}, {"score": 1})
    assert checked == ToolCheck((allowed, allowed))


async def test_the_first_that_does_not_allow_decides_and_the_others_are_not_asked() -> None:
    heard: list[Any] = []
    checked = await check_call(guarded(ALLOW, REJECT, RAISE, heard=heard), CONTEXT)
    assert [verdict for _, verdict in heard] == [ALLOW, REJECT]
    assert (checked.message, checked.failure) == ("Not this order.", None)
    assert checked.records[-1] == record(
        "tool_input", {"type": "reject_content", "message": "Not this order."}
    )


@pytest.mark.parametrize(
    ("stage", "code"),
    [
        ("tool_input", "tool_input_guardrail_tripwire"),
        ("tool_output", "tool_output_guardrail_tripwire"),
    ],
)
async def test_one_that_raises_its_exception_ends_the_run(stage: str, code: str) -> None:
    tool = guarded(RAISE)
    is_input = stage == "tool_input"
    checked = await (check_call(tool, CONTEXT) if is_input else check_result(tool, CONTEXT, "x"))
    assert checked.failure is not None
    assert checked.failure.code == code
    assert checked.failure.message == "The guardrail 'g' of the tool 'pay' triggered its tripwire."
    (kept,) = checked.records
    assert kept.tripped
    assert kept.info.startswith("<object object"), "what is no JSON is told as text"


async def test_an_output_guardrail_sees_the_output_and_the_call() -> None:
    heard: list[Any] = []
    checked = await check_result(guarded(REJECT, heard=heard), CONTEXT, {"paid": 5})
    ((data, _),) = heard
    assert (data.output, data.context, data.agent.name) == ({"paid": 5}, CONTEXT, "A")
    assert checked.message == "Not this order."


async def test_a_guardrail_that_raises_or_returns_something_else_is_heard() -> None:
    broken = ToolInputGuardrail[Any](raising(ConnectionError("down")))

    @function_tool(tool_input_guardrails=[broken])
    async def pay() -> str:
        """Pay."""
        return ""

    with pytest.raises(ConnectionError, match="down"):
        await check_call(pay, CONTEXT)
    with pytest.raises(UserError, match="'g' returned bool"):
        await check_call(guarded(True), CONTEXT)
