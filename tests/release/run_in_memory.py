"""Runs an agent with a tool, in memory; for an environment in which only outlast is installed."""

import asyncio
from importlib.resources import files

from outlast import Agent, function_tool
from outlast.testing import ScriptedModel, call, run_in_memory


@function_tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def main() -> None:
    """Run the agent."""
    model = ScriptedModel([call("add", "c1", a=2, b=3)], "It is 5.")
    agent = Agent(name="Adder", tools=[add], model=model)
    result = await run_in_memory(agent, "What is 2 and 3?", model=model)
    assert result.final_output == "It is 5.", result
    outputs = [item.output for item in result.new_items if item.type == "tool_call_output_item"]
    assert outputs == ["5"], outputs
    assert files("outlast").joinpath("py.typed").is_file()


if __name__ == "__main__":
    asyncio.run(main())
