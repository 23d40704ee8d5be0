"""Human in the loop: a refund waits for a person, and the program that asked need not wait along.

The run itself waits, in Temporal, for minutes or weeks. What `to_state()` gives is its address.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from tempfile import gettempdir

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

NOTE = Path(gettempdir()) / "outlast-waiting-run.json"
REQUEST = "Refund 20 EUR for A-17 and 389 EUR for A-42, and close my account cust-1001."


def decide_about(item: ToolApprovalItem) -> bool:
    """Stand in for the person: money yes, farewells no."""
    return item.name == "refund"


async def ask(request: str = REQUEST, note: Path = NOTE) -> bool:
    """Ask the desk, and note where the run is when it waits. Returns whether it does."""
    result = await Runner.run(desk, request)
    if not result.interruptions:
        print(f"answered: {result.final_output}")
        return False
    for item in result.interruptions:
        print(f"waits: {item.name} {item.arguments}")
    # The text holds no conversation, only where the run is and what it asks. It may be read
    # tomorrow, by another process on another machine, or by nobody: the run is in no danger.
    note.write_text(result.to_state().to_string(), encoding="utf-8")
    return True


async def decide(
    note: Path = NOTE, is_good: Callable[[ToolApprovalItem], bool] = decide_about
) -> None:
    """Read the note, decide, and go on, as often as the run asks."""
    state = await RunState.from_string(desk, note.read_text(encoding="utf-8"))
    waiting = state.get_interruptions()
    while True:
        for item in waiting:
            if is_good(item):
                state.approve(item)  # always_approve=True: and all further calls of this tool
            else:
                state.reject(item, rejection_message="Only in writing.")
        result = await Runner.run(desk, state)
        waiting = result.interruptions
        if not waiting:
            break
        state = result.to_state()
    print(f"answered: {result.final_output}")


async def main(note: Path = NOTE) -> None:
    """Do both, as two programs would."""
    if await ask(note=note):
        await decide(note)


if __name__ == "__main__":
    asyncio.run(main())
