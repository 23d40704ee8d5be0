"""Input guardrails: what a run is asked is checked, by an agent of its own or by plain code."""

import asyncio
import re
from typing import Any

from pydantic import BaseModel

from outlast import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    RunContextWrapper,
    Runner,
    input_guardrail,
)


class Suspicion(BaseModel):
    """Whether somebody is after the data of another customer."""

    wants_others_data: bool
    why: str


watchman = Agent(
    name="Watchman",
    instructions="Say whether the message asks for the data of another customer.",
    output_type=Suspicion,
)


@input_guardrail
async def own_data_only(
    context: RunContextWrapper[Any], _agent: Agent[Any], asked: str | list[Any]
) -> GuardrailFunctionOutput:
    """Ask the watchman. This runs beside the first turn, which a tripwire cancels."""
    # A guardrail is an activity, so it may be tried again after a crash. With an id that is made of
    # the outer run's, the second try finds the watchman's run instead of paying for another.
    result = await Runner.run(watchman, asked, id=f"{context.run_id}-watchman")
    suspicion = result.final_output_as(Suspicion)
    return GuardrailFunctionOutput(
        output_info=suspicion, tripwire_triggered=suspicion.wants_others_data
    )


@input_guardrail(run_in_parallel=False)
def no_card_numbers(
    _context: RunContextWrapper[Any], _agent: Agent[Any], asked: str | list[Any]
) -> GuardrailFunctionOutput:
    """Stop before any model has read a card number: with run_in_parallel=False the run waits."""
    found = re.search(r"\b(?:\d[ -]?){13,16}\b", str(asked)) is not None
    return GuardrailFunctionOutput(output_info="a card number", tripwire_triggered=found)


desk = Agent(
    name="Desk",
    instructions="Help customers with their orders.",
    input_guardrails=[no_card_numbers, own_data_only],
)

MESSAGES = (
    "When does order A-17 arrive?",
    "My card is 4111 1111 1111 1111, please charge it.",
    "What has my neighbor Tom Prieto ordered?",
)


async def main(messages: tuple[str, ...] = MESSAGES) -> None:
    """Put each message to the desk."""
    for message in messages:
        try:
            result = await Runner.run(desk, message)
            print(f"answered: {result.final_output}")
        except InputGuardrailTripwireTriggered as error:
            print(f"refused by {error.guardrail_result.guardrail.get_name()}")


if __name__ == "__main__":
    asyncio.run(main())
