"""What follows a decision: the next request, and a receipt for the one before.

The desk keeps nothing: an address names the request that somebody decided, and the receipt says what
has become of it by now, to whoever may see it.
"""

import asyncio
import base64
import json
import zlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import TypeAdapter
from starlette.responses import RedirectResponse, Response

from outlast.agents.errors import AgentsException
from outlast.client.inbox import BulkOutcome, Inbox, bulk_problem
from outlast.client.people.nested_requests import find_request, found_requests
from outlast.client.read.in_turn import read_each
from outlast.deliveries.problems import Refused
from outlast.edges.rendering import joined, named
from outlast.serve.access import redaction_for
from outlast.serve.bodies import MOST_AT_ONCE, InboxStreamQuery
from outlast.serve.pages.conversation_view import customer_name
from outlast.serve.pages.decisions import (
    DECIDED,
    Asked,
    asked_of,
    problems_of,
    words_of,
)
from outlast.serve.pages.page import link
from outlast.serve.records import RequestView, request_view
from outlast.serve.routing import DeskRequest
from outlast.views.records import ApprovalRequest
from outlast.views.run import RunSnapshot
from outlast.views.words import at_desk

LOOKED_AT: Final = 6
"""How many conversations are looked at for the next request."""

PATIENCE_SECONDS: Final = 2.0
"""How long that may take. Then the inbox opens."""

_LARGEST_LIST: Final = 100_000

GOES_ON: Final = frozenset({DECIDED, "kept", "asked"})
"""The deeds after which the next request opens."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What somebody has decided just now, and what has become of it.

    Attributes:
        run_id: the conversation.
        request_id: the request; empty if its conversation could not be read.
        asked: what it asked for; None if it cannot be read.
        words: what has become of it, or why it was left alone, as sentences.
        fate: what a bulk decision did with it: `taken`, `kept`, `refused` or `left`.
        can_undo: whether taking the vote back undoes it: nothing has happened yet.
    """

    run_id: str
    request_id: str
    asked: Asked | None
    words: str
    fate: str = ""
    can_undo: bool = False


def goes_to(asked: DeskRequest, address: str) -> Response:
    """Lead a browser to another page, also from a form that htmx has sent."""
    headers = {"Cache-Control": "no-store"}
    if asked.http.headers.get("HX-Request"):
        return Response(None, 200, {**headers, "HX-Redirect": address})
    return RedirectResponse(address, 303, headers)


async def next_address(asked: DeskRequest, request_id: str, deed: str) -> str:
    """Return the address of the next request that the person can decide, or of the inbox."""
    query = {"did": deed, "after": asked.run_id, "of": request_id}
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            async for run_id, view in _waiting(asked):
                if (run_id, view.id) != (asked.run_id, request_id) and _can_decide(view):
                    return link(asked, "conversations", run_id, "requests", view.id, **query)
    except (AgentsException, TimeoutError):
        pass
    return link(asked, "inbox", **query)


async def receipt_of(asked: DeskRequest) -> Receipt | None:
    """Return the receipt of the request that an address names; None if it names none."""
    given = asked.http.query_params
    run_id, request_id = given.get("after", ""), given.get("of", "")
    if not (run_id and request_id):
        return None
    try:
        found = await _found(asked, run_id, request_id)
    except (AgentsException, Refused):
        return None
    if found is None:
        return None
    root, request, view, words = found
    undo = request.status == "pending" and not problems_of(view)["withdraw"]
    what = asked_of(request, view, _customer(asked, root))
    return Receipt(run_id, request_id, what, words, can_undo=undo)


async def _found(
    asked: DeskRequest, run_id: str, request_id: str
) -> tuple[RunSnapshot, ApprovalRequest, RequestView, str] | None:
    """Return a request of any conversation, as the caller sees it, and what has become of it."""
    if not await asked.seen([run_id]):
        return None
    root = await asked.desk.handle(run_id).state()
    found = await find_request(request_id, root, asked.desk.client)
    if found is None:
        return None
    view = request_view(found, asked.caller, proofs=await asked.desk.proofs())
    did = asked.http.query_params.get("did", DECIDED)
    is_pending = found.request.status == "pending"
    # Whoever makes an address may write any word into it: only one that can be true counts.
    can_be = (did == "kept" and is_pending) or (did == "asked" and not is_pending)
    return root, found.request, view, words_of(did if can_be else DECIDED, found, asked.caller)


async def _waiting(asked: DeskRequest) -> AsyncIterator[tuple[str, RequestView]]:
    """Yield what waits for the person: first in the same conversation, then the most urgent."""
    wanted, scopes = InboxStreamQuery(mine=True, held=False), asked.scopes("inbox")
    proofs = await asked.desk.proofs()

    async def views(run_id: str) -> list[RequestView]:
        state = await asked.desk.handle(run_id).state()
        found = await found_requests(state, asked.desk.client)
        return [request_view(one, asked.caller, proofs=proofs) for one in found]

    entries = asked.desk.inboxes.known(wanted.filter(asked.person, scopes))
    if entries is None:
        criteria = wanted.criteria(asked.person, scopes)
        entries = await Inbox(asked.desk.client).urgent(limit=LOOKED_AT + 1, **criteria)
    others = [one.run_id for one in entries if one.pending and one.run_id != asked.run_id]
    runs = [asked.run_id, *others[:LOOKED_AT]]
    for some in (runs[:2], runs[2:]):  # nearly always, one of the first two has it
        for run_id, found in zip(some, await read_each(some, views), strict=True):
            for view in found:
                yield run_id, view


def _can_decide(view: RequestView) -> bool:
    able = problems_of(view)
    return any(not able[one] for one in ("approve", "edit", "reject", "respond"))


# --- Many at once --------------------------------------------------------------------------------

_FATES: Final = {"taken": "t", "kept": "k", "refused": "r", "left": "l"}
_WORDS: Final = {letter: word for word, letter in _FATES.items()}
_LIST: Final = TypeAdapter(list[tuple[str, str, Literal["t", "k", "r", "l"]]])


def list_of(outcomes: Sequence[BulkOutcome], left: Sequence[tuple[str, str]]) -> str:
    """Return the outcomes of a bulk decision for an address."""
    items = [[one.run_id, one.request_id, _FATES[_fate(one)]] for one in outcomes]
    items += [[run_id, request_id, _FATES["left"]] for run_id, request_id in left]
    packed = zlib.compress(json.dumps(items, ensure_ascii=False).encode("utf-8", "replace"), 9)
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def _fate(one: BulkOutcome) -> str:
    if one.receipt is None:
        return "refused"
    return "kept" if one.receipt.is_kept else "taken"


def read_list(text: str) -> list[tuple[str, str, str]]:
    """Return what `list_of` wrote; nothing for any other text."""
    try:
        packed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        items = _LIST.validate_json(zlib.decompressobj().decompress(packed, _LARGEST_LIST))
    except (ValueError, zlib.error):
        return []
    return list(
        dict.fromkeys(
            (run_id, request_id, _WORDS[fate]) for run_id, request_id, fate in items[:MOST_AT_ONCE]
        )
    )


async def bulk_receipts(asked: DeskRequest, text: str) -> list[Receipt]:
    """Return what has become of the requests of a list, as far as the caller sees them."""
    items = read_list(text)
    seen = frozenset(await asked.seen(list(dict.fromkeys(run_id for run_id, _, _ in items))))
    shown = [one for one in items if one[0] in seen]
    return list(await read_each(shown, lambda one: _bulk_receipt(asked, *one)))


def _customer(asked: DeskRequest, root: RunSnapshot) -> str:
    return customer_name(root, redaction_for(asked.caller, root))


async def _bulk_receipt(asked: DeskRequest, run_id: str, request_id: str, fate: str) -> Receipt:
    try:
        found = await _found(asked, run_id, request_id)
    except (AgentsException, Refused) as error:
        return Receipt(run_id, request_id, None, at_desk(str(error)), fate)
    if found is None:
        words = "It could not be read, and was left alone."
        return Receipt(run_id, request_id, None, words, fate)
    root, request, view, words = found
    if fate in {"refused", "left"}:
        words = _why_left(request, view)
    what = asked_of(request, view, _customer(asked, root))
    return Receipt(run_id, request_id, what, words, fate)


def _why_left(request: ApprovalRequest, view: RequestView) -> str:
    if request.status != "pending":
        by = joined(" by ", named(request.settled_by)) if request.settled_by else ""
        return joined("It was decided before you", by, ".")
    problem = problems_of(view)["approve"] or bulk_problem(request)
    return at_desk(problem) if problem else "It changed after you looked. It still waits."
