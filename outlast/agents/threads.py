"""Threads for callables that block.

Owns: `run_in_thread` and the threads behind it. Must not know: what the callables are for.
"""

import contextlib
import contextvars
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class DaemonThreads:
    """Threads that run blocking calls, kept for the next call, and never joined.

    A thread cannot be killed. The threads of `concurrent.futures` are joined when the
    interpreter exits, so one call that hangs keeps the process alive for ever. These are daemon
    threads: a call that still runs when the process ends is abandoned, exactly as it is when the
    process is killed, and whoever asked for it tries again elsewhere.

    There is no upper bound: as many threads exist as calls ever ran at the same time. Whoever
    hands out the calls limits them; a worker does, by its number of concurrent activities.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._idle = threading.Semaphore(0)

    def submit(self, job: Callable[[], None]) -> None:
        """Run `job` in an idle thread, or in a new one. The job must not raise."""
        if not self._idle.acquire(blocking=False):
            threading.Thread(target=self._serve, name=self._name, daemon=True).start()
        self._jobs.put(job)

    def _serve(self) -> None:
        while True:
            job = self._jobs.get()
            job()
            del job  # an idle thread keeps nothing of its last call alive
            self._idle.release()


_threads = DaemonThreads("outlast-call")


def _begin_anew() -> None:
    """Forget the threads of the process that this one was forked from: they are not here."""
    global _threads  # noqa: PLW0603  threads are the process's, too
    _threads = DaemonThreads("outlast-call")


if hasattr(os, "register_at_fork"):  # not on Windows, which has no forks
    os.register_at_fork(after_in_child=_begin_anew)


async def run_in_thread(function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """Run a blocking function in a thread and wait for it without blocking the event loop.

    The function sees the caller's context variables; what it sets in them stays its own.

    Cancelling the wait returns at once and leaves the thread to itself: a thread cannot be
    stopped from outside. Its result is dropped, its side effects happen all the same. Give
    everything in it that blocks a time-out of its own.

    Raises:
        RuntimeError: the function raised something that would end the thread or the event loop
            rather than the call, such as `SystemExit`.
        Exception: whatever else the function raised.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: T | None, error: Exception | None) -> None:
        if outcome.done():  # cancelled meanwhile
            return
        if error is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(result)  # type: ignore[arg-type]  # without an error it is a T

    def job() -> None:
        result, error = None, None
        try:
            result = context.run(function, *args, **kwargs)
        except StopIteration as stopped:
            error = _as_runtime_error(stopped)  # a future refuses it
        except Exception as failure:  # noqa: BLE001 - it is raised again where the call is awaited
            error = failure
        except BaseException as stopped:  # noqa: BLE001 - must not take the thread along
            error = _as_runtime_error(stopped)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, error)

    _threads.submit(job)
    return await outcome


def _as_runtime_error(stopped: BaseException) -> RuntimeError:
    error = RuntimeError(f"the call raised {type(stopped).__name__}")
    error.__cause__ = stopped
    return error
