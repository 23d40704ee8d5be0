"""Human in the loop: a refund waits for a person, and the program that asked need not wait along.

The run itself waits, in Temporal, for minutes or weeks. What `to_state()` gives is its address.
"""

import asyncio
from collections.abc import Callable

from outlast import Agent, Runner, RunState, ToolApprovalItem, function_tool


async def is_large(_context: object, arguments: dict[str, float], _call_id: str) -> bool:
    """Say which refunds a person has to see."""
    return arguments["amount"] > 100


@function_tool(needs_approval=is_large)
def refund(order_id: str, amount: float) -> str:
    """Pay money back, in EUR."""
    return f"{amount:g} EUR for {order_id} are on their way."


@function_tool(needs_approval=True)
def close_account(customer_id: str) -> str:
    """Close a customer's account for good."""
    return f"The account {customer_id} is closed."


desk = Agent(
    name="Refund desk",
    instructions="Do what the customer asks for, and say what was done.",
    tools=[refund, close_account],
)

REQUEST = "Refund 20 EUR for A-17 and 389 EUR for A-42, and close my account cust-1001."


def decide_about(item: ToolApprovalItem) -> bool:
    """Stand in for the person: money yes, farewells no."""
    return item.name == "refund"


async def ask(request: str = REQUEST) -> str | None:
    """Ask the desk. Returns where the run is, when it waits; None when it has answered."""
    result = await Runner.run(desk, request)
    for item in result.interruptions:
        print(f"waits: {item.name} {item.arguments}")
    if result.interruptions:
        # The text says which run it is and what it asks. Keep it where people decide; it may be
        # read tomorrow, in another process on another machine. If it is lost, nothing else is.
        return result.to_state().to_string()
    print(f"answered: {result.final_output}")
    return None


async def decide(waiting: str, is_good: Callable[[ToolApprovalItem], bool] = decide_about) -> None:
    """Decide about what a run asks, and go on, as often as it asks."""
    state = await RunState.from_string(desk, waiting)
    while True:
        for item in state.get_interruptions():
            if is_good(item):
                state.approve(item)  # always_approve=True: and all further calls of this tool
            else:
                state.reject(item, rejection_message="Only in writing.")
        result = await Runner.run(desk, state)
        if not result.interruptions:
            print(f"answered: {result.final_output}")
            return
        state = result.to_state()


async def main(request: str = REQUEST) -> None:
    """Do both, as two programs would."""
    waiting = await ask(request)
    if waiting is not None:
        await decide(waiting)


if __name__ == "__main__":
    asyncio.run(main())
