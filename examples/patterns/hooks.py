"""Hooks: code that is called when a run, or one of its agents, reaches a step."""

import asyncio
from dataclasses import dataclass
from typing import Any

from outlast import (
    Agent,
    AgentHookContext,
    AgentHooks,
    FunctionTool,
    RunContextWrapper,
    RunHooks,
    Runner,
    function_tool,
)


@dataclass
class Meter:
    """What the hooks count, in the run's context."""

    steps: int = 0


class Journal(RunHooks[Meter]):
    """Writes down the steps of a run.

    Hooks run in activities, at least once for each step, wherever the worker is. So they count in
    the context, which is kept with the run, and not in an attribute, which dies with the worker.
    """

    def _write(self, context: RunContextWrapper[Meter], text: str) -> None:
        context.context.steps += 1
        print(f"{context.context.steps}. {text}")

    async def on_agent_start(self, context: AgentHookContext[Meter], agent: Any) -> None:
        self._write(context, f"{agent.name} starts")

    async def on_llm_end(
        self, context: RunContextWrapper[Meter], agent: Any, response: Any
    ) -> None:
        self._write(context, f"{agent.name}'s model has used {response.usage.total_tokens} tokens")

    async def on_tool_end(
        self, context: RunContextWrapper[Meter], agent: Any, tool: FunctionTool, result: Any
    ) -> None:
        del agent
        self._write(context, f"{tool.name}: {result}")

    async def on_handoff(
        self, context: RunContextWrapper[Meter], from_agent: Any, to_agent: Any
    ) -> None:
        self._write(context, f"{from_agent.name} hands over to {to_agent.name}")

    async def on_agent_end(self, context: AgentHookContext[Meter], agent: Any, output: Any) -> None:
        self._write(context, f"{agent.name} ends: {output}")


class Greeter(AgentHooks[Meter]):
    """Hooks of one agent, whatever run it takes part in."""

    async def on_start(self, context: AgentHookContext[Meter], agent: Any) -> None:
        del context
        print(f"({agent.name} is at the counter)")


@function_tool
def spare_parts(appliance: str) -> str:
    """Say which spare parts there are."""
    return f"a lid for the {appliance}"


workshop = Agent(name="Workshop", tools=[spare_parts], hooks=Greeter())
desk = Agent(name="Reception desk", handoffs=[workshop])


async def main(question: str = "Is there a lid for my kettle?") -> None:
    """Run with hooks."""
    result = await Runner.run(desk, question, hooks=Journal(), context=Meter())
    print(f"steps in all: {result.context_wrapper.context.steps}")


if __name__ == "__main__":
    asyncio.run(main())
