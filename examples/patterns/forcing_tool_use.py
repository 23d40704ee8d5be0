"""Forcing tool use: `tool_choice` makes the model call a tool; `tool_use_behavior` says what then.

The four forms: let the model go on, stop with the first result, stop at certain tools, decide by
a function of one's own.
"""

import asyncio
from typing import Any

from outlast import (
    Agent,
    FunctionToolResult,
    ModelSettings,
    RunContextWrapper,
    Runner,
    StopAtTools,
    ToolsToFinalOutputResult,
    function_tool,
)


@function_tool
def stock_of(article: str) -> int:
    """Say how many pieces of an article are in stock."""
    return {"kettle": 3, "wok": 0}.get(article, 0)


@function_tool
def reserve(article: str) -> str:
    """Put one piece of an article aside for the customer."""
    return f"One {article} is reserved until Friday."


def sold_out_ends_it(
    _context: RunContextWrapper[Any], results: list[FunctionToolResult]
) -> ToolsToFinalOutputResult:
    """End the run when something is sold out; else let the model read the results.

    Like all code of yours it runs in an activity, its verdict is kept, and it is not asked again.
    """
    if any(result.output == 0 for result in results):
        return ToolsToFinalOutputResult(is_final_output=True, final_output="Sold out.")
    return ToolsToFinalOutputResult(is_final_output=False)


go_on = Agent(
    name="Go on",
    instructions="Help customers to get what they want from our stock.",
    tools=[stock_of, reserve],
    # "required" is any tool, "auto" is as the model likes, and "stock_of" would be this one tool.
    # It holds for the first call; afterwards the model is free, or it would call tools for ever.
    # Agent(reset_tool_choice=False) keeps it, for behaviors that stop by themselves.
    model_settings=ModelSettings(tool_choice="required"),
    tool_use_behavior="run_llm_again",  # the default
)
first_result = go_on.clone(name="First result", tool_use_behavior="stop_on_first_tool")
until_reserved = go_on.clone(
    name="Until reserved", tool_use_behavior=StopAtTools(stop_at_tool_names=["reserve"])
)
own_rule = go_on.clone(name="Own rule", tool_use_behavior=sold_out_ends_it)


async def main(question: str = "I would like a wok.") -> None:
    """Ask each of the four the same."""
    for agent in (go_on, first_result, until_reserved, own_rule):
        result = await Runner.run(agent, question)
        print(f"{agent.name}: {result.final_output}")


if __name__ == "__main__":
    asyncio.run(main())
