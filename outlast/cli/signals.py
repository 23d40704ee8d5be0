"""Stops `outlast dev` and `outlast worker` at a signal or at the end of standard input."""

import asyncio
import os
import signal
import threading


def stop_requested(*, forced: bool = False) -> asyncio.Event:
    """Return an event that SIGINT and SIGTERM set.

    Args:
        forced: a second signal ends the process immediately.
    """
    stop = asyncio.Event()

    def on_signal(number: int) -> None:
        if stop.is_set() and forced:
            # `sys.exit` would wait for the threads of users' tools.
            os._exit(128 + number)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal, number)
    return stop


def set_at_end_of_input(stop: asyncio.Event) -> None:
    """Set the event when standard input ends, so that a worker never outlives its parent."""
    loop = asyncio.get_running_loop()

    def read() -> None:
        while os.read(0, 4096):
            pass
        loop.call_soon_threadsafe(stop.set)

    threading.Thread(target=read, daemon=True).start()
