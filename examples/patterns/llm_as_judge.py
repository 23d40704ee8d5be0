"""LLM as a judge: one agent writes, another judges, until it is good enough or enough was tried."""

import asyncio
from typing import Literal

from pydantic import BaseModel

from outlast import Agent, ItemHelpers, Runner, trace

ROUNDS = 3
"""How often the writer may try: a loop of models needs an end that no model decides."""


class Verdict(BaseModel):
    """What the judge thinks of an apology."""

    score: Literal["pass", "improve", "fail"]
    advice: str


writer = Agent(
    name="Apologist",
    instructions="Write an apology of two sentences to the customer. Follow the advice you get.",
)
judge = Agent(
    name="Judge",
    instructions=(
        "Judge whether the apology names what went wrong and what the shop does about it. Never "
        "let the first one pass."
    ),
    output_type=Verdict,
)


async def main(incident: str = "Order A-42 arrived ten days late.") -> None:
    """Write until the judge is content."""
    conversation = ItemHelpers.input_to_new_input_list(incident)
    apology = ""
    with trace("Apology"):  # the runs of all rounds are one trace
        for number in range(1, ROUNDS + 1):
            written = await Runner.run(writer, conversation)
            conversation = written.to_input_list()
            apology = ItemHelpers.text_message_outputs(written.new_items)
            judged = await Runner.run(judge, conversation)
            verdict = judged.final_output_as(Verdict)
            print(f"round {number}: {verdict.score}")
            if verdict.score == "pass":
                break
            conversation.append({"role": "user", "content": f"Advice: {verdict.advice}"})
    print(f"apology: {apology}")


if __name__ == "__main__":
    asyncio.run(main())
