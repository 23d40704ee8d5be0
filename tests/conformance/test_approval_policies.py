"""Policies of tools, handoffs and answers: row 36 of the table."""

from typing import Any

import pytest

from outlast import Agent, ApprovalPolicy, function_tool, handoff
from outlast.testing import ScriptedModel, call
from tests.conformance.executors import Executor, row


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
