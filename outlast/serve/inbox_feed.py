"""The inbox as it changes, the same for all readers of a process."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import timedelta

from temporalio.client import Client

from outlast.client.inbox import InboxCriteria, InboxEntry, accepted, entries_of, urgency
from outlast.serve.run_feed import RunFeed
from outlast.serve.visibility_feed import GRACE, VisibilityFeed
from outlast.temporal.visibility.scopes import RunScope
from outlast.views.records import Person, Risk


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


class InboxFeed(VisibilityFeed[InboxEntry, InboxFilter]):
    """The live inbox of one process, the most urgent entries first.

    Args:
        runs: the runs that people have to do with.
        grace: how long it is followed without readers.
    """

    def __init__(self, runs: RunFeed, grace: timedelta = GRACE) -> None:
        super().__init__(grace)
        self._runs = runs

    async def looks(self, client: Client) -> AsyncGenerator[tuple[InboxEntry, ...]]:
        """Yield what waits for people, and what people hold, in its order."""
        async with self._runs.reader(client, None) as reader:
            async for found in reader:
                yield tuple(sorted(entries_of(client, found, held=True), key=urgency))

    def accepted(
        self, entries: tuple[InboxEntry, ...], wanted: InboxFilter
    ) -> tuple[InboxEntry, ...]:
        """Return the entries of a filter."""
        return tuple(accepted(entries, **wanted.criteria))
