"""Lets a program that reads a run in this process stop it before the next turn's model call.

A request to stop after the turn takes longer to reach the run than the run takes from a tool's
output to the next model call. So that call waits until the readers here had a moment for it.
"""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Final, TypeAlias

LAG: Final = timedelta(seconds=2)
"""How long a model call waits at most for the events before it to reach the readers here."""

CHANCE: Final = timedelta(milliseconds=250)
"""How long a program may then handle those events before the model call begins."""

ARRIVAL: Final = timedelta(seconds=10)
"""How long a model call waits at most for a request to stop that is on its way to the run."""

_LocalRun: TypeAlias = tuple[asyncio.AbstractEventLoop, str]


class TurnReader:
    """A program that reads a run, in the event loop that hosts the run.

    Attributes:
        first_execution_id: the run's first execution; None until the run is open.
    """

    def __init__(self) -> None:
        self.first_execution_id: str | None = None
        self._received = self._seen = self._iterating = 0
        self._stop: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    @contextmanager
    def iterating(self) -> Generator[None]:
        """Announce that the program iterates over the events; otherwise no model call waits."""
        self._iterating += 1
        try:
            yield
        finally:
            self._iterating -= 1
            self._changed.set()

    def received(self, effect: int, *, seen: bool) -> None:
        """Record that all events before a model call are here, and whether they were handled."""
        self._received = max(self._received, effect)
        self._seen = max(self._seen, effect if seen else 0)
        self._changed.set()

    def stop(self, request: asyncio.Task[None]) -> None:
        """Record a request to stop after the turn, which ends when the run has it."""
        self._stop = request
        self._changed.set()

    async def until_seen(self, effect: int) -> None:
        """Wait until the program had its chance to stop the run before a model call."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LAG.total_seconds()):
                await self._until(lambda: self._received >= effect)
            async with asyncio.timeout(CHANCE.total_seconds()):
                await self._until(lambda: self._seen >= effect)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while self._iterating and self._stop is None and not condition():
            self._changed.clear()
            await self._changed.wait()

    async def has_stopped(self) -> bool:
        """Whether the run has the program's request to stop; true once for each request."""
        request, self._stop = self._stop, None
        if request is None:
            return False
        await asyncio.wait({request}, timeout=ARRIVAL.total_seconds())
        return request.done() and not request.cancelled() and request.exception() is None


class TurnStops:
    """The readers of this process, by run."""

    def __init__(self) -> None:
        self._readers: dict[_LocalRun, list[TurnReader]] = {}

    def add(self, run_id: str, reader: TurnReader) -> None:
        """Announce a reader of a run in this event loop."""
        self._readers.setdefault((asyncio.get_running_loop(), run_id), []).append(reader)

    def remove(self, run_id: str, reader: TurnReader) -> None:
        """Forget a reader; one that is not known is none."""
        place = asyncio.get_running_loop(), run_id
        rest = [one for one in self._readers.pop(place, ()) if one is not reader]
        if rest:
            self._readers[place] = rest

    async def is_stopped(self, run_id: str, first_execution_id: str, effect: int) -> bool:
        """Whether a reader here has stopped a run before a model call, and the run knows it.

        Readers of other runs that had the id, or have it on another server, say nothing.
        """
        known = self._readers.get((asyncio.get_running_loop(), run_id), ())
        readers = [one for one in known if one.first_execution_id == first_execution_id]
        await asyncio.gather(*(reader.until_seen(effect) for reader in readers))
        return any([await reader.has_stopped() for reader in readers])


turn_stops: Final = TurnStops()
"""The readers of this process."""
