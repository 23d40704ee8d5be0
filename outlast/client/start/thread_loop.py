"""The event loop of `Runner.run_sync`: one for each thread, open between calls.

What a program keeps between two calls, such as a connection pool, belongs to the loop that it was
first used in.
"""

import asyncio
import atexit
import contextvars
import os
import sys
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

T = TypeVar("T")

CLOSING_SECONDS: Final = 1.0
"""How long a task may take that begins while the loop is being closed, such as to close a socket."""


class ThreadLoop:
    """Runs coroutines as `asyncio.run` does, one after another in one loop."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_ours = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end; Ctrl-C cancels it."""
        loop = self._open_loop()
        asyncio.set_event_loop(loop)
        # One runner for each call: it handles Ctrl-C, and closing it would close the loop.
        runner = asyncio.Runner(loop_factory=lambda: loop)
        return runner.run(work, context=contextvars.copy_context())

    def close(self) -> None:
        """Close the loop, and cancel its remaining tasks.

        Unlike `asyncio.Runner`, this does not wait in a new thread for the loop's threads: Python
        3.12 starts no thread while the interpreter exits, and has ended those of the loop.
        """
        loop, self._loop = self._loop, None
        if loop is None or loop.is_closed() or not self._is_ours or self._pid != os.getpid():
            return
        try:
            loop.run_until_complete(_end_tasks(asyncio.all_tasks(loop)))
        finally:
            loop.close()

    def __del__(self) -> None:
        with suppress(Exception):  # the interpreter may be ending, and nobody can handle it
            self.close()

    def _open_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None or self._loop.is_closed() or self._pid != os.getpid():
            # A forked process has its parent's loop, and must not use it.
            usual = _default_loop() if self._pid == os.getpid() else None
            self._pid, self._is_ours = os.getpid(), usual is None
            self._loop = usual or asyncio.new_event_loop()
        return self._loop


async def _end_tasks(tasks: "set[asyncio.Task[Any]]") -> None:
    """Cancel tasks and wait for them, and for tasks that close what was open until now."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
    if begun := asyncio.all_tasks() - {asyncio.current_task()}:
        _, late = await asyncio.wait(begun, timeout=CLOSING_SECONDS)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)
    await asyncio.get_running_loop().shutdown_asyncgens()


_of_thread = threading.local()


def thread_loop() -> ThreadLoop:
    """Return the calling thread's loop."""
    current: ThreadLoop | None = getattr(_of_thread, "loop", None)
    if current is None:
        current = _of_thread.loop = ThreadLoop()
        if threading.current_thread() is threading.main_thread():
            atexit.register(current.close)
    return current


def _default_loop() -> asyncio.AbstractEventLoop | None:
    if sys.version_info >= (3, 14):
        try:
            loop = asyncio.get_event_loop()
        except RuntimeError:
            return None
    else:
        # `get_event_loop` would create a loop in the main thread that is never closed.
        policy = asyncio.get_event_loop_policy()  # pyright: ignore[reportDeprecated]  not of these versions
        loop: Any = getattr(getattr(policy, "_local", None), "_loop", None)
    return None if loop is None or loop.is_closed() else loop
