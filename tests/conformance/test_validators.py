"""Validators of users' types in the arguments of tools run once, when the call may run."""

from dataclasses import replace
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, field_validator

from outlast import Agent, FunctionTool, ToolContext, function_tool
from outlast.testing import ScriptedModel, call
from tests.conformance.executors import Executor, also_on_server, row
from tests.conformance.views import outputs

READ: list[int] = []
"""The amounts that the validators got."""

PAID: list[int] = []


class Payment(BaseModel):
    amount: int

    @field_validator("amount")
    @classmethod
    def round_up(cls, amount: int) -> int:
        """Make a large amount of an odd one, and refuse a round one."""
        READ.append(amount)
        if amount == 100:
            raise ValueError("round amounts are suspicious")
        return amount * 1_000 if amount % 2 else amount


def pay(payment: Payment, note: Annotated[str, AfterValidator(str.strip)] = "") -> str:
    """Pay."""
    del note
    PAID.append(payment.amount)
    return f"Paid {payment.amount}."


@pytest.fixture(autouse=True)
def _nothing_paid() -> None:
    READ.clear()
    PAID.clear()


def paying(amount: int) -> ScriptedModel:
    return ScriptedModel([call("pay", "c1", payment={"amount": amount}, note="")], "Done.")


@row(2)
async def test_a_call_runs_its_validators_once(executor: Executor) -> None:
    agent = Agent[Any](name="Desk", tools=[function_tool(pay)])
    await executor.execute(agent, model=paying(8))
    assert (READ, PAID) == ([8], [8])


@also_on_server
@row(2)
async def test_validators_run_once_after_the_approval(executor: Executor) -> None:
    agent = Agent[Any](name="Desk", tools=[function_tool(pay, needs_approval=True)])
    result = await executor.execute(agent, model=paying(7))
    (item,) = result.interruptions
    assert (item.arguments, READ) == ('{"payment": {"amount": 7}, "note": ""}', [])
    state = result.to_state()
    state.approve(item)
    result = await executor.resume(agent, state)
    assert (READ, PAID) == ([7], [7_000])


@row(2)
async def test_a_validator_that_refuses_speaks_to_the_model(executor: Executor) -> None:
    agent = Agent[Any](name="Desk", tools=[function_tool(pay, needs_approval=True)])
    model = paying(100)
    result = await executor.execute(agent, model=model)
    state = result.to_state()
    state.approve(result.interruptions[0])
    await executor.resume(agent, state)
    assert "round amounts are suspicious" in outputs(model.requests[-1])["c1"]
    assert (READ, PAID) == ([100], [])


@row(2)
async def test_types_and_limits_are_checked_before_a_person_is_asked(executor: Executor) -> None:
    agent = Agent[Any](name="Desk", tools=[function_tool(pay, needs_approval=True)])
    model = ScriptedModel([call("pay", "c1", payment={"sum": 5})], "Well.")
    result = await executor.execute(agent, model=model)
    assert (result.interruptions, READ) == ([], [])
    assert "payment.amount is missing" in outputs(model.requests[-1])["c1"]


@row(2)
async def test_a_rule_never_lets_an_amount_pass_that_a_validator_makes(
    executor: Executor,
) -> None:
    judged: list[int] = []

    def is_large(_context: Any, arguments: dict[str, Any], _call_id: str) -> bool:
        judged.append(arguments["payment"]["amount"])
        return arguments["payment"]["amount"] > 500

    agent = Agent[Any](name="Desk", tools=[function_tool(pay, needs_approval=is_large)])
    result = await executor.execute(agent, model=paying(8))
    assert (result.interruptions, judged, READ, PAID) == ([], [8], [8], [8])

    result = await executor.execute(agent, model=paying(7))
    (item,) = result.interruptions
    assert (judged, READ, PAID) == ([8, 7], [8, 7], [8])  # the rule and the function would differ
    assert item.arguments == '{"payment": {"amount": 7}, "note": ""}'
    state = result.to_state()
    state.approve(item)
    await executor.resume(agent, state)
    assert (judged, READ, PAID) == ([8, 7], [8, 7, 7], [8, 7_000])


@row(2)
async def test_a_wrapped_tool_gets_what_was_read(executor: Executor) -> None:
    inner = function_tool(pay)

    async def invoke(context: ToolContext[Any], arguments: str) -> Any:
        return f"{await inner.on_invoke_tool(context, arguments)} Logged."

    tool: FunctionTool = replace(inner, on_invoke_tool=invoke)
    model = paying(8)
    await executor.execute(Agent[Any](name="Desk", tools=[tool]), model=model)
    assert (outputs(model.requests[-1]), READ) == ({"c1": "Paid 8. Logged."}, [8])
