"""Dynamic instructions: what an agent is told depends on the context, anew before each model call.

The context belongs to your code; the model sees of it only what you write into words.
"""

import asyncio
from dataclasses import dataclass, field

from outlast import Agent, RunContextWrapper, Runner, function_tool


@dataclass
class Customer:
    """Whom the desk talks to. It travels with the run as JSON, so it holds data and no objects."""

    name: str
    is_premium: bool = False
    notes: list[str] = field(default_factory=list[str])


async def instructions(context: RunContextWrapper[Customer], agent: Agent[Customer]) -> str:
    """Write the instructions. It runs in an activity, so it may ask a database too."""
    customer = context.context
    tone = "Be generous." if customer.is_premium else "Be friendly."
    known = f" You have noted: {'; '.join(customer.notes)}." if customer.notes else ""
    return f"You are the {agent.name} and talk to {customer.name}. {tone}{known}"


@function_tool
def note(context: RunContextWrapper[Customer], text: str) -> str:
    """Note something about the customer."""
    # The tool has a copy; what it changes is merged into the run's context and kept.
    context.context.notes.append(text)
    return "noted"


concierge = Agent[Customer](name="Concierge", instructions=instructions, tools=[note])


async def main(customer: Customer | None = None) -> None:
    """Ask with a context."""
    customer = customer or Customer(name="Mara", is_premium=True)
    result = await Runner.run(
        concierge, "I am allergic to nickel. What can I cook in?", context=customer
    )
    print(f"answered: {result.final_output}")
    # The run has a copy of its own, perhaps on another machine. With the result, the object here is
    # brought up to it; whoever has only the run's id finds the same in the result.
    print(f"here: {customer.notes}")
    print(f"in the run: {result.context_wrapper.context.notes}")


if __name__ == "__main__":
    asyncio.run(main())
