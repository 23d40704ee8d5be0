"""Parallelization: several drafts at the same time, and an agent that picks the best of them."""

import asyncio

from outlast import Agent, ItemHelpers, Runner, trace

STYLES = ("brief", "warm", "formal")

drafter = Agent(
    name="Drafter", instructions="Answer the customer in the style that is asked for, once."
)
picker = Agent(
    name="Picker", instructions="Pick the answer that helps the customer most. Repeat it as it is."
)


async def main(question: str = "Can I change the address of order A-18?") -> None:
    """Write three drafts, and pick one."""
    with trace("Drafts"):
        # Three runs, which the workers of the queue share among them. One that fails fails the
        # gather; the others go on and end by themselves, as runs do.
        results = await asyncio.gather(
            *(Runner.run(drafter, f"Style: {style}. {question}") for style in STYLES)
        )
        drafts = [ItemHelpers.text_message_outputs(result.new_items) for result in results]
        for style, draft in zip(STYLES, drafts, strict=True):
            print(f"{style}: {draft}")
        answers = "\n".join(f"- {draft}" for draft in drafts)
        best = await Runner.run(picker, f"Question: {question}\nAnswers:\n{answers}")
    print(f"picked: {best.final_output}")


if __name__ == "__main__":
    asyncio.run(main())
