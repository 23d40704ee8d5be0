"""What colleagues do with a conversation, at its page: forms, and what they say afterwards."""

import re
import secrets
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from starlette.responses import Response
from starlette.routing import BaseRoute

from outlast.agents.errors import UserError
from outlast.client.runs import ListedRun, RunFilter, find_runs
from outlast.serve.case_api import check_linked, snooze_end
from outlast.serve.case_feed import unless_away
from outlast.serve.pages.conversation_view import run_badge
from outlast.serve.pages.filters import with_line_ends
from outlast.serve.pages.page import Form, fragment, html_part, show_page
from outlast.serve.routing import DeskRequest, route
from outlast.views.records import LONGEST_COMMENT, CaseDeed

MOST_EARLIER: Final = 20
"""How many earlier conversations of a customer a page lists."""

_LOOKED_AT: Final = 100
_ID: Final = re.compile(r"desk-[0-9a-f]{16}")

Deed: TypeAlias = Callable[[DeskRequest, Form], Awaitable[str | None]]
"""Does what a form says, and returns a sentence about it, if the page does not show it otherwise."""


def new_id() -> str:
    """Return an id for what a form sends, so that the same form counts once."""
    return f"desk-{secrets.token_hex(8)}"


def sent_id(form: Form, name: str) -> str:
    """Return the id that a form has, or a new one for a form that was made by hand."""
    given = form.exact(name)
    return given if _ID.fullmatch(given) else new_id()


def words_of(form: Form, name: str, what: str, most: int) -> str:
    """Return what somebody wrote into a form.

    Raises:
        UserError: it is longer than it may be.
    """
    text = with_line_ends(form.exact(name))
    if len(text) > most:
        raise UserError(f"{what} has {len(text):,} characters, and at most {most:,} are sent.")
    return text


async def _assign(asked: DeskRequest, form: Form) -> None:
    to = asked.person.subject if form.exact("me") else form.text("assignee").strip()
    team = form.text("team").strip()
    await asked.handle.assign(to or None, by=asked.person, team=team)


async def _comment(asked: DeskRequest, form: Form) -> None:
    text = words_of(form, "text", "The comment", LONGEST_COMMENT)
    if not text.strip():
        raise UserError("Write a comment first.")
    await asked.handle.comment(text, by=asked.person, comment_id=sent_id(form, "comment_id"))


async def _resolve(asked: DeskRequest, form: Form) -> None:
    why = words_of(form, "why", "The reason", LONGEST_COMMENT).strip()
    await asked.handle.resolve(by=asked.person, why=why)


async def _reopen(asked: DeskRequest, _form: Form) -> None:
    await asked.handle.reopen(by=asked.person)


async def _recount(asked: DeskRequest, _form: Form) -> None:
    await asked.handle.recount(by=asked.person)


async def _snooze(asked: DeskRequest, form: Form) -> None:
    end, within = time_of_form(form), form.text("within").strip()
    is_length = isinstance(end, timedelta)  # a time of the other field counts no hours
    await asked.handle.snooze(end, by=asked.person, within=within if within and is_length else None)


def time_of_form(form: Form) -> datetime | timedelta:
    """Return a chosen length, or the time of a field.

    Raises:
        UserError: there is neither.
    """
    text = form.exact("until") or form.exact("instant") or form.exact("at")
    try:
        return snooze_end(text)
    except ValueError:
        pass
    try:  # a field of a browser without scripts, which has no zone
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        raise UserError("Choose how long, or until when.") from None


async def _tag(asked: DeskRequest, form: Form) -> None:
    await asked.handle.tag(
        *_listed(form, "tag"), by=asked.person, remove=tuple(map(form.read, form.all("remove")))
    )


async def _link(asked: DeskRequest, form: Form) -> None:
    added = _listed(form, "conversation")
    await check_linked(asked, added)
    await asked.handle.link(
        *added, by=asked.person, remove=tuple(map(form.read, form.all("remove")))
    )


def _listed(form: Form, name: str) -> tuple[str, ...]:
    text = form.text(name).strip()
    return (text,) if text else ()


DEEDS: Final[dict[CaseDeed, Deed]] = {
    "assign": _assign,
    "comment": _comment,
    "resolve": _resolve,
    "reopen": _reopen,
    "recount": _recount,
    "snooze": _snooze,
    "tag": _tag,
    "link": _link,
}
"""What the forms do, by the last part of their addresses."""

# --- The customer's other conversations ----------------------------------------------------------


async def _earlier(asked: DeskRequest) -> Response:
    """Answer with the other conversations of a conversation's customer, newest first."""
    state = await asked.handle.state()
    found: list[ListedRun] = []
    if state.customer.id:
        facts = await asked.desk.facts(asked.run_id)
        tenant, scopes = "" if facts is None else facts.tenant, asked.scopes("list_runs")
        criteria = RunFilter(
            customer=state.customer.id, tenant=tenant or None, nested=False, scopes=scopes
        )
        client = asked.desk.client
        listed: list[ListedRun] = await unless_away(
            asked.desk.cases.recent.get(
                criteria, lambda: find_runs(client, criteria, limit=_LOOKED_AT)
            ),
            [],
        )
        # The customers of a tenant are not those of another one, nor of none.
        found = [one for one in listed if one.tenant == tenant and one.run_id != asked.run_id]
    newest = sorted(found, key=lambda one: one.started, reverse=True)
    rows = [(one, run_badge(one)) for one in newest[:MOST_EARLIER]]
    text = fragment(asked, "conversation_earlier.html", rows=rows, more=len(newest) > MOST_EARLIER)
    return html_part(text)


ROUTES: Final[list[BaseRoute]] = [
    route(
        "/conversations/{run_id}/earlier", _earlier, action="view_run", show=show_page, soon=True
    ),
]
