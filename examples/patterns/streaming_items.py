"""Streaming items: not words but steps, for a page that shows what the desk is doing."""

import asyncio

from outlast import Agent, ItemHelpers, Runner, function_tool


@function_tool
def find_customer(name: str) -> str:
    """Find a customer's number by the name."""
    return {"Mara Lindholm": "cust-1001"}.get(name, "unknown")


@function_tool
def open_orders(customer_id: str) -> list[str]:
    """List the orders of a customer that are not delivered yet."""
    return ["A-18", "A-20"] if customer_id == "cust-1001" else []


clerk = Agent(name="Order clerk", instructions="Say which orders are open.", tools=[open_orders])
desk = Agent(
    name="Customer desk",
    instructions="Find the customer's number, then hand over to the order clerk.",
    tools=[find_customer],
    handoffs=[clerk],
)


async def main(question: str = "I am Mara Lindholm. What am I waiting for?") -> None:
    """Print each step when it is done."""
    result = Runner.run_streamed(desk, question)
    async for event in result.stream_events():
        if event.type == "agent_updated_stream_event":
            print(f"-- {event.new_agent.name}")
        elif event.type == "run_item_stream_event":
            item = event.item
            if item.type == "tool_call_item":
                print(f"calls {item.tool_name}")
            elif item.type == "tool_call_output_item":
                print(f"gets {item.output}")
            elif item.type == "handoff_output_item":
                print(f"{item.source_agent.name} hands over to {item.target_agent.name}")
            elif item.type == "message_output_item":
                print(f"says {ItemHelpers.text_message_output(item)}")
    # The steps are the history of the run. Whoever missed them reads them again later, in another
    # process too, and from any number on: (await Runner.attach(result.run_id)).stream_events(7).


if __name__ == "__main__":
    asyncio.run(main())
