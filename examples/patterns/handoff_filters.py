"""Handoff filters: what the next agent reads of the conversation so far.

A filter changes what a model is shown, never what happened: the run keeps its whole transcript,
and a handoff writes only the difference into the history.
"""

import asyncio

from outlast import (
    Agent,
    HandoffInputData,
    RunConfig,
    RunItem,
    Runner,
    function_tool,
    handoff,
)
from outlast.extensions import handoff_filters


@function_tool
def check_identity(name: str) -> str:
    """Check who somebody is."""
    return f"{name}: identity confirmed, passport 7731."


def only_the_newest(data: HandoffInputData) -> HandoffInputData:
    """Show the next agent no tools, and of the conversation only what was said last."""
    data = handoff_filters.remove_all_tools(data)
    history = data.input_history
    if isinstance(history, tuple):
        history = history[-1:]
    return data.clone(input_history=history, pre_handoff_items=())


doctor = Agent(name="Repairs", instructions="Give advice on broken appliances.")
lawyer = Agent(name="Warranty", instructions="Say what the warranty covers.")
archivist = Agent(name="Archive", instructions="Say what happened so far.")

desk = Agent(
    name="Reception",
    instructions="Check who it is, then hand over to whom the customer needs.",
    tools=[check_identity],
    handoffs=[
        handoff(doctor, input_filter=handoff_filters.remove_all_tools),
        handoff(lawyer, input_filter=only_the_newest),
        handoff(archivist, nest_handoff_history=True),  # all of it, told in one message
    ],
)

WISHES = (
    "My kettle is broken.",
    "Is my mixer under warranty?",
    "What have you noted about me?",
)


def steps(items: list[RunItem]) -> str:
    """Say what a run consists of."""
    return ", ".join(item.type for item in items)


async def main(wishes: tuple[str, ...] = WISHES) -> None:
    """Meet each of the three filters."""
    for wish in wishes:
        conversation = [
            {"role": "user", "content": "Hello, Mara Lindholm here."},
            {"role": "assistant", "content": "Hello! What can we do for you?"},
            {"role": "user", "content": wish},
        ]
        # The same for all handoffs of a run that have no filter of their own: RunConfig(
        # handoff_input_filter=...) and RunConfig(nest_handoff_history=True).
        config = RunConfig(conversation_history_wrappers=("<so far>", "</so far>"))
        result = await Runner.run(desk, conversation, run_config=config)
        print(f"{result.last_agent.name}: {result.final_output}")
        print(f"  the run: {steps(result.new_items)}")


if __name__ == "__main__":
    asyncio.run(main())
