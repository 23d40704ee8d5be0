"""The inbox: what waits for the person who looks at it."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final
from urllib.parse import quote, unquote

from pydantic import AfterValidator, BeforeValidator, Field
from starlette.responses import Response
from starlette.routing import BaseRoute

from outlast.agents.errors import AgentsException
from outlast.client.inbox import (
    BulkOutcome,
    BulkStep,
    HeldConversation,
    Inbox,
    InboxEntry,
    held_conversation,
)
from outlast.client.people.nested_requests import found_requests
from outlast.client.runs import LARGEST_PAGE, READ_SECONDS
from outlast.deliveries.problems import Refused
from outlast.edges.newest import keep_newest
from outlast.edges.rendering import counted
from outlast.serve.access import redaction_for
from outlast.serve.api import bulk_steps
from outlast.serve.bodies import MOST_AT_ONCE, InboxStreamQuery
from outlast.serve.pages.conversation_view import customer_name
from outlast.serve.pages.decisions import (
    Asked,
    Refusal,
    act,
    asked_of,
    asked_seen,
    problems_of,
)
from outlast.serve.pages.page import (
    Form,
    form_of,
    fragment,
    html_part,
    link,
    page,
    query_of,
    see_other,
    show_page,
    version_of,
)
from outlast.serve.pages.receipts import (
    bulk_receipts,
    goes_to,
    list_of,
    receipt_of,
)
from outlast.serve.records import RequestView, request_view
from outlast.serve.routing import DeskRequest, route
from outlast.serve.sse import ServerSentEvent, stream_of
from outlast.views.trouble import Trouble
from outlast.views.words import at_desk

SHOWN: Final = 50
"""How many runs a page shows at first; the others follow when somebody scrolls there."""

MOST_SHOWN: Final = 1_000
MOST_RENDERED: Final = 32
"""How many live lists are kept as HTML, for others who see the same."""


# --- What is listed ------------------------------------------------------------------------------


class _Wanted(InboxStreamQuery):
    """What the address asks for: the parameters of the API, but `show` in the place of `mine`."""

    mine: Annotated[bool, BeforeValidator(lambda show: show != "all")] = Field(
        default=True, alias="show"
    )
    limit: Annotated[int, AfterValidator(lambda limit: min(limit, MOST_SHOWN))] = Field(
        default=SHOWN, ge=1
    )

    @property
    def query(self) -> dict[str, str]:
        """The filters for an address."""
        limit = "" if self.limit == SHOWN else str(self.limit)
        return {
            "show": "" if self.mine else "all", "group": self.group or "", "risk": self.risk or "",
            "due": self.due or "", "limit": limit,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class InboxRow:
    """A run in the list.

    Attributes:
        entry: the run as visibility lists it.
        id: names its row in the page.
        version: names its details: it differs if the entry has changed.
        key: the id of the run, for a form.
    """

    entry: InboxEntry
    id: str
    version: str
    key: str


def inbox_row(entry: InboxEntry) -> InboxRow:
    """Return the row of an entry."""
    return InboxRow(
        entry,
        version_of(entry.run_id),
        version_of(entry),
        quote(entry.run_id, safe="", errors="replace"),
    )


def _listed(
    wanted: _Wanted, entries: Sequence[InboxEntry], *, is_whole: bool = True
) -> dict[str, Any]:
    """Return what the list shows.

    Args:
        wanted: the filters.
        entries: the most urgent first.
        is_whole: whether these are all entries of the filters, so that they can be counted.
    """
    found = [one for one in entries if wanted.accepts(one)]
    shown = found[: wanted.limit]
    count = sum(max(one.pending, 1) for one in (found if is_whole else shown))
    rows = [inbox_row(one) for one in shown]
    words = f"{count:,}" if is_whole else f"{count:,}+"
    return {
        "rows": rows,
        "version": version_of(words, [one.version for one in rows]),
        "count": count,
        "count_words": words,
        "is_whole": is_whole,
        "left": len(found) - len(shown),
        "mine_query": {**wanted.query, "show": ""},
        "all_query": {**wanted.query, "show": "all"},
        "more": {**wanted.query, "limit": str(min(wanted.limit * 2, MOST_SHOWN))},
        "most_shown": MOST_SHOWN,
        "wanted": wanted,
        "window_title": f"({words}) Inbox" if count else "Inbox",
    }


async def _inbox(asked: DeskRequest) -> Response:
    wanted, scopes = query_of(asked, _Wanted), asked.scopes("inbox")
    entries, is_whole = asked.desk.inboxes.known(wanted.filter(asked.person, scopes)), True
    if entries is None:
        # Nobody looks yet. Listing everything takes long, so the live list does that.
        limit = min(wanted.limit + 1, LARGEST_PAGE)
        criteria = wanted.criteria(asked.person, scopes)
        entries = await Inbox(asked.desk.client).urgent(limit=limit, **criteria)
        is_whole = len(entries) < limit
    listed = _listed(wanted, entries, is_whole=is_whole)
    receipt = await receipt_of(asked)
    values = {"groups": asked.person.groups, "receipt": receipt}
    return page(asked, "inbox.html", "Inbox", **values, **listed)


async def _live(asked: DeskRequest) -> Response:
    return await stream_of(_events(asked))


async def _events(asked: DeskRequest) -> AsyncGenerator[ServerSentEvent]:
    """Yield a remark, and then the list whenever it is not what the page has."""
    wanted = query_of(asked, _Wanted)
    seen = asked.http.query_params.get("seen")
    inboxes, client = asked.desk.inboxes, asked.desk.client
    filter_ = wanted.filter(asked.person, asked.scopes("inbox"))
    async with inboxes.reader(client, filter_) as reader:
        yield ServerSentEvent("", "opened")
        try:
            async for entries in reader:
                listed = _listed(wanted, entries)
                if listed["version"] != seen:
                    yield ServerSentEvent(_rendered(asked, wanted, listed), "inbox")
                seen = listed["version"]
        except AgentsException:
            return  # the server is away, and the browser comes back


_RENDERED: Final[OrderedDict[object, str]] = OrderedDict()


def _rendered(asked: DeskRequest, wanted: _Wanted, listed: dict[str, Any]) -> str:
    """Return a live list as HTML, rendered once for all who see the same.

    The list is sent whole: it is sorted by urgency, so that a change may move any row, and htmx keeps
    the details that a page has read.
    """
    entries = tuple(row.entry for row in listed["rows"])
    query = tuple(wanted.query.items())
    key = (link(asked, "inbox"), query, listed["count_words"], listed["left"], entries)
    text = _RENDERED.get(key) or fragment(asked, "inbox_list.html", **listed)
    keep_newest(_RENDERED, key, text, MOST_RENDERED)
    return text


# --- The requests of a run -----------------------------------------------------------------------


async def _requests(asked: DeskRequest) -> Response:
    return html_part(await _requests_of(asked, asked.run_id))


async def _requests_of(
    asked: DeskRequest, run_id: str, refusal: Refusal | None = None, done: str = ""
) -> str:
    """Return the requests of a run as a piece of the list, read from its history."""
    views: list[tuple[RequestView, Asked]] = []
    hold: HeldConversation | None = None
    problem = customer = ""
    trouble: tuple[Trouble, ...] = ()
    try:
        async with asyncio.timeout(READ_SECONDS):
            state = await asked.desk.handle(run_id).state()
            found = await found_requests(state, asked.desk.client)
            hold = held_conversation(state)
            proofs = await asked.desk.proofs()
            trouble = await asked.desk.troubles.of(run_id, state, asked.caller)
            customer = customer_name(state, redaction_for(asked.caller, state))
        see = partial(request_view, caller=asked.caller, proofs=proofs)
        shown = map(see, found)
        views = [
            (view, asked_of(one.request, view, customer))
            for view, one in zip(shown, found, strict=True)
        ]
    except (AgentsException, TimeoutError) as error:
        problem = str(error) or "Its history takes too long to be read."
    return fragment(
        asked,
        "inbox_requests.html",
        run_id=run_id,
        customer=customer,
        views=views,
        problems_of=problems_of,
        hold=hold,
        problem=problem,
        trouble=trouble,
        refusal=refusal,
        refused_id=asked.http.path_params.get("request_id", ""),
        done=done,
    )


async def _decide(asked: DeskRequest) -> Response:
    """Do what a button in the list says, and show the requests of the run as they are then."""
    outcome = await act(asked, await form_of(asked))
    is_refused = isinstance(outcome, Refusal)
    if "HX-Request" not in asked.http.headers:
        if is_refused:
            raise Refused(outcome.problem.status, outcome.problem.code, outcome.problem.message)
        return see_other(asked, "inbox")
    shown = await _requests_of(
        asked,
        asked.run_id,
        outcome if is_refused else None,
        "" if is_refused else outcome.words,
    )
    return html_part(shown)


# --- Many at once --------------------------------------------------------------------------------


async def _plan(asked: DeskRequest) -> Response:
    """Show what would happen if somebody decided several runs at once."""
    form = await form_of(asked)
    steps = await _steps(asked, form)
    return page(asked, "inbox_bulk.html", "Decide together", **_planned(steps))


def _planned(steps: Sequence[BulkStep]) -> dict[str, Any]:
    able = sum(step.request is not None and step.problem is None for step in steps)
    return {
        "steps": [
            (step, quote(step.entry.run_id, safe=""), _asked_by(step), at_desk(step.problem or ""))
            for step in steps
        ],
        "able": able,
        "able_words": counted(able, "request"),
    }


def _asked_by(step: BulkStep) -> Asked | None:
    return None if step.request is None else asked_seen(step.shown or step.request)


async def _steps(asked: DeskRequest, form: Form) -> tuple[BulkStep, ...]:
    chosen = list(dict.fromkeys(unquote(one) for one in form.all("run")))
    if not chosen:
        raise Refused(400, "nothing_chosen", "Choose requests in the inbox first.")
    if len(chosen) > MOST_AT_ONCE:
        raise Refused(400, "too_many", f"Choose at most {MOST_AT_ONCE} runs at once.")
    return await bulk_steps(asked, chosen, "decide")


async def _decide_all(asked: DeskRequest) -> Response:
    """Decide what somebody saw in the plan, and nothing else."""
    form = await form_of(asked)
    decision = form.exact("decision")
    if decision not in {"approve", "reject"}:
        raise Refused(400, "unknown_decision", "Approve them or reject them.")
    seen = set(form.all("seen"))
    steps = await _steps(asked, form)
    agreed = [
        one
        for one in steps
        if one.request is not None and one.request.digest in seen and one.problem is None
    ]
    outcomes: Sequence[BulkOutcome] = ()
    if agreed:
        outcomes = await Inbox(asked.desk.client).decide_all(
            agreed,
            "approve" if decision == "approve" else "reject",
            by=asked.person,
            message=form.text("message").strip() or None,
        )
    decided = {(one.run_id, one.request_id) for one in outcomes}
    shown = [one.partition(" ") for one in form.all("agreed")]
    asked_for = [(unquote(key), request_id) for request_id, _, key in shown]
    asked_for += [(one.entry.run_id, one.request.id if one.request else "") for one in steps]
    left = [one for one in dict.fromkeys(asked_for) if one not in decided]
    query = {"decision": decision, "list": list_of(outcomes, left)}
    return goes_to(asked, link(asked, "inbox", "decided", **query))


async def _decided(asked: DeskRequest) -> Response:
    """Show what a bulk decision did, also after a reload: the address says which requests."""
    given = asked.http.query_params
    receipts = await bulk_receipts(asked, given.get("list", ""))
    taken = [one for one in receipts if one.fate in {"taken", "kept"}]
    return page(
        asked,
        "inbox_decided.html",
        "Decided together",
        verb="rejected" if given.get("decision") == "reject" else "approved",
        taken=taken,
        left=[one for one in receipts if one not in taken],
    )


async def _home(asked: DeskRequest) -> Response:
    return see_other(asked, "inbox")


ROUTES: Final[list[BaseRoute]] = [
    route("/", _home, action="inbox", show=show_page, soon=True),
    route("/inbox", _inbox, action="inbox", show=show_page, soon=True),
    route("/inbox/live", _live, action="inbox"),
    route("/inbox/plan", _plan, action="decide", methods=["POST"], show=show_page),
    route("/inbox/decided", _decided, action="inbox", show=show_page),
    route("/inbox/decide", _decide_all, action="decide", methods=["POST"], show=show_page),
    route("/inbox/requests/{run_id}", _requests, action="view_run", show=show_page, soon=True),
    route(
        "/inbox/requests/{run_id}/{request_id}",
        _decide,
        action="inbox",
        methods=["POST"],
        show=show_page,
    ),
]
