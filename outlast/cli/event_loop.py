"""The event loop and the garbage collection of a process that runs for long."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import TypeVar

T = TypeVar("T")


def run(main: Coroutine[object, object, T]) -> T:
    """Run a process's coroutine on uvloop if it is installed, or else on asyncio's own loop.

    A worker's threads wake its loop several times in each turn: uvloop takes about 15 % less CPU.
    """
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(main)


def keep_loaded() -> None:
    """Exclude the objects that exist now from later garbage collections.

    A full collection goes through all objects while the loop stands still. For what a desk has loaded,
    it took a tenth of a second on a busy machine.
    """
    gc.collect()
    gc.freeze()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        from uvloop import new_event_loop
    except ImportError:  # the extra `speed` is not installed, or not available for this system
        return None
    return new_event_loop
