"""The windows of this process's model calls, for readers in the process.

A reader in the event loop of the call takes the text from here, in the provider's own pieces and
without a heartbeat, which is billed in a cloud. The last events of a call are here until they are
taken; readers elsewhere get the same text from the recorded reply.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from outlast.contract.streams.window import DeltaWindow
from outlast.edges.newest import keep_newest
from outlast.loop.values import JsonObject

MOST_WINDOWS: Final = 32
"""The maximum number of kept windows of finished calls; the oldest is dropped first."""

_LocalRun: TypeAlias = tuple[asyncio.AbstractEventLoop, str]
"""A run in an event loop; another thread would see its window halfway through a change."""


def place_of(client: Any, run_id: str) -> str:
    """Return what tells a run from those with its id on other servers and in other namespaces."""
    service = getattr(client, "service_client", None)
    server = service.config.target_host if service is not None else ""
    return f"{server} {client.namespace} {run_id}"


@dataclass(frozen=True, slots=True)
class FinishedCall:
    """A model call that has ended with a reply."""

    place: str
    effect: int
    response_id: str | None


@dataclass
class CallWindows:
    """The windows of running calls, the newest ones of finished calls, and who reads here."""

    _running: dict[_LocalRun, list[DeltaWindow]] = field(
        default_factory=dict[_LocalRun, list[DeltaWindow]]
    )
    _readers: Counter[_LocalRun] = field(default_factory=Counter[_LocalRun])
    _finished: OrderedDict[FinishedCall, JsonObject] = field(
        default_factory=OrderedDict[FinishedCall, JsonObject]
    )

    @contextmanager
    def running(self, place: str, window: DeltaWindow) -> Generator[None]:
        """Show the window of a call to readers in this event loop while the call runs."""
        here = asyncio.get_running_loop(), place
        self._running[here] = [*self._running.get(here, ()), window]
        try:
            yield
        finally:
            rest = [one for one in self._running[here] if one is not window]
            if rest:
                self._running[here] = rest
            else:
                del self._running[here]

    def of_run(self, place: str) -> list[DeltaWindow]:
        """Return the windows of a run's calls that run in this event loop."""
        return self._running.get((asyncio.get_running_loop(), place), [])

    @contextmanager
    def reading(self, place: str) -> Generator[None]:
        """Announce a reader of a run in this event loop."""
        here = asyncio.get_running_loop(), place
        self._readers[here] += 1
        try:
            yield
        finally:
            self._readers[here] -= 1
            if self._readers[here] <= 0:
                del self._readers[here]

    def has_reader(self, place: str) -> bool:
        """Whether anybody in this event loop reads the run."""
        return (asyncio.get_running_loop(), place) in self._readers

    def keep(self, call: FinishedCall, window: DeltaWindow) -> None:
        """Keep the window of a call; an empty one, of a call that was not streamed, is not kept."""
        details = window.details()
        if not details["events"]:
            return
        keep_newest(self._finished, call, details, MOST_WINDOWS)

    def pop(self, call: FinishedCall) -> JsonObject | None:
        """Return the window of a finished call as heartbeat details, once."""
        return self._finished.pop(call, None)


call_windows: Final = CallWindows()
"""The windows of this process."""
