"""Structured output: answers as objects, checked before anybody gets them."""

import asyncio
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, Field

from outlast import Agent, AgentOutputSchema, ModelBehaviorError, Runner


class Ticket(BaseModel):
    """A ticket of the support desk."""

    subject: str
    urgency: Literal["low", "high"]
    orders: list[str] = Field(default_factory=list)


@dataclass
class Mood:
    """How a customer feels, from -1 to 1."""

    value: float


class Anything(BaseModel):
    """Whatever was found: free keys are nothing for a strict schema."""

    facts: dict[str, str]


# A worker finds these types by the agent's name; what is kept in the run is plain JSON.
clerk = Agent(name="Ticket clerk", instructions="Make a ticket.", output_type=Ticket)
listener = Agent(name="Listener", instructions="Say how the customer feels.", output_type=Mood)
splitter = Agent(name="Splitter", instructions="List the questions.", output_type=list[str])
collector = Agent(
    name="Collector",
    instructions="Collect facts.",
    output_type=AgentOutputSchema(Anything, strict_json_schema=False),
)

LETTER = "Where are A-18 and A-20? I need the wok tomorrow! My phone is broken, so write to me."


async def main(letter: str = LETTER) -> None:
    """Read a letter in four ways."""
    ticket = (await Runner.run(clerk, letter)).final_output_as(Ticket)
    print(f"ticket: {ticket.subject} ({ticket.urgency}) {', '.join(ticket.orders)}")

    mood = (await Runner.run(listener, letter)).final_output_as(Mood)
    print(f"mood: {mood.value}")

    questions = (await Runner.run(splitter, letter)).final_output
    print(f"questions: {len(questions)}")

    try:
        collected = (await Runner.run(collector, letter)).final_output_as(Anything)
        print(f"facts: {', '.join(sorted(collected.facts))}")
    except ModelBehaviorError as error:  # the model's answer was no such object
        print(f"no facts: {type(error).__name__}")


if __name__ == "__main__":
    asyncio.run(main())
