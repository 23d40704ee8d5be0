"""The conversations that colleagues share, for the lists and counts of everybody at the desk.

One look at the server serves all: what is somebody's, their teams', nobody's, or needs attention.
"""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeAlias, get_args

from temporalio.client import Client

from outlast.agents.errors import AgentsException
from outlast.client.runs import (
    ListedRun,
    RunFilter,
    attention_query,
    count_executions,
    executions,
    listed_run,
)
from outlast.contract import names
from outlast.contract.searchability import searchable
from outlast.edges import clock
from outlast.serve.visibility_feed import GRACE, VisibilityFeed
from outlast.temporal.visibility.scopes import RunScope, any_covers
from outlast.views.mentions import mention_tag
from outlast.views.records import Person

CaseView: TypeAlias = Literal[
    "mine", "team", "nobody", "attention", "mentions", "snoozed", "resolved"
]
"""The lists of shared conversations."""

SEARCHED: Final[tuple[Literal["snoozed", "resolved"], ...]] = ("snoozed", "resolved")
"""The lists that are searched for by their status: they may be long, and nobody has to act."""

FRESH_SECONDS: Final = 5.0
"""How long an answer of the server counts as present."""

LIST_SECONDS: Final = 1.5
"""How long a page of a list counts as present."""

MOST_KEPT: Final = 500
_FAR: Final = datetime.max.replace(tzinfo=clock.time_of(0).tzinfo)


class CaseFeed(VisibilityFeed[ListedRun, tuple[RunScope, ...]]):
    """The open conversations that people share or have to look at, those that wait first.

    The filter of a reader is the scopes of the runs that they see. Namespaces have few searches a
    second for all their processes, so thousands of conversations are looked at less often.
    """

    per_page = 1.0

    def __init__(self, every: timedelta = timedelta(seconds=2), grace: timedelta = GRACE) -> None:
        super().__init__(every, grace)
        self.recent = Recent()
        self.lists = Recent(LIST_SECONDS)

    async def look(self, client: Client) -> tuple[ListedRun, ...]:
        """Return all conversations that somebody shares, or that wait for people."""
        async with aclosing(executions(client, _query(clock.now()))) as found:
            runs = [listed_run(one) async for one in found]
        return tuple(sorted((one for one in runs if not one.is_nested), key=_order))

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


def _query(now: datetime) -> str:
    """Return a search for the runs that somebody may have to do something with."""
    status, waits = names.ATTRIBUTE_STATUS, "('waiting', 'held', 'parked', 'blocked')"
    shared = " OR ".join(
        f"{one} IS NOT NULL"
        for one in (names.ATTRIBUTE_ASSIGNEE, names.ATTRIBUTE_TEAM, names.ATTRIBUTE_TAGS)
    )
    is_away = " AND ".join(f"{status} != '{one}'" for one in SEARCHED)
    is_here = f"ExecutionStatus = 'Running' AND ({status} IS NULL OR ({is_away}))"
    return (
        f"WorkflowType = '{names.WORKFLOW}' AND (({is_here} AND ({status} IN {waits} OR {shared})) "
        f"OR {attention_query(now)})"
    )


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
        self._known[key] = (time.monotonic(), answer)
        self._known.move_to_end(key)
        while len(self._known) > MOST_KEPT:
            self._known.popitem(last=False)


async def unless_away(asked: Awaitable[Any], otherwise: Any) -> Any:
    """Return an answer of the server, or something else where it gives none."""
    try:
        return await asked
    except (AgentsException, TimeoutError):
        return otherwise
