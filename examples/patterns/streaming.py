"""Streaming: the answer is printed as the model says it, and everything else between."""

import asyncio

from outlast import Agent, Runner, function_tool


@function_tool
def opening_hours(day: str) -> str:
    """Say when the shop is open on a day."""
    return "closed" if day == "Sunday" else "9 to 18 o'clock"


desk = Agent(
    name="Information", instructions="Answer questions about the shop.", tools=[opening_hours]
)


async def main(question: str = "Are you open on Sunday?") -> None:
    """Read one run along, word by word."""
    result = Runner.run_streamed(desk, question)
    async for event in result.stream_events():
        if event.type == "raw_response_event":
            # `event.data` is the provider's event as the openai package has it, `event.raw` its
            # JSON. When a worker dies in mid-answer, another one asks the model again: then comes
            # this event, and the words of the reply so far are void.
            if event.raw["type"] == "outlast.attempt_restarted":
                print("\n(once more)")
            elif event.data.type == "response.output_text.delta":
                print(event.data.delta, end="", flush=True)
        elif event.type == "agent_updated_stream_event":
            print(f"[{event.new_agent.name} listens]")
        elif event.type == "run_item_stream_event":
            if event.item.type == "tool_call_item":
                print(f"[calls {event.item.tool_name}]")
            elif event.item.type == "tool_call_output_item":
                print(f"[hears: {event.item.output}]")
    print()
    print(f"complete: {result.is_complete}, model calls: {result.usage.requests}")


if __name__ == "__main__":
    asyncio.run(main())
