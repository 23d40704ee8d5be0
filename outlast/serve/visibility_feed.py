"""Lists of visibility as they change: one look at the server for all readers, whatever their filters.

Visibility is the only store, so any process serves any reader, and nothing is lost with one.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Hashable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Generic, Self, TypeVar

from temporalio.client import Client

from outlast.client.runs import LARGEST_PAGE

EntryT = TypeVar("EntryT")
WantedT = TypeVar("WantedT", bound=Hashable)

_PAUSES: Final = 2
"""How many times as long as a look takes the server is left alone after it, at least."""

_SECONDS_PER_PAGE: Final = 1.0
"""How many seconds the server is left alone at least for each page that a look has."""

GRACE: Final = timedelta(seconds=30)
"""How long nobody has to ask before the server is left alone: pages ask again sooner."""


@dataclass(eq=False)
class _Followed(Generic[EntryT, WantedT]):
    """All entries, and who reads which of them.

    Attributes:
        accepted: returns the entries of a filter.
        entries: all entries, in their order; None before the first look.
        filtered: the entries of each filter that somebody reads.
        news: set when something is new, and then replaced.
    """

    accepted: Callable[[tuple[EntryT, ...], WantedT], tuple[EntryT, ...]]
    entries: tuple[EntryT, ...] | None = None
    filtered: "dict[WantedT, tuple[EntryT, ...]]" = field(
        default_factory=dict[WantedT, tuple[EntryT, ...]]
    )
    failure: Exception | None = None
    is_closed: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)
    readers: "list[VisibilityReader[EntryT, WantedT]]" = field(
        default_factory=list["VisibilityReader[EntryT, WantedT]"]
    )
    task: asyncio.Task[None] | None = None
    idle: asyncio.TimerHandle | None = None

    def take(self, entries: tuple[EntryT, ...]) -> None:
        """Take what is there now; a filter for which nothing has changed keeps its entries."""
        if entries == self.entries:
            return
        self.entries, before = entries, self.filtered
        self.filtered = {}
        for wanted in {reader.wanted for reader in self.readers}:
            now = self.of(wanted)
            if now == before.get(wanted):
                self.filtered[wanted] = before[wanted]
        self.publish()

    def of(self, wanted: WantedT) -> tuple[EntryT, ...] | None:
        """Return the entries of a filter, the same object until one changes."""
        if self.entries is not None and wanted not in self.filtered:
            self.filtered[wanted] = self.accepted(self.entries, wanted)
        return self.filtered.get(wanted)

    def publish(self) -> None:
        """Wake the readers."""
        self.news.set()
        self.news = asyncio.Event()


class VisibilityFeed(ABC, Generic[EntryT, WantedT]):
    """What visibility lists, live in one process, with any number of filters.

    Args:
        grace: how long it is followed without readers.
    """

    def __init__(self, grace: timedelta = GRACE) -> None:
        self._grace = grace.total_seconds()
        self._followed: _Followed[EntryT, WantedT] | None = None

    @abstractmethod
    def looks(self, client: Client) -> AsyncGenerator[tuple[EntryT, ...]]:
        """Yield all entries, in their order, as often as they may have changed."""

    @abstractmethod
    def accepted(self, entries: tuple[EntryT, ...], wanted: WantedT) -> tuple[EntryT, ...]:
        """Return the entries of a filter."""

    @property
    def is_followed(self) -> bool:
        """Whether it is followed at the moment."""
        return self._followed is not None

    def known(self, wanted: WantedT) -> tuple[EntryT, ...] | None:
        """Return the entries of a filter, in their order; None if nobody follows them."""
        followed = self._followed
        if followed is None or followed.entries is None:
            return None
        return followed.filtered.get(wanted) or self.accepted(followed.entries, wanted)

    @asynccontextmanager
    async def reader(
        self, client: Client, wanted: WantedT
    ) -> "AsyncGenerator[VisibilityReader[EntryT, WantedT]]":
        """Read the entries of a filter, in their order, and again after each change.

        Args:
            client: connected to the runs' server.
            wanted: the filter.
        """
        followed = self._followed_now(client)
        reader = VisibilityReader(followed, wanted)
        followed.readers.append(reader)
        try:
            yield reader
        finally:
            followed.readers.remove(reader)
            self._rest(followed)

    def follow(self, client: Client) -> None:
        """Follow it for its grace, for somebody who will read it soon."""
        self._rest(self._followed_now(client))

    async def close(self) -> None:
        """Stop following; readers end."""
        followed = self._followed
        if followed is not None:
            self._end(followed)
            await asyncio.gather(*filter(None, [followed.task]), return_exceptions=True)

    def _followed_now(self, client: Client) -> _Followed[EntryT, WantedT]:
        followed = self._followed
        if followed is None:
            followed = self._followed = _Followed(self.accepted)
            followed.task = asyncio.create_task(self._follow(client, followed))
        if followed.idle is not None:
            followed.idle.cancel()
            followed.idle = None
        return followed

    def _rest(self, followed: _Followed[EntryT, WantedT]) -> None:
        """End it after its grace, unless somebody reads it until then."""
        if not followed.readers and self._followed is followed:
            loop = asyncio.get_running_loop()
            followed.idle = loop.call_later(self._grace, self._end, followed)

    async def _follow(self, client: Client, followed: _Followed[EntryT, WantedT]) -> None:
        try:
            async with aclosing(self.looks(client)) as looks:
                async for entries in looks:
                    followed.take(entries)
        except Exception as error:  # noqa: BLE001  its readers raise it
            followed.failure = error
            self._end(followed)

    def _end(self, followed: _Followed[EntryT, WantedT]) -> None:
        if self._followed is followed:
            self._followed = None
        if followed.idle is not None:
            followed.idle.cancel()
        if followed.task is not None and followed.failure is None:
            followed.task.cancel()
        followed.is_closed = True
        followed.publish()


class PolledFeed(VisibilityFeed[EntryT, None]):
    """What is looked at again and again, the same for every reader.

    Args:
        every: the time between two looks, at least. A look at many entries costs the server more,
            so it is followed by a longer pause.
        grace: how long it is followed without readers.
    """

    def __init__(self, every: timedelta, grace: timedelta = GRACE) -> None:
        super().__init__(grace)
        self._every = every.total_seconds()

    @abstractmethod
    async def look(self, client: Client) -> tuple[EntryT, ...]:
        """Return all entries."""

    async def looks(self, client: Client) -> AsyncGenerator[tuple[EntryT, ...]]:
        """Look again and again."""
        while True:
            began = time.monotonic()
            found = await self.look(client)
            took = time.monotonic() - began
            yield found
            pages = len(found) / LARGEST_PAGE  # namespaces have few searches a second
            await asyncio.sleep(max(self._every, took * _PAUSES, pages * _SECONDS_PER_PAGE))

    def accepted(self, entries: tuple[EntryT, ...], wanted: None) -> tuple[EntryT, ...]:
        """Return all of them."""
        del wanted
        return entries


class VisibilityReader(Generic[EntryT, WantedT]):
    """One reader: an asynchronous iterator of the entries of a filter, after each change.

    A slow reader gets the newest entries, and not those between.

    Attributes:
        wanted: which entries it reads.
    """

    def __init__(self, followed: _Followed[EntryT, WantedT], wanted: WantedT) -> None:
        self.wanted = wanted
        self._followed = followed
        self._seen: tuple[EntryT, ...] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> tuple[EntryT, ...]:
        """Wait for a change.

        Raises:
            AgentsException: visibility cannot be read.
        """
        followed = self._followed
        while True:
            if followed.failure is not None:
                raise followed.failure
            if followed.is_closed:
                raise StopAsyncIteration
            entries = followed.of(self.wanted)
            if entries is not None and entries is not self._seen:
                self._seen = entries
                return entries
            await followed.news.wait()
