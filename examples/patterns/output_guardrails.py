"""Output guardrails: what an agent answers is checked before anybody gets it."""

import asyncio
import re
from typing import Any

from pydantic import BaseModel, Field

from outlast import (
    Agent,
    GuardrailFunctionOutput,
    OutputGuardrailTripwireTriggered,
    RunContextWrapper,
    Runner,
    output_guardrail,
)


class Reply(BaseModel):
    """An answer, and what led to it."""

    thoughts: str = Field(description="What you considered.")
    text: str = Field(description="What the customer reads.")


@output_guardrail
async def no_phone_numbers(
    _context: RunContextWrapper[Any], _agent: Agent[Any], reply: Reply
) -> GuardrailFunctionOutput:
    """Stop an answer that gives away a phone number. It gets the answer as its type."""
    found = {
        part: re.findall(r"\+?\d[\d /-]{6,}\d", text)
        for part, text in (("thoughts", reply.thoughts), ("text", reply.text))
    }
    # What it found is kept with the run, also when the run ends here.
    return GuardrailFunctionOutput(output_info=found, tripwire_triggered=bool(found["text"]))


desk = Agent(
    name="Desk",
    instructions="Answer questions about our shops.",
    output_type=Reply,
    output_guardrails=[no_phone_numbers],
)

QUESTIONS = ("When do you open on Saturdays?", "How can I call the manager at home?")


async def main(questions: tuple[str, ...] = QUESTIONS) -> None:
    """Ask questions, one of which should not be answered."""
    for question in questions:
        try:
            result = await Runner.run(desk, question)
            print(f"answered: {result.final_output_as(Reply).text}")
        except OutputGuardrailTripwireTriggered as error:
            print(f"withheld, because of {error.guardrail_result.output.output_info['text']}")


if __name__ == "__main__":
    asyncio.run(main())
