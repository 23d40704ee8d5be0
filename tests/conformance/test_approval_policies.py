"""Policies of tools, handoffs and answers: row 36 of the table."""

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from outlast import Agent, ApprovalPolicy, function_tool, handoff
from outlast.testing import ScriptedModel, call
from outlast.views.headlines import headline_line, headline_parts
from tests.conformance.executors import Executor, row


class Payee(BaseModel):
    """Who is paid."""

    name: str


@pytest.mark.smoke
@row(36)
async def test_a_tool_a_handoff_and_an_answer_wait_under_their_policies(
    executor: Executor,
) -> None:
    paid: list[int] = []

    def is_large(_context: object, arguments: dict[str, Any], _call_id: str) -> bool:
        return arguments["amount"] > 100

    @function_tool(needs_approval=ApprovalPolicy(when=is_large, redact=["iban"]))
    def refund(amount: int, iban: str) -> str:
        """Refund."""
        paid.append(amount)
        return iban

    billing = Agent[Any](name="Billing", tools=[refund], output_approval=ApprovalPolicy())
    desk = Agent[Any](name="Desk", handoffs=[handoff(billing, needs_approval=ApprovalPolicy())])
    model = ScriptedModel(
        [call("transfer_to_billing", "h1")],
        [
            call("refund", "c1", amount=5, iban="DE1"),
            call("refund", "c2", amount=500, iban="DE2"),
        ],
        "Done.",
    )
    waited: list[tuple[str | None, str | None]] = []
    result = await executor.execute(desk, model=model)
    while result.interruptions:
        (item,) = result.interruptions
        waited.append((item.tool_name, item.arguments))
        state = result.to_state()
        state.approve(item)
        result = await executor.resume(desk, state)
    assert waited == [
        ("transfer_to_billing", "{}"),
        ("refund", '{"amount": 500, "iban": "[redacted]"}'),
        ("answer", '{"answer": "Done."}'),
    ]
    assert sorted(paid) == [5, 500]
    assert result.final_output == "Done."
    assert [item["output"] for item in model.requests[-1].input if "output" in item][-1] == "DE2"


@row(36)
async def test_a_request_keeps_the_words_of_its_own_policy(executor: Executor) -> None:
    redacted = ApprovalPolicy(headline="Pay {amount} to {payee.name}", redact=["payee"])

    @function_tool(title="Payment", needs_approval=redacted)
    def pay(amount: Annotated[int, Field(title="Amount in EUR")], payee: Payee) -> str:
        """Pay."""
        return f"{amount} {payee}"

    @function_tool(needs_approval=ApprovalPolicy(headline="Refund {amount} of {order}"))
    def refund(amount: int, order: str) -> str:
        """Refund."""
        return f"{amount} {order}"

    desk = Agent[Any](name="Desk", tools=[pay, refund])
    model = ScriptedModel(
        [
            call("pay", "c1", amount=5, payee={"name": "Ann"}),
            call("refund", "c2", amount=7, order="A-1” of “A-2"),
        ],
        "Done.",
    )
    result = await executor.execute(desk, model=model)
    first, second = (item.request for item in result.interruptions)
    assert (first.terms.title, first.terms.labels) == ("Payment", {"amount": "Amount in EUR"})
    assert (second.terms.title, second.terms.labels) == ("", None)
    # A hidden argument has no fields any more, so the headline that needs one is not used.
    assert [part.text for part in headline_parts(first)] == ["Payment"]
    assert headline_line(second) == "Refund 7 of “A-1' of 'A-2”"
    state = result.to_state()
    for item in result.interruptions:
        state.approve(item)
    assert (await executor.resume(desk, state)).final_output == "Done."
