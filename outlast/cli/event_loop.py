"""The event loop of a worker process."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TypeVar

T = TypeVar("T")


def run(main: Coroutine[object, object, T]) -> T:
    """Run a process's coroutine on uvloop if it is installed, or else on asyncio's own loop.

    A worker's threads wake its loop several times in each turn: uvloop takes about 15 % less CPU.
    """
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(main)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        from uvloop import new_event_loop
    except ImportError:  # the extra `speed` is not installed, or not available for this system
        return None
    return new_event_loop
