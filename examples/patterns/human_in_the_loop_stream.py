"""Human in the loop, read along: the events end where a person is needed, and go on afterwards."""

import asyncio
from collections.abc import Callable

from outlast import Agent, Runner, RunResultStreaming, ToolApprovalItem, function_tool


@function_tool(needs_approval=True)
def change_address(order_id: str, address: str) -> str:
    """Send an order to another address."""
    return f"{order_id} goes to {address}."


desk = Agent(
    name="Address desk",
    instructions="Change delivery addresses, and confirm what was changed.",
    tools=[change_address],
)


async def read_along(result: RunResultStreaming) -> None:
    """Print what happens until the run has ended or waits for a person."""
    async for event in result.stream_events():
        if event.type == "run_item_stream_event":
            print(f"event: {event.name}")


def ask_on_the_terminal(item: ToolApprovalItem) -> bool:
    """Ask whoever sits there."""
    return input(f"{item.name} {item.arguments}: approve? [y/n] ").strip().lower() == "y"


async def main(
    request: str = "Please send A-18 to Neue Gasse 5, 01067 Dresden.",
    is_good: Callable[[ToolApprovalItem], bool] = ask_on_the_terminal,
) -> None:
    """Read along, decide, read along."""
    result = Runner.run_streamed(desk, request)
    await read_along(result)
    while result.interruptions:
        # The run waits on the server. Whoever attaches to it may decide as well: another program,
        # the Temporal UI, `outlast approve`. The first decision counts, and a later one is refused.
        state = result.to_state()
        for item in result.interruptions:
            # In a thread of its own, because waiting for a person must not stop the event loop.
            if await asyncio.to_thread(is_good, item):
                state.approve(item)
            else:
                state.reject(item)
        result = Runner.run_streamed(desk, state)
        await read_along(result)
    print(f"answered: {result.final_output}")


if __name__ == "__main__":
    asyncio.run(main())
