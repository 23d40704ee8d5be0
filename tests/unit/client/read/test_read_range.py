"""Reading a run along: what is present, when it is settled, and opening it."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from outlast.agents.errors import RunClosed, ServerUnavailable
from outlast.client.read.read_range import CaughtUp, ReadRange, RunReading, is_settled
from outlast.loop.state import LoopState
from tests.laws.driver import Play, gated, play_in, said


@pytest.mark.parametrize(
    ("situation", "settled"),
    [("thinking", False), ("running", False), ("mixed", False), ("waiting", True)],
)
def test_a_run_is_settled_where_it_needs_somebody(situation: str, settled: bool) -> None:
    assert is_settled(play_in(situation).state) is settled


def test_a_run_that_has_ended_is_settled() -> None:
    play = Play.ready()
    play.replies(said("Done."))
    assert is_settled(play.state)
    assert is_settled(play_in("idle", keep_open=True).state)


def test_what_was_decided_is_not_waited_for() -> None:
    play = Play.ready()
    play.replies(gated("refund", "c1"), gated("ban", "c2"))
    assert is_settled(play.state, frozenset({("", "a9"), ("other", "a1")}))
    assert not is_settled(play.state, frozenset({("", "a1")}))
    play.decided("a1", "reject")
    assert is_settled(play.state, frozenset({("", "a1")}))


def test_a_run_is_not_settled_before_its_session_has_everything() -> None:
    play = Play.ready(session=True)
    play.saved()
    play.replies(gated("refund", "c1"))
    assert play.state.pending_approvals
    assert not is_settled(play.state)
    play.saved()
    assert is_settled(play.state)
    play = Play.ready(session=True, keep_open=True)
    play.saved()
    play.replies(said("Done."))
    assert play.state.phase == "idle"
    assert not is_settled(play.state)
    play.saved()
    assert is_settled(play.state)


def test_a_place_in_the_same_history_can_be_compared() -> None:
    present = CaughtUp(("h2", 3), from_start=False)
    assert [present.is_reached(("h2", at)) for at in range(5)] == [False] * 3 + [True] * 2
    assert present.is_reached(("h3", 0)), "it has continued as new meanwhile"


def test_a_reader_that_begins_with_the_first_history_has_to_come_to_the_place() -> None:
    present = CaughtUp(("h2", 3), from_start=True)
    assert not present.is_reached(("h1", 9))
    assert not present.is_reached(("h2", 2))
    assert present.is_reached(("h2", 3))
    assert present.is_reached(("h3", 0))
    assert CaughtUp(None, from_start=True).is_reached(("h1", 0))


class Run:
    """A run that is read."""

    kept_client: Any = "a client"

    def __init__(self, *, closed: bool = False) -> None:
        self.closed = closed
        self.stopped: list[str] = []
        self.asked: list[ReadRange] = []

    async def read_states(self, read_range: ReadRange) -> AsyncGenerator[LoopState]:
        self.asked.append(read_range)
        yield LoopState()

    async def cancel(self, mode: str) -> None:
        if self.closed:
            raise RunClosed("It has ended.")
        self.stopped.append(mode)


async def test_a_run_is_opened_when_it_is_read() -> None:
    run, read_range = Run(), ReadRange(settles=("h", 2))

    async def open_run() -> Any:
        return run, read_range

    reading = RunReading(open_run)
    assert reading.client is None
    assert [state async for state in reading.states()] == [LoopState()]
    assert (run.asked, reading.client) == ([read_range], "a client")


async def test_a_cancel_waits_until_the_run_is_open() -> None:
    run = Run()

    async def open_run() -> Any:
        return run, ReadRange()

    reading = RunReading(open_run)
    cancelling = asyncio.create_task(reading.cancel("immediate"))
    await asyncio.sleep(0)
    assert run.stopped == []
    async for _ in reading.states():
        pass
    await cancelling
    assert run.stopped == ["immediate"]
    run.closed = True
    await reading.cancel("after_turn")
    assert run.stopped == ["immediate"], "a run that has ended is stopped"


async def test_a_run_that_cannot_be_opened_is_no_run_to_stop() -> None:
    async def open_run() -> Any:
        raise ServerUnavailable("Nobody answers.")

    reading = RunReading(cast("Any", open_run))
    with pytest.raises(ServerUnavailable):
        await anext(reading.states())
    await reading.cancel("immediate")


async def test_it_is_told_where_the_run_was_read_to() -> None:
    told: list[LoopState | None] = []

    async def open_run() -> Any:
        return Run(), ReadRange()

    whole = RunReading(open_run, at_end=told.append)
    assert [state async for state in whole.states()] == told == [LoopState()]
    given_up = RunReading(open_run, at_end=told.append).states()
    await anext(given_up)
    await given_up.aclose()
    assert told[1:] == [None]


async def test_it_is_told_that_a_run_could_not_be_opened() -> None:
    told: list[LoopState | None] = []

    async def open_run() -> Any:
        raise ServerUnavailable("Nobody answers.")

    with pytest.raises(ServerUnavailable):
        await anext(RunReading(cast("Any", open_run), at_end=told.append).states())
    assert told == [None]
