"""The conversations that colleagues share, for the lists and counts of everybody at the desk.

One look at the server serves all: what is somebody's, their teams', nobody's, or needs attention.
"""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias, get_args

from temporalio.client import Client

from outlast.agents.errors import AgentsException
from outlast.client.runs import (
    ListedRun,
    RunFilter,
    count_executions,
    listed_run,
)
from outlast.contract.searchability import searchable
from outlast.edges import clock
from outlast.edges.newest import keep_newest
from outlast.serve.run_feed import SEARCHED, RunFeed
from outlast.serve.visibility_feed import VisibilityFeed
from outlast.temporal.visibility.scopes import RunScope, any_covers
from outlast.views.mentions import mention_tag
from outlast.views.records import Person

CaseView: TypeAlias = Literal[
    "mine", "team", "nobody", "attention", "mentions", "snoozed", "resolved"
]
"""The lists of shared conversations."""

FRESH_SECONDS: Final = 5.0
"""How long an answer of the server counts as present."""

LIST_SECONDS: Final = 1.5
"""How long a page of a list counts as present."""

MOST_KEPT: Final = 500
_FAR: Final = datetime.max.replace(tzinfo=clock.time_of(0).tzinfo)


class CaseFeed(VisibilityFeed[ListedRun, tuple[RunScope, ...]]):
    """The open conversations that people share or have to look at, those that wait first.

    The filter of a reader is the scopes of the runs that they see.

    Args:
        runs: the runs that people have to do with.
    """

    def __init__(self, runs: RunFeed) -> None:
        super().__init__()
        self._runs = runs
        self.recent = Recent()
        self.lists = Recent(LIST_SECONDS)

    async def looks(self, client: Client) -> AsyncGenerator[tuple[ListedRun, ...]]:
        """Yield the shared conversations and those that wait, in their order."""
        async with self._runs.reader(client, None) as reader:
            async for found in reader:
                runs = (listed_run(one) for one in found)
                here = (one for one in runs if not one.is_nested and one.status not in SEARCHED)
                yield tuple(sorted(here, key=_order))

    def accepted(
        self, entries: tuple[ListedRun, ...], wanted: tuple[RunScope, ...]
    ) -> tuple[ListedRun, ...]:
        """Return the conversations of some scopes."""
        return tuple(
            one
            for one in entries
            if any_covers(wanted, tenant=one.tenant, agent=one.agent, people=one.people)
        )

    async def entries(self, client: Client, scopes: tuple[RunScope, ...]) -> tuple[ListedRun, ...]:
        """Return the conversations of some scopes; the server is asked if nobody did lately.

        Raises:
            AgentsException: the server does not answer, or lacks the search attributes.
        """
        async with self.reader(client, scopes) as reader:
            async for entries in reader:
                return entries
        return ()

    async def counted(self, client: Client, scopes: tuple[RunScope, ...]) -> dict[str, int]:
        """Return how many conversations have been put off, and how many resolved."""

        async def count(status: Literal["snoozed", "resolved"]) -> int:
            query = RunFilter(status=status, scopes=scopes).query()
            return await self.recent.get(query, lambda: count_executions(client, query, None))

        return dict(zip(SEARCHED, await asyncio.gather(*map(count, SEARCHED)), strict=True))

    def known_counts(self, scopes: tuple[RunScope, ...]) -> dict[str, int]:
        """Return the same without asking anybody, as far as it is known."""
        queries = {one: RunFilter(status=one, scopes=scopes).query() for one in SEARCHED}
        found = {one: self.recent.known(query) for one, query in queries.items()}
        return {one: count for one, count in found.items() if count is not None}


def _order(run: ListedRun) -> tuple[Any, ...]:
    """Customers who wait come first: what is due soonest, then who came first."""
    return not run.customer_waits, run.due or _FAR, run.started


def of_view(entries: Iterable[ListedRun], view: CaseView, person: Person) -> tuple[ListedRun, ...]:
    """Return the conversations of a list, as one person sees it."""
    now, me = clock.now(), searchable(person.subject)
    teams, called = set(map(searchable, person.groups)), searchable(mention_tag(person.subject))
    fits: dict[CaseView, Callable[[ListedRun], bool]] = {
        "mine": lambda run: run.closed is None and run.assignee == me,
        "team": lambda run: run.closed is None and run.team in teams,
        "nobody": is_nobodys,
        "attention": lambda run: bool(run.attention(now)),
        "mentions": lambda run: run.closed is None and called in run.tags,
    }
    return tuple(filter(fits[view], entries))


def is_nobodys(run: ListedRun) -> bool:
    """Whether a conversation waits for people, or for its team, and nobody has it."""
    waits = run.status in {"waiting", "blocked"} or run.is_unanswered or bool(run.team)
    is_held = run.status == "held" and not run.is_given_to_team
    return run.closed is None and not run.assignee and not is_held and waits


def counts_of(entries: Collection[ListedRun], person: Person) -> dict[str, int]:
    """Return how many conversations each list has, as one person sees them."""
    views = [one for one in get_args(CaseView) if one not in SEARCHED]
    return {one: len(of_view(entries, one, person)) for one in views}


def choices_of(entries: Iterable[ListedRun], field: str, most: int = 50) -> dict[str, int]:
    """Return the teams, assignees or tags of open conversations, and how many have each.

    Args:
        entries: the conversations.
        field: `team`, `assignee` or `tags`.
        most: how many are returned, those of most conversations.
    """
    found: Counter[str] = Counter()
    for run in entries:
        value: Any = getattr(run, field)
        found.update([value] if isinstance(value, str) else value)
    return {name: count for name, count in found.most_common(most) if name}


class Recent:
    """What a server has just said, so that many who ask the same ask it once.

    Args:
        fresh_seconds: how long an answer counts as present.
    """

    def __init__(self, fresh_seconds: float = FRESH_SECONDS) -> None:
        self._fresh = fresh_seconds
        self._known: OrderedDict[object, tuple[float, Any]] = OrderedDict()
        self._asking: dict[object, asyncio.Task[Any]] = {}

    async def get(self, key: object, ask: Callable[[], Awaitable[Any]]) -> Any:
        """Return an answer, which is asked for if nobody did lately."""
        known = self._known.get(key)
        if known is not None and time.monotonic() - known[0] < self._fresh:
            return known[1]
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = asyncio.ensure_future(self._ask(key, ask))
            task.add_done_callback(lambda _: self._asking.pop(key, None))
        return await asyncio.shield(task)  # others wait for the same answer

    def known(self, key: object) -> Any:
        """Return the newest answer; None if there is none."""
        return self._known.get(key, (0, None))[1]

    async def _ask(self, key: object, ask: Callable[[], Awaitable[Any]]) -> Any:
        answer = await ask()
        self.put(key, answer)
        return answer

    def put(self, key: object, answer: Any) -> None:
        """Take an answer that somebody has otherwise."""
        keep_newest(self._known, key, (time.monotonic(), answer), MOST_KEPT)


async def unless_away(asked: Awaitable[Any], otherwise: Any) -> Any:
    """Return an answer of the server, or something else where it gives none."""
    try:
        return await asked
    except (AgentsException, TimeoutError):
        return otherwise
