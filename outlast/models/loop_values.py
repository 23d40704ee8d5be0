"""Stores one value per event loop, such as a client of that loop."""

import asyncio
import threading
from typing import Generic, TypeVar

T = TypeVar("T")


class LoopValues(Generic[T]):
    """Keeps a value for each event loop until the loop is closed. Thread-safe."""

    def __init__(self) -> None:
        self._values: dict[asyncio.AbstractEventLoop, T] = {}
        self._lock = threading.Lock()

    def get(self) -> T | None:
        """Return the running loop's value, or None."""
        return self._values.get(asyncio.get_running_loop())

    def set(self, value: T) -> None:
        """Set the running loop's value, and drop the values of closed loops."""
        loop = asyncio.get_running_loop()
        with self._lock:
            open_ones = {one: kept for one, kept in self._values.items() if not one.is_closed()}
            self._values = {**open_ones, loop: value}

    def pop(self) -> T | None:
        """Remove and return the running loop's value, or return None."""
        with self._lock:
            return self._values.pop(asyncio.get_running_loop(), None)

    def pop_others(self) -> list[tuple[asyncio.AbstractEventLoop, T]]:
        """Remove and return the values of all other loops that are still open."""
        here = asyncio.get_running_loop()
        with self._lock:
            others = [
                (loop, value)
                for loop, value in self._values.items()
                if loop is not here and not loop.is_closed()
            ]
            self._values = {loop: one for loop, one in self._values.items() if loop is here}
        return others
