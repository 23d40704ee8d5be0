"""Deterministic flow: the program decides what comes next, and a gate may end it early.

A complaint is sorted, checked, answered and proof-read: a chain of runs, each with one agent.
"""

import asyncio
import hashlib
from typing import Literal

from pydantic import BaseModel

from outlast import Agent, Runner


class Complaint(BaseModel):
    """What a complaint is about."""

    topic: Literal["delivery", "damage", "other"]
    has_order_number: bool


sorter = Agent(
    name="Sorter",
    instructions="Say what the complaint is about and whether it names an order.",
    output_type=Complaint,
)
writer = Agent(name="Writer", instructions="Write a reply of two sentences to the complaint.")
proofreader = Agent(name="Proofreader", instructions="Correct the text. Answer with it alone.")

LETTER = "The pot of order B-4 came with a dent. I would like another one."


async def main(letter: str = LETTER, case: str | None = None) -> None:
    """Take a complaint through the steps.

    Args:
        letter: what the customer wrote.
        case: the number of the case; default one that is made of the letter.
    """
    # Each step is a run under an id of its own. When this program dies between two steps and is
    # started again with the same case, the steps that are done answer at once and cost nothing.
    case = case or f"case-{hashlib.sha256(letter.encode()).hexdigest()[:8]}"
    sorted_out = await Runner.run(sorter, letter, id=f"{case}-sort")
    complaint = sorted_out.final_output_as(Complaint)
    print(f"sorted: {complaint.topic}")

    if not complaint.has_order_number:  # the gate
        print("stopped: please tell us your order number.")
        return

    draft = await Runner.run(writer, f"About {complaint.topic}: {letter}", id=f"{case}-write")
    reply = await Runner.run(proofreader, draft.final_output, id=f"{case}-proofread")
    print(f"reply: {reply.final_output}")


if __name__ == "__main__":
    asyncio.run(main())
