"""Live pages of a run: when to look at it again, and which entries of a list have changed."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Generic, TypeVar

from outlast.agents.errors import AgentsException
from outlast.client.timeline import Step
from outlast.deliveries.problems import Refused
from outlast.serve.feed import Cut, Ended, FeedReader, Snapshot
from outlast.serve.routing import Desk
from outlast.views.trouble import ServerFacts

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Moment:
    """A run, as this process has read it by now.

    Attributes:
        entries: the reader, which has taken everything that there is.
        facts: what the server says about the run.
        is_over: whether the run has ended, so that nothing follows.
    """

    entries: FeedReader
    facts: ServerFacts
    is_over: bool


async def moments(desk: Desk, run_id: str) -> AsyncGenerator[Moment | None]:
    """Yield None once a reader is there, and then the run whenever it or its trouble is another one.

    A reader that is cut off, and one whose server is away, ends: the browser comes back.

    Raises:
        TooManyReaders: the run has too many readers.
    """
    async with (
        desk.feed.reader(run_id) as entries,
        desk.troubles.watch(run_id, lambda: entries.state) as watch,
    ):
        yield None
        has_begun = False
        try:
            async with aclosing(watch.beside(entries.changes())) as changes:
                async for entry in changes:
                    if isinstance(entry, Cut):
                        return
                    has_begun, is_over = has_begun or entry is not None, isinstance(entry, Ended)
                    if is_over or (has_begun and not entries.has_more):
                        yield Moment(entries, watch.facts, is_over)
        except AgentsException:
            return


async def present(desk: Desk, run_id: str) -> tuple[Snapshot, tuple[Step, ...], tuple[int, ...]]:
    """Return a run as this process has read it, its steps, and when its items were written.

    Raises:
        Refused: the desk is shutting down.
    """
    async with desk.feed.reader(run_id) as entries:
        now = await anext(entries)
        if not isinstance(now, Snapshot):
            raise Refused(503, "shutting_down", "The desk is shutting down. Try again.")
        return now, tuple(entries.steps), tuple(entries.times)


@dataclass
class LiveList(Generic[T]):
    """The newest entries of a list in one browser, to send it what has changed.

    Attributes:
        name: the id of the list.
        known: the entries that the browser has, by their keys; None before the first.
    """

    name: str
    known: Mapping[str, T] | None = None

    def changes(self, now: Mapping[str, T], html: Callable[[T], str]) -> list[str]:
        """Return what the browser swaps in.

        Args:
            now: the entries.
            html: returns an entry as HTML.
        """
        known, self.known = self.known, now
        if known is None or list(known) != list(now)[: len(known)]:
            entries = "".join(html(one) for one in now.values())
            return [f'<ol id="{self.name}" hx-swap-oob="innerHTML">{entries}</ol>']
        changed = [
            html(one).replace("<li ", '<li hx-swap-oob="true" ', 1)
            for key, one in now.items()
            if key in known and one != known[key]
        ]
        added = "".join(html(one) for key, one in now.items() if key not in known)
        ends = f'<ol hx-swap-oob="beforeend:#{self.name}">{added}</ol>'
        return [*changed, ends] if added else changed
