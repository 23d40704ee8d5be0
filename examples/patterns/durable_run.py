"""Durable runs: the same id is the same run, in any process; and a run may stay open for days.

Kill this program whenever you like and start it again: it goes on where it was.
"""

import asyncio

from outlast import Agent, Runner, ToolContext, function_tool


@function_tool
def book_repair(context: ToolContext, article: str) -> str:
    """Book a repair."""
    # A worker may die between doing this and saying so; then the call is made again. The key is
    # the same on every attempt of one call: give it to whatever does the booking.
    return f"The {article} is booked as {context.idempotency_key.rpartition(':')[2]}."


desk = Agent(name="Repair desk", instructions="Book repairs.", tools=[book_repair])


async def ask_once(run_id: str) -> None:
    """Ask a question under an id."""
    result = await Runner.run(desk, "My mixer is broken.", id=run_id)
    print(f"{result.run_id}: {result.final_output} ({result.turns} model calls)")


async def converse(run_id: str) -> None:
    """Keep a run open, and talk to it as long as there is something to say."""
    handle = await Runner.start(desk, "My kettle is broken.", id=run_id, keep_open=True)
    first = await handle.wait_for_people()
    print(f"first answer: {first.final_output}")

    # Any process that knows the id goes on with it: here it is as if we had forgotten the handle.
    handle = await Runner.attach(run_id, agent=desk)
    sent = await handle.send("When will it be done?", message_id="question-2")
    print(f"second answer: {(await sent.answer()).final_output}")

    state = await handle.state()
    print(f"it is {state.status}, after {state.turns} model calls")
    if state.status == "idle":
        await handle.cancel(mode="after_turn")  # nothing is under way: closes the conversation
    print(f"in the end {(await handle.result()).status}")


async def main(run_id: str = "repair-42") -> None:
    """Run twice under one id, then converse under another."""
    await ask_once(run_id)
    await ask_once(run_id)  # no model call: the run has its answer already
    await converse(f"{run_id}-conversation")


if __name__ == "__main__":
    asyncio.run(main())
