"""Routing: the front desk finds out what a customer needs and hands the conversation over.

Whoever takes the conversation keeps it: the next message goes to `result.last_agent`.
"""

import asyncio

from outlast import Agent, Runner, TResponseInputItem, function_tool
from outlast.extensions.handoff_prompt import prompt_with_handoff_instructions


@function_tool
def track_parcel(order_id: str) -> str:
    """Say where a parcel is.

    Args:
        order_id: The order, such as A-17.
    """
    return f"The parcel of {order_id} left the depot in Leipzig this morning."


shipping = Agent(
    name="Shipping",
    handoff_description="Knows where parcels are and when they arrive.",
    instructions=prompt_with_handoff_instructions("Answer questions about deliveries."),
    tools=[track_parcel],
)
billing = Agent(
    name="Billing",
    handoff_description="Explains invoices and payments.",
    instructions=prompt_with_handoff_instructions("Answer questions about invoices."),
)
front_desk = Agent(
    name="Front desk",
    instructions=prompt_with_handoff_instructions("Find out who can help, and hand over."),
    handoffs=[shipping, billing],
)
# Handoffs may go in circles: each of the two can pass on what is not theirs.
shipping.handoffs = [billing]
billing.handoffs = [shipping]

QUESTIONS = ("Where is my order A-17?", "And why was I charged twice?")


async def main(questions: tuple[str, ...] = QUESTIONS) -> None:
    """Ask one question after the other in one conversation."""
    agent = front_desk
    conversation: list[TResponseInputItem] = []
    for question in questions:
        conversation = [*conversation, {"role": "user", "content": question}]
        result = await Runner.run(agent, conversation)
        agent = result.last_agent
        conversation = result.to_input_list()
        print(f"Customer: {question}")
        print(f"{agent.name}: {result.final_output}")


if __name__ == "__main__":
    asyncio.run(main())
