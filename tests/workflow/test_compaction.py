"""Long conversations on a real server: what the model reads becomes a summary."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from outlast import Agent, Compaction, function_tool
from outlast.client.handle import RunHandle
from outlast.client.timeline import Step, Timeline
from outlast.loop.effects import CompactView
from outlast.loop.state import LoopState
from outlast.loop.values import JsonObject
from outlast.testing import ScriptedModel, call
from outlast.views.run import loop_state
from tests import forked
from tests.workflow.desk import PATIENCE_SECONDS, QUICK, Desk

WORKER_PROGRAM = Path(__file__).parent / "compaction_worker_program.py"

LONG = "It is about order A-17. " * 30


class Summaries:
    """Writes summaries, and counts them."""

    def __init__(self) -> None:
        self.read: list[list[JsonObject]] = []
        self.may_write = asyncio.Event()
        self.may_write.set()
        self.is_cancelled = asyncio.Event()

    async def write(self, _context: Any, items: list[JsonObject]) -> str:
        """Return a summary, once it may."""
        self.read.append(items)
        try:
            await self.may_write.wait()
        except asyncio.CancelledError:
            self.is_cancelled.set()
            raise
        return f"Summary {len(self.read)}: A-17 is late."


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


def summarising(summaries: Summaries, **fields: Any) -> Agent[Any]:
    compaction = Compaction(window=16, summarize=summaries.write)
    return Agent[Any](name="Desk", compaction=compaction, **fields)


def is_summarised(state: LoopState) -> bool:
    return any(isinstance(one, CompactView) for one in state.pending)


async def steps_of(handle: RunHandle) -> list[Step]:
    timeline = Timeline()
    async for progress in handle.past():
        timeline.take_state(progress)
    return [one for one in timeline.steps if one.kind == "summary"]


async def until_a_summary_is_written(desk: Desk, handle: RunHandle) -> None:
    """Ask two questions; the summary of the older items begins after the second answer."""
    await desk.until(handle, lambda state: len(state.answers) == 1)
    await handle.send(f"Question 1. {LONG}")
    await desk.until(handle, is_summarised)


@pytest.mark.full
async def test_a_worker_that_is_killed_while_it_summarises_is_replaced(desk: Desk):
    address = desk.client.service_client.config.target_host
    worker = await forked.start(str(WORKER_PROGRAM), address, desk.queue)
    handle = await desk.start("Desk", f"Question 0. {LONG}", keep_open=True, run_config=QUICK)
    await until_a_summary_is_written(desk, handle)
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await worker.wait() == -signal.SIGKILL
    summaries, model = Summaries(), ScriptedModel("Answer 2.")
    await desk.open(summarising(summaries), model=model)
    await handle.send(f"Question 2. {LONG}")
    await desk.until(handle, lambda state: len(state.answers) == 3)
    assert len(model.requests) == 1
    read = model.requests[0].input
    assert str(read[0]["content"]).endswith("Summary 1: A-17 is late.")
    assert "Question 0" not in str(read)
    first, *_ = await steps_of(handle)
    assert (first.status, first.text.endswith("Summary 1: A-17 is late.")) == ("done", True)


async def test_a_person_takes_over_while_a_summary_is_written(desk: Desk):
    summaries = Summaries()
    summaries.may_write.clear()
    agent = summarising(summaries)
    model = ScriptedModel(*(f"Answer {at}." for at in range(3)))
    await desk.open(agent, model=model)
    handle = await desk.start(agent, f"Question 0. {LONG}", keep_open=True)
    await until_a_summary_is_written(desk, handle)
    await handle.hold(by="ann")
    await handle.send("Is anybody there?")
    await handle.say("I am, and A-17 is lost.", by="ann")
    summaries.may_write.set()
    await desk.until(handle, lambda state: bool(state.compaction.made))
    await handle.release(by="ann")
    await handle.send("And now?")
    await desk.until(handle, lambda state: len(model.requests) == 3 and state.status == "idle")
    texts = str(model.requests[-1].input)
    assert "Summary 1: A-17 is late." in texts
    assert "I am, and A-17 is lost." in texts
    assert "Question 0" not in texts


@pytest.mark.parametrize("mode", ["immediate"])
async def test_a_run_that_is_cancelled_ends_its_summary(desk: Desk, mode: Any):
    summaries = Summaries()
    summaries.may_write.clear()
    agent = summarising(summaries)
    await desk.open(agent, model=ScriptedModel("Answer 0.", "Answer 1."))
    handle = await desk.start(agent, f"Question 0. {LONG}", keep_open=True, run_config=QUICK)
    await until_a_summary_is_written(desk, handle)
    await desk.until(handle, lambda state: len(state.answers) == 2)
    await handle.cancel(mode)
    state = await desk.until(handle, lambda state: state.outcome is not None)
    assert state.outcome == ("cancelled" if mode == "immediate" else "completed")
    assert [one.status for one in await steps_of(handle)] == ["cancelled"]
    async with asyncio.timeout(PATIENCE_SECONDS):
        await summaries.is_cancelled.wait()


@function_tool
def read_page(number: int) -> str:
    """Read a page."""
    return f"Page {number}: {LONG}"


async def test_summaries_go_on_in_later_histories(desk: Desk):
    summaries = Summaries()
    agent = summarising(summaries, tools=[read_page])
    script = [[call("read_page", f"c{at}", number=at)] for at in range(7)]
    model = ScriptedModel(*script, "Done.")
    await desk.open(agent, model=model)
    handle = await desk.start_short(agent, "Read it.", events=40, max_turns=10)
    result = await desk.result(handle)
    assert result.final_output == "Done."
    assert len(await desk.all_events(handle)) > 1
    last = str(model.requests[-1].input)
    newest = len(loop_state(result.snapshot).compaction.made)
    assert newest == len(summaries.read) > 2
    assert f"Summary {newest}: A-17" in last
    assert "Page 0" not in last
    assert "Page 6" in last
    assert [f"Page {at}" in str(result.to_input_list()) for at in range(7)] == [True] * 7
    assert len(await steps_of(handle)) == newest
