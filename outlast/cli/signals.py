"""Signals, and the end of standard input, that stop a server or worker."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from typing import Any


def stop_requested(before_exit: Callable[[], None] | None = None) -> asyncio.Event:
    """Return an event that SIGINT and SIGTERM set; a second signal ends the process immediately.

    Args:
        before_exit: called first when a second signal ends the process.
    """
    stop = asyncio.Event()
    first = True

    def on_signal(number: int) -> None:
        nonlocal first
        # Not `stop.is_set()`: the first signal may arrive after the end of the input.
        if not first:
            if before_exit is not None:
                before_exit()
            # `sys.exit` would wait for the threads of users' tools.
            os._exit(128 + number)
        first = False
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal, number)
    return stop


async def work_until(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Do work that has no end, until somebody stops it."""
    working = asyncio.create_task(work)
    await stop.wait()
    working.cancel()
    await asyncio.wait({working})


class EndOfInput:
    """Sets an event when standard input ends, as it does with the parent process.

    Attributes:
        within: how long this process may live after that. Then it is ended, because nobody is left
            to end it: a tool may block its event loop.
    """

    def __init__(self, stop: asyncio.Event, *, within: timedelta) -> None:
        self.within = within
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while os.read(0, 4096):
            pass
        with suppress(RuntimeError):  # the loop is closed: this process is ending
            self._loop.call_soon_threadsafe(self._stop.set)
        time.sleep(self.within.total_seconds())
        os._exit(1)
