"""The inbox as it changes: one look at the server for all readers, whatever their filters.

Visibility is the only store, so any process serves any reader, and nothing is lost with one.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Self

from temporalio.client import Client

from outlast.client.inbox import Inbox, InboxCriteria, InboxEntry, accepted, urgency
from outlast.temporal.visibility.scopes import RunScope
from outlast.views.records import Person, Risk

_PAUSES: Final = 2
"""How many times as long as a look takes the server is left alone after it, at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxFilter:
    """Which entries a reader sees; see `Inbox.list`.

    Attributes:
        mine: only what this person may decide, and what they hold; None for everybody's.
        group: only what this group may decide; empty for all.
        risk: only this risk; None for all.
        scopes: the runs that the reader sees; empty for all.
    """

    mine: Person | None = None
    group: str = ""
    risk: Risk | None = None
    scopes: tuple[RunScope, ...] = ()

    @property
    def criteria(self) -> InboxCriteria:
        """The filter as arguments of an `Inbox`."""
        return InboxCriteria(
            mine=self.mine,
            group=self.group or None,
            risk=self.risk,
            held=True,
            scopes=self.scopes,
        )


@dataclass(eq=False)
class _Followed:
    """All entries, and who reads which of them.

    Attributes:
        entries: all entries, the most urgent first; None before the first look.
        filtered: the entries of each filter that somebody reads.
        news: set when something is new, and then replaced.
    """

    entries: tuple[InboxEntry, ...] | None = None
    filtered: dict[InboxFilter, tuple[InboxEntry, ...]] = field(
        default_factory=dict[InboxFilter, tuple[InboxEntry, ...]]
    )
    failure: Exception | None = None
    is_closed: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)
    readers: "list[InboxReader]" = field(default_factory=list["InboxReader"])
    task: asyncio.Task[None] | None = None
    idle: asyncio.TimerHandle | None = None

    def take(self, entries: tuple[InboxEntry, ...]) -> None:
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

    def of(self, wanted: InboxFilter) -> tuple[InboxEntry, ...] | None:
        """Return the entries of a filter, the same object until one changes."""
        if self.entries is not None and wanted not in self.filtered:
            self.filtered[wanted] = tuple(accepted(self.entries, **wanted.criteria))
        return self.filtered.get(wanted)

    def publish(self) -> None:
        """Wake the readers."""
        self.news.set()
        self.news = asyncio.Event()


class InboxFeed:
    """The live inbox of one process, with any number of filters.

    Args:
        every: the time between two looks at visibility. A look at many entries costs the server
            more, so it is followed by a longer pause.
        grace: how long the inbox is followed without readers.
    """

    def __init__(
        self, every: timedelta = timedelta(seconds=2), grace: timedelta = timedelta(seconds=10)
    ) -> None:
        self._every = every.total_seconds()
        self._grace = grace.total_seconds()
        self._followed: _Followed | None = None

    @property
    def is_followed(self) -> bool:
        """Whether the inbox is followed at the moment."""
        return self._followed is not None

    def known(self, wanted: InboxFilter) -> tuple[InboxEntry, ...] | None:
        """Return the entries of a filter, the most urgent first; None if nobody follows them."""
        followed = self._followed
        if followed is None or followed.entries is None:
            return None
        return followed.filtered.get(wanted) or tuple(accepted(followed.entries, **wanted.criteria))

    @asynccontextmanager
    async def reader(self, client: Client, wanted: InboxFilter) -> "AsyncGenerator[InboxReader]":
        """Read the entries of a filter, the most urgent first, and again after each change.

        Args:
            client: connected to the runs' server.
            wanted: the filter.
        """
        followed = self._followed
        if followed is None:
            followed = self._followed = _Followed()
            followed.task = asyncio.create_task(self._follow(client, followed))
        if followed.idle is not None:
            followed.idle.cancel()
            followed.idle = None
        reader = InboxReader(followed, wanted)
        followed.readers.append(reader)
        try:
            yield reader
        finally:
            followed.readers.remove(reader)
            if not followed.readers and self._followed is followed:
                loop = asyncio.get_running_loop()
                followed.idle = loop.call_later(self._grace, self._end, followed)

    async def close(self) -> None:
        """Stop following; readers end."""
        followed = self._followed
        if followed is not None:
            self._end(followed)
            await asyncio.gather(*filter(None, [followed.task]), return_exceptions=True)

    async def _follow(self, client: Client, followed: _Followed) -> None:
        inbox = Inbox(client)
        try:
            while True:
                began = time.monotonic()
                async with aclosing(inbox.all(held=True)) as found:
                    followed.take(tuple(sorted([entry async for entry in found], key=urgency)))
                took = time.monotonic() - began
                await asyncio.sleep(max(self._every, took * _PAUSES))
        except Exception as error:  # noqa: BLE001  its readers raise it
            followed.failure = error
            self._end(followed)

    def _end(self, followed: _Followed) -> None:
        if self._followed is followed:
            self._followed = None
        if followed.idle is not None:
            followed.idle.cancel()
        if followed.task is not None and followed.failure is None:
            followed.task.cancel()
        followed.is_closed = True
        followed.publish()


class InboxReader:
    """One reader of an inbox: an asynchronous iterator of its entries, after each change.

    A slow reader gets the newest entries, and not those between.

    Attributes:
        wanted: which entries it reads.
    """

    def __init__(self, followed: _Followed, wanted: InboxFilter) -> None:
        self.wanted = wanted
        self._followed = followed
        self._seen: tuple[InboxEntry, ...] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> tuple[InboxEntry, ...]:
        """Wait for a change.

        Raises:
            AgentsException: the inbox cannot be read.
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
