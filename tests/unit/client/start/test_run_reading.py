"""A run is opened when it is first read."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from outlast.agents.errors import RunClosed, ServerUnavailable
from outlast.client.read.read_range import ReadRange
from outlast.client.start.runner import RunReading
from outlast.views.run import RunSnapshot


class Run:
    """A run that is read."""

    kept_client: Any = "a client"

    def __init__(self, *, closed: bool = False) -> None:
        self.closed = closed
        self.stopped: list[str] = []
        self.asked: list[ReadRange] = []

    async def read_states(self, read_range: ReadRange) -> AsyncGenerator[RunSnapshot]:
        self.asked.append(read_range)
        yield RunSnapshot()

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
    assert [state async for state in reading.states()] == [RunSnapshot()]
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
    told: list[RunSnapshot | None] = []

    async def open_run() -> Any:
        return Run(), ReadRange()

    whole = RunReading(open_run, at_end=told.append)
    assert [state async for state in whole.states()] == told == [RunSnapshot()]
    given_up = RunReading(open_run, at_end=told.append).states()
    await anext(given_up)
    await given_up.aclose()
    assert told[1:] == [None]


async def test_it_is_told_that_a_run_could_not_be_opened() -> None:
    told: list[RunSnapshot | None] = []

    async def open_run() -> Any:
        raise ServerUnavailable("Nobody answers.")

    with pytest.raises(ServerUnavailable):
        await anext(RunReading(cast("Any", open_run), at_end=told.append).states())
    assert told == [None]
