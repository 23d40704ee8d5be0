"""Agents as tools, read along: what the nested agent says and does is shown while it happens.

The outer run is not streamed here. It may be; neither changes what the other is told.
"""

import asyncio

from outlast import Agent, AgentToolStreamEvent, Runner, function_tool


@function_tool
def invoices(customer: str) -> str:
    """List the open invoices of a customer."""
    return f"{customer}: R-7 over 42 EUR, due since Monday"


# Called in the worker, once for each event of the nested run. It is told again what is tried again,
# so show things here; whatever has to happen exactly once belongs into a tool.
async def show(told: AgentToolStreamEvent) -> None:
    """Print what the nested agent does, and its words as it says them."""
    event, call = told["event"], told["tool_call"]
    if event.type == "raw_response_event":
        if event.raw["type"] == "outlast.attempt_restarted":
            print("\n(once more)")
        elif event.raw["type"] == "response.output_text.delta":
            print(event.raw["delta"], end="", flush=True)
        elif event.raw["type"] == "response.output_text.done":
            print()
    elif event.type == "agent_updated_stream_event":
        print(f"[{event.new_agent.name} answers {call.name}({call.arguments})]")
    else:
        print(f"[{told['agent'].name}: {event.name}]")


accountant = Agent(
    name="Accountant",
    instructions="Look the invoices up, and say in one sentence what is open.",
    tools=[invoices],
)
clerk = Agent(
    name="Clerk",
    instructions="Answer the customer. Ask the accountant about money.",
    tools=[
        accountant.as_tool(
            tool_name="ask_accountant",
            tool_description="Ask what a customer still has to pay.",
            on_stream=show,
        )
    ],
)


async def main(question: str = "I am Ann. Do I owe you anything?") -> None:
    """Answer one question."""
    result = await Runner.run(clerk, question)
    print(f"reply: {result.final_output}")


if __name__ == "__main__":
    asyncio.run(main())
