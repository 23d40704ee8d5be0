"""All conversations: where each is, what it waits for, who has it, and what it cost.

Temporal's visibility is the only store. What it does not have, tokens and costs, is read from the
runs' histories, a few at a time, and kept for a moment.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final, Literal, TypeAlias, get_args
from weakref import WeakKeyDictionary

from pydantic import Field
from starlette.responses import Response
from starlette.routing import BaseRoute
from temporalio.client import Client

from outlast.agents.errors import UserError
from outlast.client.runs import ListedRun, RunFilter, RunPage, list_runs, state_of
from outlast.contract import names
from outlast.contract.names import ListedStatus
from outlast.edges import clock
from outlast.edges.newest import keep_newest
from outlast.pricing import Cost
from outlast.serve.access import may
from outlast.serve.bodies import RunsQuery, page_of, text_of_page
from outlast.serve.case_feed import CaseView, choices_of, of_view, unless_away
from outlast.serve.pages.conversation_view import BADGES, Badge, run_badge
from outlast.serve.pages.page import (
    VIEWS,
    fragment,
    html_part,
    page,
    query_of,
    show_page,
    stay,
    version_of,
)
from outlast.serve.routing import DeskRequest, route
from outlast.serve.run_feed import SEARCHED
from outlast.serve.team_api import teams_of
from outlast.temporal.visibility.scopes import RunScope
from outlast.views.run import RunSnapshot, snapshot_of

PAGE: Final = 50
"""The most conversations of a page."""

READ_AT_ONCE: Final = 8
"""How many histories are read at the same time."""

READ_SECONDS: Final = 1.5
"""How long a page waits for tokens and costs; what comes later is there the next time."""

FRESH_SECONDS: Final = 15.0
"""How long what an open run used counts as present."""

CHOICES_SECONDS: Final = 1.0
"""How long a page waits for the choices of its filters; later ones are there the next time."""

MOST_KEPT: Final = 5_000

_HELD_BY: Final = "person: "


Sort: TypeAlias = Literal[
    "status", "-status", "customer", "-customer", "agent", "-agent", "age", "-age"
]
"""An order of the list; with a minus, the other way round."""

_ORDERS: Final[dict[str, Callable[[ListedRun], Any]]] = {
    "status": lambda run: run_badge(run).word,
    "customer": lambda run: (run.customer or run.run_id).casefold(),
    "agent": lambda run: run.agent.casefold(),
    "age": lambda run: -run.started.timestamp(),
}
"""What sorts a list that is known whole. The server has its own order, page by page: the newest
first, and tokens and costs come later, so there nothing else is offered."""


class Wanted(RunsQuery):
    """What the address asks for: the parameters of the API, one with a name of its own."""

    prefix: str = Field(default="", alias="starts")
    view: CaseView | None = None
    sort: Sort | None = None

    def criteria(self, scopes: Sequence[RunScope]) -> RunFilter:
        """Return the criteria; a list of conversations that were put off or resolved is a status."""
        found = super().criteria(scopes)
        return replace(found, status=self.view) if self.view in SEARCHED else found

    @property
    def is_sortable(self) -> bool:
        """Whether the list is known whole, so that it has any order."""
        return self.view is not None and self.view not in SEARCHED

    def sorted_by(self, name: str) -> str:
        """Return how a column is sorted, as the attribute `aria-sort` says it."""
        ways = {name: "ascending", f"-{name}": "descending"}
        return ways.get(self.sort or "", "none")

    @property
    def query(self) -> dict[str, str]:
        """The query of the address, without the page."""
        given: dict[str, Any] = self.model_dump(by_alias=True, exclude_defaults=True)
        return {name: _words(given[name]) for name in _NAMES if name in given}


_NAMES: Final = (
    *("view", "status", "agent", "starts", "waiting", "nested", "tenant", "customer", "assignee"),
    *("team", "tag", "rated", "attention", "group", "risk", "due", "case_due", "sort"),
)
"""The parameters of an address, in their order."""


def _words(value: Any) -> str:
    return "yes" if value is True else str(value)


def wanted(asked: DeskRequest) -> Wanted:
    """Return what an address asks for.

    Raises:
        UserError: its page is none of this desk.
    """
    found = query_of(asked, Wanted)
    if asked.http.query_params.get("page") and found.page is None:
        raise UserError("The address has no such page. Begin with the first one.")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A conversation in the list.

    Attributes:
        run: the run.
        badge: its status.
        holder: who has it; empty for nobody.
        waits_for: what it waits for; empty for nothing.
        used: what it used; None if that is not known.
        trouble: what keeps it from going on; empty for nothing.
        attention: why a person should look at it; empty if nothing is wrong.
    """

    run: ListedRun
    badge: Badge
    holder: str = ""
    waits_for: str = ""
    used: "Used | None" = None
    trouble: str = ""
    attention: str = ""

    @property
    def customer(self) -> str:
        """The customer's name, as far as somebody has read it, or else their id."""
        return (self.used.customer if self.used else "") or self.run.customer


def run_row(run: ListedRun, used: "Used | None", trouble: str = "") -> RunRow:
    """Return a run as the list shows it."""
    is_held = run.status == "held"
    return RunRow(
        run=run,
        badge=run_badge(run),
        holder=run.waits_for.removeprefix(_HELD_BY) if is_held else "",
        waits_for="" if is_held or run.status in names.RESTING else run.waits_for,
        used=used,
        trouble=trouble,
        attention=run.attention(clock.now()),
    )


# --- Tokens and costs ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What a run used.

    Attributes:
        tokens: the tokens of its model calls.
        customer: the name of its customer, or else the id; empty if nobody said.
        cost: US dollars.
        is_whole: whether the price of every model call is known.
        is_final: whether the run has ended.
        read_at: when it was read, by a clock that never goes back.
    """

    tokens: int
    cost: Decimal
    is_whole: bool
    is_final: bool
    customer: str = ""
    read_at: float = field(repr=False)


@dataclass(eq=False)
class Usages:
    """What the runs of a server used, as far as somebody has looked at them lately."""

    _known: "OrderedDict[str, Used]" = field(default_factory=OrderedDict[str, Used])
    _reading: dict[str, asyncio.Task[None]] = field(default_factory=dict[str, "asyncio.Task[None]"])
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(READ_AT_ONCE))

    async def of(self, client: Client, runs: Sequence[ListedRun]) -> dict[str, Used]:
        """Return what is known, or read within a moment; the rest is read on for the next time.

        What an open run used some time ago is read again meanwhile: a page asks for its list again
        after a few seconds.
        """
        now = time.monotonic()
        missing: list[asyncio.Task[None]] = []
        for run in runs:
            known = self._known.get(run.execution_id)
            if known is None or not (known.is_final or now - known.read_at < FRESH_SECONDS):
                reading = self._begin(client, run)
                if known is None:
                    missing.append(reading)
        if missing:
            await asyncio.wait(missing, timeout=READ_SECONDS)
        ids = (run.execution_id for run in runs)
        return {one: self._known[one] for one in ids if one in self._known}

    def _begin(self, client: Client, run: ListedRun) -> asyncio.Task[None]:
        task = self._reading.get(run.execution_id)
        if task is None:
            task = self._reading[run.execution_id] = asyncio.create_task(self._read(client, run))
            task.add_done_callback(lambda _: self._reading.pop(run.execution_id, None))
        return task

    async def _read(self, client: Client, run: ListedRun) -> None:
        async with self._slots:
            state = await state_of(client, run.run_id, run.execution_id)
        if state is not None:
            keep_newest(self._known, run.execution_id, _used(snapshot_of(state)), MOST_KEPT)


def _used(state: RunSnapshot) -> Used:
    cost = Cost.of_state(state)
    return Used(
        tokens=state.usage.total_tokens,
        cost=cost.usd,
        is_whole=cost.is_whole,
        is_final=state.outcome is not None,
        customer=state.customer.name or state.customer.id,
        read_at=time.monotonic(),
    )


_USAGES: Final["WeakKeyDictionary[Client, Usages]"] = WeakKeyDictionary()


# --- Pages ---------------------------------------------------------------------------------------


async def _show(asked: DeskRequest) -> Response:
    query, listed = await _listed(asked)
    return page(
        asked,
        "conversations.html",
        "Conversations",
        statuses=[(one, BADGES[one].word) for one in get_args(ListedStatus)],
        choices=await _choices(asked),
        title_of_view=VIEWS[query.view] if query.view else "Conversations",
        here_page=query.page or "",
        **listed,
    )


async def _choices(asked: DeskRequest) -> dict[str, dict[str, int]]:
    """Return what conversations are shared by: assignees, teams and tags, with their counts."""
    cases, scopes = asked.desk.cases, asked.scopes("list_runs")
    reading = cases.entries(asked.desk.client, scopes)
    entries = await unless_away(asyncio.wait_for(reading, CHOICES_SECONDS), ())
    return {one: choices_of(entries, one) for one in ("assignee", "team", "tags")}


async def _views(asked: DeskRequest) -> Response:
    """Answer with the lists of shared conversations and their counts, if they have changed."""
    cases, scopes, client = asked.desk.cases, asked.scopes("list_runs"), asked.desk.client
    if may(asked.caller, "inbox") is None:
        asked.desk.inboxes.follow(client)  # whoever decides goes back there
    await asyncio.gather(
        unless_away(cases.entries(client, scopes), ()),
        unless_away(cases.counted(client, scopes), {}),
        unless_away(teams_of(asked), ()),
    )
    duty = f'<div id="duty" hx-swap-oob="innerHTML">{fragment(asked, "duty.html")}</div>'
    text = f"{fragment(asked, 'views.html')}\n{duty}"
    seen = asked.http.query_params.get("views", "")
    if len(seen) > 5 and f'value="{seen}"' in text:
        return Response(None, 204, {"Cache-Control": "no-store"})
    return html_part(text)


async def _part(asked: DeskRequest) -> Response:
    """Answer with the list alone, if it is another one than the page shows."""
    _, listed = await _listed(asked)
    if asked.http.query_params.get("seen") == listed["seen"]:
        return Response(None, 204, {"Cache-Control": "no-store"})
    return html_part(fragment(asked, "conversations_list.html", **listed))


async def _listed(asked: DeskRequest) -> tuple[Wanted, dict[str, Any]]:
    """Return what the address asks for, and the list; `seen` differs where the list does."""
    query = wanted(asked)
    rows, found = await _rows(asked, query)
    after = text_of_page(found.next)
    seen = version_of(rows, query.query, after)
    return query, {"rows": rows, "wanted": query, "after": after, "seen": seen}


async def _rows(asked: DeskRequest, query: Wanted) -> tuple[list[RunRow], RunPage]:
    scopes, client, page = asked.scopes("list_runs"), asked.desk.client, page_of(query.page)
    criteria = query.criteria(scopes)
    if query.view is None or query.view in SEARCHED:
        # Many desks look at the same list: the server is asked once for all.
        found: RunPage = await asked.desk.cases.lists.get(
            (criteria, page), lambda: list_runs(client, criteria, limit=PAGE, page=page)
        )
    else:
        entries = await asked.desk.cases.entries(client, scopes)
        fit = filter(criteria.on(client).accepts, of_view(entries, query.view, asked.person))
        if query.sort is not None:
            order = _ORDERS[query.sort.removeprefix("-")]
            fit = sorted(fit, key=order, reverse=query.sort.startswith("-"))
        found = _page_of(tuple(fit), page)
    usages = _USAGES.setdefault(asked.desk.client, Usages())
    working = {run.run_id: run.status == "running" for run in found if run.closed is None}
    used, trouble = await asyncio.gather(
        usages.of(asked.desk.client, found.runs), asked.desk.troubles.rows(working)
    )
    rows = (run_row(run, used.get(run.execution_id), trouble.get(run.run_id, "")) for run in found)
    return list(rows), found


def _page_of(runs: tuple[ListedRun, ...], page: bytes | None) -> RunPage:
    """Return a page of a list that is known whole; its token is the place where it begins."""
    text = (page or b"0").decode("ascii", "replace")
    at = int(text) if text.isdecimal() and len(text) < 7 else 0
    after = at + PAGE
    return RunPage(runs[at:after], str(after).encode() if after < len(runs) else None)


ROUTES: Final[list[BaseRoute]] = [
    route("/views", _views, action="list_runs", show=stay, soon=True),
    route("/conversations", _show, action="list_runs", show=show_page, soon=True),
    route("/conversations-list", _part, action="list_runs", show=stay, soon=True),
]
