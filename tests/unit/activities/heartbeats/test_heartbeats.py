"""Heartbeats come from a thread, and code that blocks an event loop is named."""

import asyncio
import logging
import threading
import time
from collections.abc import Iterator

import pytest

from outlast.activities.heartbeats import heartbeats as module
from outlast.activities.heartbeats.heartbeats import Beat, Heartbeats


@pytest.fixture
def beats(monkeypatch: pytest.MonkeyPatch) -> Iterator[Heartbeats]:
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.05)
    one = Heartbeats()
    yield one
    one._beats.clear()


def block(seconds: float) -> None:
    time.sleep(seconds)


async def test_a_blocked_loop_does_not_stop_heartbeats(beats: Heartbeats) -> None:
    sent: list[str] = []

    def send() -> None:
        sent.append(threading.current_thread().name)

    beat = Beat("tool:slow of support-42", asyncio.get_running_loop(), send, 0.01)
    beats.add(beat)
    block(0.5)
    beats.remove(beat)
    assert len(sent) >= 3
    assert set(sent) == {"outlast-heartbeats"}
    count = len(sent)
    await asyncio.sleep(0.1)
    assert len(sent) <= count + 1, "an attempt that has ended beats no more"


async def test_one_that_cannot_be_sent_does_not_stop_the_others(beats: Heartbeats) -> None:
    heard = threading.Event()
    loop = asyncio.get_running_loop()

    def fail() -> None:
        raise RuntimeError("the worker has ended")

    broken, sound = Beat("a", loop, fail, 0.01, b"a"), Beat("b", loop, heard.set, 0.01, b"b")
    beats.add(broken)
    beats.add(sound)
    assert await asyncio.to_thread(heard.wait, 10)
    heard.clear()
    assert await asyncio.to_thread(heard.wait, 10)


async def test_the_thread_ends_where_there_is_nothing_to_do_and_begins_again(
    beats: Heartbeats,
) -> None:
    loop = asyncio.get_running_loop()
    for _ in range(2):
        heard = threading.Event()
        beat = Beat("a", loop, heard.set, 0.01)
        beats.add(beat)
        assert await asyncio.to_thread(heard.wait, 10)
        thread = beats._thread
        assert thread is not None
        beats.remove(beat)
        await asyncio.to_thread(thread.join, 10)
        assert beats._thread is None


async def warnings_while(
    beats: Heartbeats, caplog: pytest.LogCaptureFixture, *, times: int = 1
) -> list[str]:
    """Return what is logged while the loop is blocked for 1.8 seconds, so many times."""
    beat = Beat("tool:slow of support-42", asyncio.get_running_loop())
    beats.add(beat)
    with caplog.at_level(logging.DEBUG, "outlast"):
        for _ in range(times):
            await asyncio.sleep(0.3)  # the loop answers
            block(1.8)
    beats.remove(beat)
    return [text for text in caplog.messages if "blocks the event loop" in text]


@pytest.mark.full
async def test_what_blocks_a_loop_is_named_once(
    beats: Heartbeats, caplog: pytest.LogCaptureFixture
) -> None:
    (text,) = await warnings_while(beats, caplog, times=2)
    assert "async def test_what_blocks_a_loop_is_named_once blocks the event loop" in text
    assert "(test_heartbeats.py:" in text
    assert " in block)" in text, "the innermost line of the users' code"
    assert "in tool:slow of support-42" in text


@pytest.mark.full
async def test_many_short_steps_are_no_block(
    beats: Heartbeats, caplog: pytest.LogCaptureFixture
) -> None:
    async def step() -> None:
        block(0.1)

    beat = Beat("tool:slow of support-42", asyncio.get_running_loop())
    beats.add(beat)
    await asyncio.gather(*(step() for _ in range(20)))
    beats.remove(beat)
    assert caplog.messages == []


@pytest.mark.full
async def test_a_process_that_stood_still_has_blocked_nothing(
    beats: Heartbeats, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = iter(range(0, 10_000, 5))
    monkeypatch.setattr(module.time, "monotonic", lambda: float(next(ticks)))
    assert await warnings_while(beats, caplog) == []


def test_a_forked_process_has_a_thread_of_its_own() -> None:
    before = module.heartbeats
    module._begin_anew()
    assert module.heartbeats is before
    assert before._thread is None
