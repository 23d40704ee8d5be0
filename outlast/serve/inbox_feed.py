"""The inbox as it changes: one look at the server for each filter, however many readers it has.

Visibility is the only store, so any process serves any reader, and nothing is lost with one.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Self

from temporalio.client import Client

from outlast.client.inbox import Inbox, InboxCriteria, InboxEntry, urgency
from outlast.loop.approvals import Person, Risk
from outlast.serve.feed import TooManyReaders

READERS_PER_PERSON: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxFilter:
    """Which entries a reader sees; see `Inbox.list`.

    Attributes:
        mine: only what this person may decide, and what they hold; None for everybody's.
        group: only what this group may decide; empty for all.
        risk: only this risk; None for all.
    """

    mine: Person | None = None
    group: str = ""
    risk: Risk | None = None

    @property
    def criteria(self) -> InboxCriteria:
        """The filter as arguments of an `Inbox`."""
        return InboxCriteria(mine=self.mine, group=self.group or None, risk=self.risk, held=True)


@dataclass(eq=False)
class _Followed:
    """The entries of a filter, and who reads them."""

    entries: tuple[InboxEntry, ...] | None = None
    failure: Exception | None = None
    is_closed: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)
    readers: "list[InboxReader]" = field(default_factory=list["InboxReader"])
    task: asyncio.Task[None] | None = None
    idle: asyncio.TimerHandle | None = None

    def publish(self) -> None:
        self.news.set()
        self.news = asyncio.Event()


class InboxFeed:
    """The live inboxes of one process.

    Args:
        every: the time between two looks at visibility.
        grace: how long a filter without readers is followed.
    """

    def __init__(
        self, every: timedelta = timedelta(seconds=2), grace: timedelta = timedelta(seconds=10)
    ) -> None:
        self._every = every.total_seconds()
        self._grace = grace.total_seconds()
        self._followed: dict[InboxFilter, _Followed] = {}

    @property
    def followed(self) -> frozenset[InboxFilter]:
        """The filters that are followed at the moment."""
        return frozenset(self._followed)

    @asynccontextmanager
    async def reader(
        self, client: Client, wanted: InboxFilter, *, person: str = ""
    ) -> "AsyncGenerator[InboxReader]":
        """Read the entries of a filter, the most urgent first, and again after each change.

        Args:
            client: connected to the runs' server.
            wanted: the filter.
            person: who reads, for the limit; empty for nobody in particular.

        Raises:
            TooManyReaders: the person has too many readers.
        """
        readers = [one for followed in self._followed.values() for one in followed.readers]
        if person and sum(one.person == person for one in readers) >= READERS_PER_PERSON:
            raise TooManyReaders(
                f"{person!r} reads the inbox {READERS_PER_PERSON} times already. Close a page."
            )
        followed = self._followed.get(wanted)
        if followed is None:
            followed = self._followed[wanted] = _Followed()
            followed.task = asyncio.create_task(self._follow(client, wanted, followed))
        if followed.idle is not None:
            followed.idle.cancel()
            followed.idle = None
        reader = InboxReader(followed, person)
        followed.readers.append(reader)
        try:
            yield reader
        finally:
            followed.readers.remove(reader)
            if not followed.readers and self._followed.get(wanted) is followed:
                loop = asyncio.get_running_loop()
                followed.idle = loop.call_later(self._grace, self._end, wanted)

    async def close(self) -> None:
        """Stop following; readers end."""
        tasks = [one.task for one in self._followed.values() if one.task is not None]
        for wanted in list(self._followed):
            self._end(wanted)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, client: Client, wanted: InboxFilter, followed: _Followed) -> None:
        inbox = Inbox(client)
        try:
            while True:
                async with aclosing(inbox.all(**wanted.criteria)) as found:
                    entries = tuple(sorted([entry async for entry in found], key=urgency))
                if entries != followed.entries:
                    followed.entries = entries
                    followed.publish()
                await asyncio.sleep(self._every)
        except Exception as error:  # noqa: BLE001  its readers raise it
            followed.failure = error
            self._end(wanted)

    def _end(self, wanted: InboxFilter) -> None:
        followed = self._followed.pop(wanted, None)
        if followed is None:
            return
        if followed.idle is not None:
            followed.idle.cancel()
        if followed.task is not None and followed.failure is None:
            followed.task.cancel()
        followed.is_closed = True
        followed.publish()


class InboxReader:
    """One reader of an inbox: an asynchronous iterator of all its entries, after each change.

    A slow reader gets the newest entries, and not those between.

    Attributes:
        person: who reads; empty for nobody in particular.
    """

    def __init__(self, followed: _Followed, person: str) -> None:
        self.person = person
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
            if followed.entries is not None and followed.entries is not self._seen:
                self._seen = followed.entries
                return followed.entries
            await followed.news.wait()
