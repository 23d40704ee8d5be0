"""Error handlers: an answer in place of an error, and what an error tells when it is raised."""

import asyncio
from typing import Any

from outlast import (
    Agent,
    MaxTurnsExceeded,
    RunErrorHandlerInput,
    RunErrorHandlerResult,
    Runner,
    function_tool,
)


@function_tool
def ask_warehouse(article: str) -> str:
    """Ask the warehouse about an article."""
    return f"We are still looking for {article}."


desk = Agent(
    name="Search desk", instructions="Find what the customer wants.", tools=[ask_warehouse]
)


def too_many_turns(failed: RunErrorHandlerInput[Any]) -> RunErrorHandlerResult:
    """Answer when the turns are used up. It runs in an activity, as tools do."""
    asked = [item for item in failed.run_data.new_items if item.type == "tool_call_item"]
    return RunErrorHandlerResult(
        final_output=f"We asked {len(asked)} times. A colleague will write to you.",
        include_in_history=False,  # the answer is for the customer; the next run need not read it
    )


def refused(failed: RunErrorHandlerInput[Any]) -> str:
    """Answer when the model refuses; a bare answer will do."""
    return f"We cannot help with that ({type(failed.error).__name__})."


async def main() -> None:
    """Fail with handlers and without."""
    result = await Runner.run(
        desk, "A blue wok, please.", max_turns=2, error_handlers={"max_turns": too_many_turns}
    )
    print(f"answered: {result.final_output}")

    result = await Runner.run(
        desk, "Insult my neighbor.", error_handlers={"model_refusal": refused}
    )
    print(f"answered: {result.final_output}")

    try:
        await Runner.run(desk, "A green wok, please.", max_turns=1)
    except MaxTurnsExceeded as error:
        # The run up to its failure comes with the error, read from its history.
        print(f"failed: {type(error).__name__} after {len(error.run_data.new_items)} items")


if __name__ == "__main__":
    asyncio.run(main())
