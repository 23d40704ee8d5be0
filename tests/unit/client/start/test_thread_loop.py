"""The loop of `Runner.run_sync`."""

import asyncio
import contextvars
import os
import subprocess
import sys
import threading

import pytest

from outlast.client.start import thread_loop as thread_loop_module
from outlast.client.start.thread_loop import ThreadLoop, thread_loop

WHO = contextvars.ContextVar("who", default="nobody")


async def loop_of_call() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


async def who() -> str:
    return WHO.get()


@pytest.fixture
def loop() -> ThreadLoop:
    asyncio.set_event_loop(None)
    return ThreadLoop()


def test_all_calls_of_a_thread_share_a_loop_that_stays_open(loop: ThreadLoop) -> None:
    first = loop.run(loop_of_call())
    asyncio.run(loop_of_call())  # leaves the thread without a default loop
    assert loop.run(loop_of_call()) is first
    assert not first.is_closed()
    loop.close()
    assert first.is_closed()
    assert loop.run(loop_of_call()) is not first
    loop.close()


def test_each_thread_has_its_own_which_is_closed_when_it_ends() -> None:
    found: list[asyncio.AbstractEventLoop] = []

    def work() -> None:
        found.extend(thread_loop().run(loop_of_call()) for _ in range(2))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 2
    assert all(one.is_closed() for one in found)


def test_the_threads_default_loop_is_used_and_stays_the_programs(loop: ThreadLoop) -> None:
    own = asyncio.new_event_loop()
    asyncio.set_event_loop(own)
    try:
        assert loop.run(loop_of_call()) is own
        loop.close()
        assert not own.is_closed()
    finally:
        asyncio.set_event_loop(None)
        own.close()


def test_each_call_sees_the_context_variables_of_its_caller(loop: ThreadLoop) -> None:
    assert loop.run(who()) == "nobody"
    token = WHO.set("ann")
    assert loop.run(who()) == "ann"
    WHO.reset(token)
    loop.close()


def test_a_task_that_is_left_goes_on_with_the_next_call_and_is_cancelled_at_the_end(
    loop: ThreadLoop,
) -> None:
    log: list[str] = []

    async def background(go: asyncio.Event) -> None:
        try:
            await go.wait()
            log.append("went on")
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            log.append("cancelled")

    async def begin() -> tuple[asyncio.Event, "asyncio.Task[None]"]:
        go = asyncio.Event()
        return go, asyncio.create_task(background(go))

    async def free(go: asyncio.Event) -> None:
        go.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    go, task = loop.run(begin())
    loop.run(free(go))
    assert log == ["went on"]
    loop.close()
    assert log == ["went on", "cancelled"]
    assert task.done()


def test_a_task_that_stops_slowly_is_cancelled_once(
    loop: ThreadLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[str] = []

    async def serve() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            log.append("stopped")

    async def begin() -> "asyncio.Task[None]":
        task = asyncio.create_task(serve())
        await asyncio.sleep(0)
        return task

    monkeypatch.setattr(thread_loop_module, "CLOSING_SECONDS", 0)
    task = loop.run(begin())
    loop.close()
    assert task.cancelled()
    assert log == ["stopped"]


def test_what_closes_a_connection_at_the_end_has_time_for_it_and_not_for_ever(
    loop: ThreadLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[str] = []

    async def close_connection() -> None:
        for _ in range(10):
            await asyncio.sleep(0)
        log.append("closed")

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            log.append("cancelled")

    monkeypatch.setattr(thread_loop_module, "CLOSING_SECONDS", 0.01)
    used = loop.run(loop_of_call())
    for closing in (close_connection(), hang()):
        used.call_soon_threadsafe(used.create_task, closing)
    loop.close()
    assert log == ["closed", "cancelled"]


def test_a_forked_process_leaves_its_parents_loop_alone(
    loop: ThreadLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    parents = loop.run(loop_of_call())
    monkeypatch.setattr(os, "getpid", lambda: 0)
    assert loop.run(loop_of_call()) is not parents
    assert not parents.is_closed()
    loop.close()
    parents.close()


def test_the_loop_is_closed_where_no_thread_can_be_started_any_more(
    loop: ThreadLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")  # as Python 3.12 does

    async def work_in_a_thread() -> asyncio.AbstractEventLoop:
        await asyncio.to_thread(threading.get_ident)
        return asyncio.get_running_loop()

    used = loop.run(work_in_a_thread())
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        loop.close()
    assert used.is_closed()


SCRIPT = """
import asyncio
from outlast.client.start.thread_loop import thread_loop

async def main():
    await asyncio.to_thread(print, "done")
    asyncio.create_task(ended()).add_done_callback(KEPT.add)
    await asyncio.sleep(0)

async def ended():
    try:
        await asyncio.Event().wait()
    finally:
        print("cancelled")

KEPT = set()
thread_loop().run(main())
"""


def test_a_script_that_used_threads_ends_without_a_word_on_the_side() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\ncancelled\n", "")
