"""Testing agents: the same loop and the same tools, without a server, a key or a second of waiting.

A `ScriptedModel` says what you write down; what you test is what your own code makes of it.
"""

import asyncio

from outlast import Agent, ApprovalRequest, ToolContext, function_tool
from outlast.testing import ScriptedModel, call, run_in_memory

PAID: list[str] = []


@function_tool(needs_approval=True)
def pay_back(context: ToolContext, order_id: str, amount: float) -> str:
    """Pay money back."""
    PAID.append(f"{order_id} {amount:g} {context.idempotency_key}")
    return f"paid {amount:g}"


payments = Agent(name="Payments", instructions="Pay refunds.", tools=[pay_back])
desk = Agent(name="Front office", instructions="Find out who can help.", handoffs=[payments])


def script() -> ScriptedModel:
    """Write down what the models say: a handoff, two calls in one reply, an answer."""
    return ScriptedModel(
        [call("transfer_to_payments", "c1")],
        [
            call("pay_back", "c2", order_id="A-17", amount=20),
            call("pay_back", "c3", order_id="A-42", amount=389),
        ],
        "One of the two is paid.",
    )


def decide(request: ApprovalRequest) -> bool | str:
    """Play the person: true approves, a text rejects and tells the model why."""
    return True if '"A-17"' in request.arguments else "Too much."


async def test_only_what_was_approved_is_paid() -> None:
    """What a test of yours looks like; pytest would find it by its name."""
    PAID.clear()
    model = script()
    result = await run_in_memory(desk, "20 for A-17 and 389 for A-42!", model=model, decide=decide)

    assert result.last_agent is payments  # noqa: S101  it is a test
    assert PAID == ["A-17 20 in-memory:c2"]  # noqa: S101
    read = {one["call_id"]: one["output"] for one in model.requests[-1].input if "output" in one}
    assert read["c3"] == "Too much."  # noqa: S101
    print(f"answered: {result.final_output}, paid: {len(PAID)}, model calls: {model.calls}")


async def main() -> None:
    """Run the test, and look at a run that waits."""
    await test_only_what_was_approved_is_paid()

    # Without anybody who decides, the run returns where it waits, as Runner.run does.
    waiting = await run_in_memory(desk, "The same, please.", model=script())
    print(f"waits for: {[one.name for one in waiting.interruptions]}")


if __name__ == "__main__":
    asyncio.run(main())
