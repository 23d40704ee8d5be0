"""Reading a run along, to where it needs somebody or ends.

Owns: telling what is over from what is present, and `RunReading`, which opens a run and reads it
for `RunResultStreaming`. Must not know: what events look like.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from outlast.agents.errors import RunClosed
from outlast.client.deltas import RawEvent
from outlast.loop.events import CancelMode
from outlast.loop.state import LoopState

Place: TypeAlias = tuple[str, int]
"""How far a history was read, as `RunReader.place` has it."""

Request: TypeAlias = tuple[str, str]
"""A request for approval: the nested run it waits in, or nothing; and its id."""


def is_settled(state: LoopState, without: frozenset[Request] = frozenset()) -> bool:
    """Whether nothing more happens unless somebody says or decides something.

    A session has everything by then.

    Args:
        state: the run.
        without: requests that were decided; of nested ones the run may not know it yet.
    """
    if state.phase == "closed":
        return True
    waiting = {(one.run_id, one.id) for one in state.pending_approvals}
    return state.status in {"waiting", "idle"} and not without & waiting


@dataclass
class CaughtUp:
    """Tells whether a reader has come to what was the present at some time.

    A history also tells of every time the run waited before; those are over.

    Attributes:
        place: how far the history went at that time; None for its very beginning.
        from_start: the reader begins with the first of the histories that continue each other,
            and not with the newest.
    """

    place: Place | None
    from_start: bool
    _met: bool = False

    def is_reached(self, place: Place) -> bool:
        """Whether a place that the reader has come to is there, or behind it."""
        if self.place is None:
            return True
        if place[0] == self.place[0]:
            self._met = True
            return place[1] >= self.place[1]
        return self._met or not self.from_start


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRange:
    """Which part of a run is read along.

    Attributes:
        begins: where what is told begins; None for the run's first event.
        settles: from where on the run counts as settled when it waits.
        without: requests that were decided.
    """

    begins: Place | None = None
    settles: Place | None = None
    without: frozenset[Request] = frozenset()


class ReadableRun(Protocol):
    """A run on a server, as far as reading needs it: a `RunHandle`."""

    @property
    def kept_client(self) -> Any:
        """What results keep of the client it is read with."""
        ...

    def read_along(self, read_range: ReadRange) -> AsyncGenerator[LoopState | RawEvent]:
        """Yield the states of a run, and what models say."""
        ...

    async def cancel(self, mode: CancelMode) -> None:
        """Stop the run."""
        ...


class RunReading:
    """Opens a run when it is first read, and reads it along.

    Args:
        open_run: starts the run, or sends it what was decided; returns it, and what to read.
        at_end: is told the last state when nobody reads any more; None if the run was not read
            to where it settles.

    Attributes:
        client: what results keep of the client that the run is read with, once it is open.
    """

    def __init__(
        self,
        open_run: Callable[[], Awaitable[tuple[ReadableRun, ReadRange]]],
        at_end: Callable[[LoopState | None], None] | None = None,
    ) -> None:
        self.client: Any = None
        self._open_run = open_run
        self._at_end = at_end
        self._run: ReadableRun | None = None
        self._tried = asyncio.Event()

    async def states(self) -> AsyncGenerator[LoopState | RawEvent]:
        """Yield the states of the run, the one in which the reading begins first.

        Raises:
            AgentsException: the run cannot be opened, or ended by the engine's means.
        """
        settled: LoopState | None = None
        try:
            try:
                self._run, read_range = await self._open_run()
                self.client = self._run.kept_client
            finally:
                self._tried.set()
            last: LoopState | None = None
            async with aclosing(self._run.read_along(read_range)) as told:
                async for one in told:
                    last = one if isinstance(one, LoopState) else last
                    yield one
            settled = last
        finally:
            if self._at_end is not None:
                self._at_end(settled)

    async def cancel(self, mode: CancelMode) -> None:
        """Stop the run, as soon as it is open. One that has ended is stopped."""
        await self._tried.wait()
        if self._run is not None:
            with suppress(RunClosed):
                await self._run.cancel(mode)
