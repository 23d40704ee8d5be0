"""A run that is read along: its events in their order, its end, and stopping it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import pytest

from outlast.agents.agent import Agent
from outlast.agents.errors import MaxTurnsExceeded, RunCancelled, ServerUnavailable, UserError
from outlast.client.read.streaming import RunResultStreaming
from outlast.client.results.local_definitions import LocalDefinitions
from outlast.loop.machine import advance
from outlast.loop.state import LoopState
from outlast.loop.values import JsonObject
from outlast.views.run import RunSnapshot, snapshot_of
from tests.laws.driver import Play, gated, said, searched, tool, transfer

BILLING = Agent[Any](name="Billing")
TRIAGE = Agent[Any](name="Triage", handoffs=[BILLING])
DELTA: JsonObject = {"type": "response.output_text.delta", "delta": "Do"}


def states_of(play: Play) -> list[LoopState]:
    """Every state of a run, the one before its beginning first."""
    states = [LoopState()]
    for event in play.events:
        states.append(advance(states[-1], event)[0])
    return states


class Source:
    """A run that is written down.

    Attributes:
        stopped: how it was stopped.
        gate: whoever reads waits here, after everything that is written down.
    """

    client = None

    def __init__(self, *parts: Any, error: Exception | None = None, ends: bool = True) -> None:
        self._parts = parts
        self._error = error
        self.stopped: list[str] = []
        self.run_id = "run-1"
        self.first_execution_id: str | None = "run-1"
        self.gate = asyncio.Event()
        if ends:
            self.gate.set()

    async def states(self) -> AsyncIterator[RunSnapshot | JsonObject]:
        for part in self._parts:
            yield snapshot_of(part) if isinstance(part, LoopState) else part
        await self.gate.wait()
        if self._error is not None:
            raise self._error

    async def cancel(self, mode: str) -> None:
        self.stopped.append(mode)


def streaming(source: Source, **options: Any) -> RunResultStreaming:
    given: dict[str, Any] = {
        "starting_agent": TRIAGE,
        "run_input": "Hello",
        "definitions": LocalDefinitions(TRIAGE),
        "max_turns": 10,
        **options,
    }
    return RunResultStreaming(cast("Any", source), **given)


def of(play: Play, *extra: Any) -> Source:
    return Source(*states_of(play), *extra)


async def read(stream: RunResultStreaming, seen: list[str] | None = None) -> list[str]:
    told: list[str] = [] if seen is None else seen
    async for event in stream.stream_events():
        match event.type:
            case "run_item_stream_event":
                told.append(cast("Any", event).name)
            case "agent_updated_stream_event":
                told.append(f"agent {cast('Any', event).new_agent.name}")
            case "raw_response_event":
                told.append(f"raw {cast('Any', event).data.delta}")
            case "status_stream_event":
                told.append(f"status {cast('Any', event).reason}")
    return told


def handed_over() -> Play:
    play = Play.ready()
    play.replies(searched(), tool("look_up", "c1"), transfer("Billing", "h1"))
    play.returns("c1")
    play.replies(said("Done."))
    return play


async def test_events_come_in_the_order_of_the_field_and_no_others() -> None:
    stream = streaming(of(handed_over()))
    assert (stream.is_complete, stream.final_output, stream.current_agent) == (False, None, TRIAGE)
    assert (stream.input, stream.last_agent, stream.current_turn) == ("Hello", TRIAGE, 0)
    assert await read(stream) == [
        "agent Triage",
        "tool_called",
        "tool_called",
        "handoff_requested",
        "tool_output",
        "handoff_occured",
        "agent Billing",
        "message_output_created",
    ]
    assert (stream.is_complete, stream.final_output) == (True, "Done.")
    assert (stream.current_agent, stream.last_agent) == (BILLING, BILLING)
    assert (stream.current_turn, stream.max_turns) == (2, 10)
    assert [item.type for item in stream.new_items][-1] == "message_output_item"
    assert len(stream.raw_responses) == 2
    assert stream.run_loop_exception is None
    assert stream.run_loop_task.done()
    assert await read(stream) == []


async def test_what_a_model_says_comes_before_the_items_of_its_reply() -> None:
    play = Play.ready()
    play.replies(said("Done."))
    *before, last = states_of(play)
    stream = streaming(Source(*before, DELTA, last))
    assert await read(stream) == ["agent Triage", "raw Do", "message_output_created"]


async def test_a_result_grows_while_it_is_read() -> None:
    source = Source(*states_of(handed_over())[:-1], ends=False)
    stream = streaming(source)
    events = stream.stream_events()
    while stream.current_turn < 2:
        await anext(events)
    assert (stream.is_complete, stream.final_output, stream.current_agent) == (False, None, BILLING)
    assert "current_agent='Billing', current_turn=2" in repr(stream)
    first = stream.new_items
    assert len(first) == 5
    assert stream.new_items is first
    source.gate.set()
    async for _ in events:
        pass


async def test_a_failure_is_raised_after_everything_that_happened_before() -> None:
    play = Play.ready(max_turns=1)
    play.replies(tool("look_up", "c1"))
    play.returns("c1")
    stream = streaming(of(play))
    seen: list[str] = []
    with pytest.raises(MaxTurnsExceeded) as caught:
        await read(stream, seen)
    assert seen == ["agent Triage", "tool_called", "tool_output"]
    assert len(caught.value.run_data.new_items) == 2
    assert stream.run_loop_exception is caught.value
    with pytest.raises(MaxTurnsExceeded):
        await read(stream)
    with pytest.raises(MaxTurnsExceeded):
        await stream.run_loop_task


async def test_a_run_that_cannot_be_read_is_an_error_where_it_is_read() -> None:
    stream = streaming(Source(LoopState(), error=ServerUnavailable("Nobody answers.")))
    with pytest.raises(ServerUnavailable, match="Nobody answers"):
        await read(stream)
    assert stream.is_complete


async def test_a_run_that_waits_for_people_is_complete_and_can_go_on() -> None:
    play = Play.ready()
    play.replies(gated("refund", "c1"))
    stream = streaming(of(play))
    assert await read(stream) == ["agent Triage", "tool_called"]
    assert (stream.is_complete, stream.final_output) == (True, None)
    (item,) = stream.interruptions
    state = stream.to_state()
    state.approve(item)
    before = len(play.events)
    play.decided("a1")
    play.returns("c1")
    play.replies(said("Done."))
    resumed = streaming(Source(*states_of(play)[before:]))
    assert await read(resumed) == ["agent Triage", "tool_output", "message_output_created"]
    assert (resumed.final_output, resumed.current_turn) == ("Done.", 2)


async def test_a_cancel_at_once_ends_the_events_without_an_error() -> None:
    source = Source(*states_of(handed_over())[:3], ends=False)
    stream = streaming(source)
    events = stream.stream_events()
    first = await anext(events)
    assert first.type == "agent_updated_stream_event"
    with pytest.raises(UserError, match="not 'soon'"):
        stream.cancel(cast("Any", "soon"))
    assert not stream.is_complete
    stream.cancel()
    assert stream.is_complete
    assert [event async for event in events] == []
    assert source.stopped == ["immediate"]
    assert stream.final_output is None
    source.gate.set()
    await stream.run_loop_task


@pytest.mark.parametrize("mode", ["preserve_all", "normalized"])
async def test_a_cancel_among_tools_leaves_no_call_without_its_output(mode: Any) -> None:
    play = Play.ready()
    play.replies(tool("look_up", "c1"))
    play.returns("c1")
    play.replies(said("Let me see."), tool("look_up", "c2"), tool("look_up", "c3"))
    play.returns("c3")
    source = of(play)
    source.gate.clear()
    stream = streaming(source)
    events = stream.stream_events()
    while stream.current_turn < 2:
        await anext(events)
    stream.cancel()
    assert [event async for event in events] == []
    kinds = [item.get("type", item.get("role")) for item in stream.to_input_list(mode)]
    assert kinds == ["user", "function_call", "function_call_output"]
    assert len(stream.new_items) > 2, "what has happened can be looked at all the same"
    play.cancelled()
    source.gate.set()
    await stream.run_loop_task
    ended = streaming(of(play))
    with pytest.raises(RunCancelled):
        await ended.run_loop_task
    outputs = [item for item in ended.to_input_list(mode) if item.get("output")]
    assert len(outputs) == 3, "the end of the run has an output for every call"


async def test_a_cancel_after_the_turn_lets_it_be_told() -> None:
    play = Play.ready()
    play.replies(tool("look_up", "c1"))
    so_far = len(play.events) + 1
    play.cancelled("after_turn")
    play.returns("c1")
    states = states_of(play)
    source = Source(*states[:so_far], *states[so_far:])
    stream = streaming(source)
    stream.cancel(mode="after_turn")
    assert await read(stream) == ["agent Triage", "tool_called", "tool_output"]
    assert source.stopped == ["after_turn"]
    assert (stream.status, stream.final_output) == ("cancelled", None)


async def test_a_run_that_somebody_else_cancelled_says_so() -> None:
    play = Play.ready()
    play.cancelled()
    with pytest.raises(RunCancelled, match="support-42 was cancelled"):
        await read(streaming(of(play)))


async def test_a_run_goes_on_while_nobody_reads() -> None:
    stream = streaming(of(handed_over()))
    await stream.run_loop_task
    assert stream.final_output == "Done."


@pytest.mark.parametrize("count", [0, 1])
async def test_an_empty_run_ends(count: int) -> None:
    parts: Sequence[LoopState] = [LoopState()] * count
    assert await read(streaming(Source(*parts))) == []


async def test_a_reading_that_is_cancelled_before_it_begins_ends_all_the_same() -> None:
    stream = streaming(of(handed_over()))
    assert stream.run_loop_task is not None
    stream.run_loop_task.cancel()
    async with asyncio.timeout(5):
        assert await read(stream) == []
    assert stream.is_complete


async def test_a_context_that_cannot_be_brought_up_to_date_keeps_no_reader_waiting() -> None:
    class Broken(LocalDefinitions):
        def update_context(self, context: Any) -> None:
            raise ValueError(context)

    stream = streaming(of(handed_over()), definitions=Broken(TRIAGE))
    async with asyncio.timeout(5):
        assert await read(stream)
    assert stream.is_complete
    with pytest.raises(ValueError, match="None"):
        await cast("Any", stream.run_loop_task)
