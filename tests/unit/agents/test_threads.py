"""Blocking calls run in threads that never hold up the event loop or the end of the process."""

import asyncio
import contextvars
import subprocess
import sys
import textwrap
import threading

import pytest

from outlast.agents.threads import DaemonThreads, run_in_thread

request_id = contextvars.ContextVar("request_id", default="none")


async def test_the_function_runs_in_another_thread_and_its_result_comes_back() -> None:
    def where(a: int, *, b: int) -> tuple[int, int]:
        return threading.get_ident(), a + b

    thread, total = await run_in_thread(where, 1, b=2)

    assert total == 3
    assert thread != threading.get_ident()


async def test_the_event_loop_goes_on_while_the_function_blocks() -> None:
    released = threading.Event()
    call = asyncio.create_task(run_in_thread(released.wait, 10))
    await asyncio.sleep(0)  # the call has begun

    released.set()  # which a blocked loop would never come to

    assert await call is True


async def test_many_calls_block_at_the_same_time() -> None:
    together = threading.Barrier(20)

    positions = await asyncio.gather(*(run_in_thread(together.wait, 10) for _ in range(20)))

    assert sorted(positions) == list(range(20))


async def test_the_function_sees_context_variables_and_keeps_its_own_changes() -> None:
    def change() -> str:
        seen = request_id.get()
        request_id.set("changed")
        return seen

    token = request_id.set("r-1")
    try:
        assert await run_in_thread(change) == "r-1"
        assert request_id.get() == "r-1"
    finally:
        request_id.reset(token)


async def test_an_exception_is_raised_where_the_call_is_awaited() -> None:
    def fail() -> None:
        raise LookupError("no such order")

    with pytest.raises(LookupError, match="no such order"):
        await run_in_thread(fail)


@pytest.mark.parametrize(
    "stopped", [StopIteration, SystemExit, KeyboardInterrupt, asyncio.CancelledError]
)
async def test_what_would_end_more_than_the_call_becomes_an_ordinary_error(
    stopped: type[BaseException],
) -> None:
    def stop() -> None:
        raise stopped

    with pytest.raises(RuntimeError, match=stopped.__name__) as caught:
        await run_in_thread(stop)

    assert isinstance(caught.value.__cause__, stopped)
    assert await run_in_thread(lambda: "still working") == "still working"


async def test_a_cancelled_wait_ends_at_once_and_leaves_the_thread_to_itself() -> None:
    began, released, ended = threading.Event(), threading.Event(), threading.Event()

    def hang() -> None:
        began.set()
        released.wait(10)
        ended.set()

    call = asyncio.create_task(run_in_thread(hang))
    assert await run_in_thread(began.wait, 10)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    assert not ended.is_set()
    released.set()
    assert await run_in_thread(ended.wait, 10)


def test_a_result_for_a_closed_loop_is_dropped_and_the_thread_is_used_again() -> None:
    began, released = threading.Event(), threading.Event()

    def hang() -> None:
        began.set()
        released.wait(10)

    async def give_up() -> None:
        call = asyncio.create_task(run_in_thread(hang))
        await run_in_thread(began.wait, 10)
        call.cancel()

    asyncio.run(give_up())
    released.set()

    assert asyncio.run(run_in_thread(lambda: "again")) == "again"


def test_an_idle_thread_is_used_again() -> None:
    threads = DaemonThreads("test-call")
    seen: list[int] = []

    for _ in range(20):
        threads.submit(lambda: seen.append(threading.get_ident()))
        assert threads._idle.acquire(timeout=10)  # the thread says so after the job has ended
        threads._idle.release()

    mine = [thread for thread in threading.enumerate() if thread.name == "test-call"]
    assert len(mine) == 1
    assert mine[0].daemon
    assert seen == [mine[0].ident] * 20


def test_a_call_that_hangs_does_not_keep_the_process_alive() -> None:
    program = textwrap.dedent(
        """
        import asyncio, threading
        from outlast.agents.threads import run_in_thread

        async def main():
            began = threading.Event()
            def hang():
                began.set()
                threading.Event().wait()
            call = asyncio.create_task(run_in_thread(hang))
            await run_in_thread(began.wait)
            call.cancel()
            print("leaving")

        asyncio.run(main())
        """
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False
    )

    assert (done.stdout, done.stderr, done.returncode) == ("leaving\n", "", 0)


def test_a_forked_process_has_threads_of_its_own() -> None:
    program = textwrap.dedent(
        """
        import asyncio, os
        from outlast.agents.threads import run_in_thread

        async def call(text):
            async with asyncio.timeout(20):
                await run_in_thread(print, text, flush=True)

        asyncio.run(call("parent"))
        if child := os.fork():
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        else:
            asyncio.run(call("child"))
        """
    )

    done = subprocess.run(
        # Python 3.12 and newer warn of any fork beside threads.
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert (done.stdout, done.stderr) == ("parent\nchild\n0\n", "")
