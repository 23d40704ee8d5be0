"""Reads a run live, until it is settled."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from outlast.agents.errors import RunClosed
from outlast.client.read.delta_poller import RawEvent
from outlast.loop.events import CancelMode
from outlast.loop.state import LoopState

HistoryPlace: TypeAlias = tuple[str, int]
"""A place in a history, as in `RunReader.place`."""

RequestKey: TypeAlias = tuple[str, str]
"""An approval request: the id of its nested run, or an empty text; and its id."""


def is_settled(state: LoopState, without: frozenset[RequestKey] = frozenset()) -> bool:
    """Whether the run only continues after a message or a decision, with its session saved.

    `without` are requests that were decided, although the state may not show it yet.
    """
    if state.phase == "closed":
        return True
    waiting = {(request.run_id, request.id) for request in state.pending_approvals}
    return state.status in {"waiting", "held", "idle"} and not without & waiting


@dataclass
class CaughtUp:
    """Whether a reader has read up to a place; a history also shows earlier waits, which are over.

    Attributes:
        from_start: the reader begins with the run's first history instead of the newest.
    """

    place: HistoryPlace | None
    from_start: bool
    _entered: bool = False

    def is_reached(self, place: HistoryPlace) -> bool:
        """Whether a reader's place is this place or after it."""
        if self.place is None:
            return True
        if place[0] == self.place[0]:
            self._entered = True
            return place[1] >= self.place[1]
        return self._entered or not self.from_start


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRange:
    """The part of a run to read.

    Attributes:
        begins: the place where reading begins; None for the run's first event.
        settles: the place from which on a wait counts as settled.
        without: requests that were decided.
    """

    begins: HistoryPlace | None = None
    settles: HistoryPlace | None = None
    without: frozenset[RequestKey] = frozenset()

    def is_settled(self, state: LoopState) -> bool:
        """Whether the run only continues after a message or a decision, with its session saved."""
        return state.status != "held" and is_settled(state, self.without)


class ReadableRun(Protocol):
    """A run on a server that can be read: a `RunHandle`."""

    @property
    def kept_client(self) -> Any:
        """The client for results to keep."""
        ...

    def read_states(self, read_range: ReadRange) -> AsyncGenerator[LoopState | RawEvent]:
        """Yield the states of a run, and the models' events."""
        ...

    async def cancel(self, mode: CancelMode) -> None:
        """Stop the run."""
        ...


class RunReading:
    """Opens a run when it is first read, and reads it live.

    At the end, `at_end` gets the state in which the run settled, or None if it did not.
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
        """Yield the states of the run, beginning with the first of the range."""
        settled: LoopState | None = None
        try:
            try:
                self._run, read_range = await self._open_run()
                self.client = self._run.kept_client
            finally:
                self._tried.set()
            last: LoopState | None = None
            async with aclosing(self._run.read_states(read_range)) as progress:
                async for step in progress:
                    last = step if isinstance(step, LoopState) else last
                    yield step
            settled = last
        finally:
            if self._at_end is not None:
                self._at_end(settled)

    async def cancel(self, mode: CancelMode) -> None:
        """Stop the run once it is open. A run that has ended stays as it is."""
        await self._tried.wait()
        if self._run is not None:
            with suppress(RunClosed):
                await self._run.cancel(mode)
