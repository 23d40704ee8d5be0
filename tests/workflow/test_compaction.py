"""Long conversations on a real server: what the model reads becomes a summary."""

from typing import Any

import pytest

from outlast import Agent, Compaction
from outlast.loop.values import JsonObject
from outlast.testing import ScriptedModel
from tests.workflow.desk import Desk

LONG = "It is about order A-17. " * 30


class Summaries:
    """Writes summaries, and counts them."""

    def __init__(self) -> None:
        self.read: list[list[JsonObject]] = []

    async def write(self, _context: Any, items: list[JsonObject]) -> str:
        """Return a summary."""
        self.read.append(items)
        return f"Summary {len(self.read)}: A-17 is late."


@pytest.mark.replayed
async def test_the_next_question_is_asked_with_a_summary(desk: Desk):
    summaries = Summaries()
    agent = Agent[Any](
        name="Desk",
        # a scripted call takes 15 tokens, so that each one fills the window
        compaction=Compaction(window=16, summarize=summaries.write),
    )
    model = ScriptedModel(*(f"Answer {at}." for at in range(4)))
    await desk.open(agent, model=model)
    handle = await desk.start(agent, f"Question 0. {LONG}", keep_open=True)
    await desk.until(handle, lambda state: len(state.answers) == 1)
    for at in range(1, 4):
        await handle.send(f"Question {at}. {LONG}")
        await desk.until(handle, lambda state, at=at: len(state.answers) == at + 1)
    first = str(model.requests[-1].input[0]["content"])
    assert "A-17 is late." in first
    assert "Question 0" not in str(model.requests[-1].input)
    assert "Question 3" in str(model.requests[-1].input[-1]["content"])
    await desk.until(handle, lambda state: len(state.compaction.made) >= 2)
    state = await handle.state()
    said = [str(one.raw.get("content")) for one in state.items if one.kind == "input"]
    assert [text[:11] for text in said] == [f"Question {at}." for at in range(4)]
    assert "Summary 1" in str(summaries.read[1][0]["content"])
