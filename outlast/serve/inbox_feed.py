"""The inbox as it changes: one look at the server for all readers."""

from contextlib import aclosing
from dataclasses import dataclass

from temporalio.client import Client

from outlast.client.inbox import Inbox, InboxCriteria, InboxEntry, accepted, urgency
from outlast.serve.visibility_feed import VisibilityFeed
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
    """The live inbox of one process, the most urgent entries first."""

    async def look(self, client: Client) -> tuple[InboxEntry, ...]:
        """Return all that waits for people, and all conversations that people hold."""
        async with aclosing(Inbox(client).all(held=True)) as found:
            return tuple(sorted([entry async for entry in found], key=urgency))

    def accepted(
        self, entries: tuple[InboxEntry, ...], wanted: InboxFilter
    ) -> tuple[InboxEntry, ...]:
        """Return the entries of a filter."""
        return tuple(accepted(entries, **wanted.criteria))
