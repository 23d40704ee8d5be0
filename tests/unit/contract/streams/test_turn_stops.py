"""A model call waits a moment for the programs that read its run here, and for what stops it."""

import asyncio

import pytest
import pytest_asyncio

from outlast.contract.streams import turn_stops as module
from outlast.contract.streams.turn_stops import TurnReader, TurnStops


@pytest_asyncio.fixture
async def reader() -> TurnReader:
    reader = TurnReader()
    reader.first_execution_id = "one"
    return reader


@pytest_asyncio.fixture
async def stops(reader: TurnReader) -> TurnStops:
    stops = TurnStops()
    stops.add("run", reader)
    return stops


async def begins(stops: TurnStops, effect: int = 5) -> bool:
    async with asyncio.timeout(5):
        return not await stops.is_stopped("run", "one", effect)


async def arrives() -> None:
    await asyncio.sleep(0)


async def fails() -> None:
    raise ConnectionError("the server is gone")


async def test_a_run_that_nobody_reads_here_goes_on_at_once(reader: TurnReader) -> None:
    stops = TurnStops()
    assert await begins(stops)
    stops.add("run", reader)
    assert await begins(stops), "nobody iterates over its events"
    stops.add("run", TurnReader())
    stops.remove("run", reader)
    assert await begins(stops)
    stops.remove("another", reader)


async def test_a_call_waits_until_the_program_has_handled_the_events_before(
    stops: TurnStops, reader: TurnReader
) -> None:
    with reader.iterating():
        call = asyncio.create_task(begins(stops))
        for effect, seen in ((4, True), (5, False)):
            reader.received(effect, seen=seen)
            await asyncio.sleep(0.01)
            assert not call.done()
        reader.received(5, seen=True)
        assert await call


async def test_a_call_waits_no_longer_for_a_program_that_reads_no_more(
    stops: TurnStops, reader: TurnReader
) -> None:
    with reader.iterating():
        call = asyncio.create_task(begins(stops))
        await asyncio.sleep(0.01)
    assert await call


@pytest.mark.parametrize("received", [False, True])
async def test_a_call_waits_a_moment_at_most(
    stops: TurnStops, reader: TurnReader, monkeypatch: pytest.MonkeyPatch, received: bool
) -> None:
    for limit in ("LAG", "CHANCE"):
        monkeypatch.setattr(module, limit, getattr(module, limit) / 100)
    with reader.iterating():
        if received:
            reader.received(5, seen=False)
        assert await begins(stops)


async def test_a_request_that_the_run_has_stops_one_call(
    stops: TurnStops, reader: TurnReader
) -> None:
    with reader.iterating():
        call = asyncio.create_task(begins(stops))
        await asyncio.sleep(0.01)
        reader.stop(asyncio.create_task(arrives()))
        assert not await call
        reader.received(5, seen=True)
        assert await begins(stops), "a request that the run does not follow stops no second call"


@pytest.mark.parametrize("other", ["two", None])
async def test_readers_of_another_run_with_the_id_stop_and_delay_nothing(
    stops: TurnStops, reader: TurnReader, other: str | None
) -> None:
    reader.first_execution_id = other
    with reader.iterating():
        reader.stop(asyncio.create_task(arrives()))
        assert await begins(stops)


async def test_a_request_that_did_not_arrive_stops_nothing(
    stops: TurnStops, reader: TurnReader
) -> None:
    reader.stop(asyncio.create_task(fails()))
    assert await begins(stops)
