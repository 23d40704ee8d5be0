"""Agents as tools: one agent answers the customer and asks two specialists on the way.

Unlike with a handoff, the conversation stays where it is: a specialist sees only what it is asked.
"""

import asyncio

from outlast import Agent, ItemHelpers, MessageOutputItem, RunConfig, Runner, RunResult


async def last_words(result: RunResult) -> str:
    """Make the tool's output of the nested run's result; without this, its final output is."""
    texts = [
        ItemHelpers.text_message_output(item)
        for item in result.new_items
        if isinstance(item, MessageOutputItem)
    ]
    return f"Our policy says: {texts[-1]}"


policy_expert = Agent(
    name="Policy expert",
    instructions="Say in one sentence what the shop's terms say about the question.",
)
translator = Agent(
    name="Translator",
    instructions="Translate the text into German. Answer with the translation alone.",
)
# Each call of such a tool is a run of its own below this one: a child workflow, which survives the
# worker by itself and which the Temporal UI shows. Its tokens are counted here.
clerk = Agent(
    name="Clerk",
    instructions="Ask for the policy, write a short reply, and have it translated if need be.",
    tools=[
        policy_expert.as_tool(
            tool_name="ask_policy",
            tool_description="Ask what the terms of the shop say.",
            custom_output_extractor=last_words,
        ),
        translator.as_tool(
            tool_name="translate",
            tool_description="Translate a text into German.",
            run_config=RunConfig(workflow_name="Translation"),
            max_turns=2,
        ),
    ],
)


async def main(letter: str = "Kann ich die Pfanne nach 20 Tagen zurückgeben?") -> None:
    """Answer a letter."""
    result = await Runner.run(clerk, letter)
    for item in result.new_items:
        if item.type == "tool_call_item":
            print(f"asked: {item.tool_name}")
        elif item.type == "tool_call_output_item":
            print(f"heard: {item.output}")
    print(f"reply: {result.final_output}")
    print(f"model calls, nested ones too: {result.usage.requests}")


if __name__ == "__main__":
    asyncio.run(main())
