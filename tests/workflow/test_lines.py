"""A realtime line on a real server: what it says is in the run, and the run outlives it."""

import asyncio
from collections.abc import Callable

import pytest

from outlast import Agent, RunClosed, UserError, function_tool
from outlast.client.handle import RunHandle
from outlast.contract import blobs
from outlast.loop.state import LoopState, line_of
from outlast.loop.values import reference
from outlast.realtime.line_run import LineRun
from outlast.testing import ScriptedModel
from outlast.views.run import loop_state
from tests.laws.driver import reply_of, said, tool
from tests.workflow.desk import Desk

HEARD = {"role": "user", "content": "Where is my order?"}


@function_tool
async def look_up() -> str:
    return "on Monday"


@function_tool(needs_approval=True)
async def refund() -> str:
    return "refunded"


DESK = Agent(name="Desk", tools=[look_up, refund])


async def opened(desk: Desk, **settings: object) -> LineRun:
    """A run that began with a call."""
    handle = await desk.start_record(
        agent="Desk", awaits_line=True, keep_open=True, settings=settings
    )
    line = LineRun(handle, "phone call")
    await line.attach()
    return line


async def until(line: LineRun, condition: Callable[[LoopState], object]) -> LoopState:
    """Follow the run of a line up to a state."""
    async with asyncio.timeout(30):
        async for state in line.follow():
            if condition(state):
                return state
    raise AssertionError("the run has ended")


async def test_a_call_said_on_the_line_runs_as_an_activity(desk: Desk) -> None:
    await desk.open(DESK)
    line = await opened(desk)
    await line.reply([HEARD], reply_of(tool("look_up", "c1"), response_id="r1"))
    state = await until(line, lambda state: state.items[-1:] and state.phase == "thinking")
    assert state.items[-1].raw["output"] == "on Monday"
    await line.reply([], reply_of(said("It left on Monday."), response_id="r2"))
    await line.reply([], reply_of(said("It left on Monday."), response_id="r2"))
    state = await until(line, lambda state: state.phase == "idle" and state.answers)
    assert state.final_output == "It left on Monday."
    await line.hang_up()
    state = await until(line, lambda state: line_of(state) is None)
    assert [one.kind for one in state.items] == ["input", "tool_call", "tool_output", "message"]


async def test_nothing_that_is_said_on_a_line_reads_as_a_reference(desk: Desk) -> None:
    await desk.open(DESK)
    line = await opened(desk)
    raw = reference("0" * 64, 7)
    heard = {**HEARD, "content": [{"type": "input_text", "text": "Hello", "of": raw}]}
    await line.reply([heard], reply_of(said("Hello."), response_id="r1"))
    state = await until(line, lambda state: state.phase == "idle" and state.answers)
    assert [one.raw for one in state.items[:1]] == [blobs.escape_item(heard)] != [heard]
    assert blobs.readable(state.items[0].raw) == heard
    await line.hang_up()


async def test_a_line_that_died_is_noticed_by_its_heartbeat(desk: Desk) -> None:
    await desk.open(DESK, model=ScriptedModel("By text."))
    line = await opened(desk, heartbeat_ms=1_000)
    handle = RunHandle(desk.client, line.run_id)
    await handle.send("I type this.")
    await asyncio.sleep(1.5)
    state = await handle.state()
    assert line.holds(loop_state(state)), "a silent line is alive while it heartbeats"
    assert line._beating is not None
    line._beating.cancel()
    state = await desk.until(handle, lambda state: state.phase == "idle" and bool(state.answers))
    assert state.final_output == "By text."
    await line.hang_up()


async def test_a_second_line_takes_over(desk: Desk) -> None:
    await desk.open(DESK)
    first = await opened(desk, heartbeat_ms=1_000)
    second = LineRun(RunHandle(desk.client, first.run_id))
    await second.attach()
    try:
        state = await until(second, second.holds)
        assert not first.holds(state)
        assert first._beating is not None
        async with asyncio.timeout(10):
            await first._beating
        await first.reply([], reply_of(said("I am the old one."), response_id="r1"))
        state = await until(second, lambda state: state.ignored)
        assert state.items == ()
        await first.hang_up()
        assert second.holds(loop_state(await RunHandle(desk.client, first.run_id).state()))
    finally:
        await second.hang_up()


async def test_a_long_call_goes_on_in_a_new_history(desk: Desk) -> None:
    await desk.open(DESK)
    line = await opened(desk, roll_over_events=20, heartbeat_ms=1_000)
    for number in range(8):
        await line.reply([HEARD], reply_of(tool("look_up", f"c{number}"), response_id=f"r{number}"))
        await until(line, lambda state: state.phase == "thinking")
        await line.reply([], reply_of(said("On Monday."), response_id=f"s{number}"))
        await until(line, lambda state: state.phase == "idle")
    await asyncio.sleep(2)  # twice the time in which a silent line is given up
    handle = RunHandle(desk.client, line.run_id)
    state = await handle.state()
    first = await desk.client.get_workflow_handle(line.run_id).describe()
    assert first.run_id != loop_state(state).start.chain_id, "the run has gone on in a new history"
    assert line.holds(loop_state(state))
    assert [one.failure for one in state.answers] == [None] * 8
    assert len(state.items) == 8 * 4
    await line.hang_up()
    await until(line, lambda state: line_of(state) is None)


async def test_a_run_that_has_ended_takes_no_line(desk: Desk) -> None:
    await desk.open(DESK)
    line = await opened(desk)
    await RunHandle(desk.client, line.run_id).cancel()
    await until(line, lambda state: state.outcome == "cancelled")
    with pytest.raises(RunClosed):
        await LineRun(RunHandle(desk.client, line.run_id)).attach()
    await line.hang_up()


async def test_a_reply_needs_an_id(desk: Desk) -> None:
    await desk.open(DESK)
    line = await opened(desk)
    with pytest.raises(UserError, match="response_id"):
        await line.reply([], reply_of(said("Hello.")))
    await line.hang_up()
