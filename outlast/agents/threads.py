"""Threads for callables that block."""

import contextlib
import contextvars
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class DaemonThreads:
    """Reusable daemon threads that run blocking calls and are never joined.

    A thread cannot be killed. The interpreter joins the threads of `concurrent.futures` when it
    exits, so one call that hangs would keep the process alive for ever. A daemon thread's call is
    abandoned when the process ends, as it is when the process is killed. If the call is part of an
    activity, Temporal retries the activity on another worker.

    There is no upper limit: the number of threads is the highest number of concurrent calls so
    far. A worker limits the calls by its number of concurrent activities.
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
            del job  # an idle thread must not keep objects of its last call alive
            self._idle.release()


_threads = DaemonThreads("outlast-call")


def _begin_anew() -> None:
    """Replace the threads after a fork, because the child process has none."""
    global _threads  # noqa: PLW0603  threads are the process's, too
    _threads = DaemonThreads("outlast-call")


if hasattr(os, "register_at_fork"):  # not on Windows, which has no forks
    os.register_at_fork(after_in_child=_begin_anew)


async def run_in_thread(function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """Run a blocking function in a thread, without blocking the event loop.

    The function runs in a copy of the caller's context variables; its changes are not visible to
    the caller.

    If the wait is cancelled, it returns at once and the thread keeps running, because a thread
    cannot be stopped from outside. The result is dropped, but side effects still happen. Give every
    blocking operation in the function its own timeout.

    Raises:
        RuntimeError: the function raised an exception that would end the thread or the
            event loop, such as `SystemExit`, or a `StopIteration`.
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
            error = _as_runtime_error(stopped)  # a future does not accept a StopIteration
        except Exception as failure:  # noqa: BLE001 - it is raised again where the call is awaited
            error = failure
        except BaseException as stopped:  # noqa: BLE001 - must not take the thread along
            error = _as_runtime_error(stopped)
        with contextlib.suppress(RuntimeError):  # the loop is closed; the result is not needed
            loop.call_soon_threadsafe(settle, result, error)

    _threads.submit(job)
    return await outcome


def _as_runtime_error(stopped: BaseException) -> RuntimeError:
    error = RuntimeError(f"the call raised {type(stopped).__name__}")
    error.__cause__ = stopped
    return error
