"""Teams at the desk: who is on duty, how each assigns, and whose each conversation is."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, TypeAlias

from starlette.responses import Response
from starlette.routing import BaseRoute

from outlast.agents.errors import UserError
from outlast.client.recounts import recount_open
from outlast.client.teams import TeamView
from outlast.edges.rendering import counted, exact
from outlast.serve.access import Action, may
from outlast.serve.pages.case import time_of_form
from outlast.serve.pages.page import (
    Form,
    beside,
    form_of,
    fragment,
    html_part,
    link,
    page,
    see_other,
    show_page,
    stay,
    version_of,
)
from outlast.serve.routing import DeskRequest, route
from outlast.serve.team_api import (
    change_duty,
    change_rule,
    covers,
    team_of,
    teams_of,
)
from outlast.views.acts import same_person

MOST_SHOWN: Final = 200
"""The most people, and the most conversations, that a page shows of a team."""

Deed: TypeAlias = Callable[[DeskRequest, Form, str, str], Awaitable[TeamView]]
"""Does what a form says to the team of a name and a tenant."""


async def _show_all(asked: DeskRequest) -> Response:
    return page(asked, "teams.html", "Teams", **await _listed(asked), return_after="")


async def _part_of_all(asked: DeskRequest) -> Response:
    listed = await _listed(asked)
    return _unless_seen(asked, "teams_list.html", listed)


async def _listed(asked: DeskRequest) -> dict[str, Any]:
    teams = sorted(await teams_of(asked), key=lambda one: (one.tenant, one.name))
    may_change = may(asked.caller, "change_team") is None
    return {"teams": teams, "may_change": may_change, "seen": version_of(teams)}


async def _show(asked: DeskRequest) -> Response:
    team, now = await _now(asked)
    return page(
        asked,
        "team.html",
        team.name,
        **now,
        why_not=may(asked.caller, "go_on_duty") or "You cannot go on duty in teams of this tenant.",
        return_after="" if team.return_after is None else exact(team.return_after),
    )


async def _part(asked: DeskRequest) -> Response:
    return _unless_seen(asked, "team_now.html", (await _now(asked))[1])


async def _now(asked: DeskRequest) -> tuple[TeamView, dict[str, Any]]:
    """Return a team, and what its page shows of it now."""
    return _shown_now(asked, await team_of(asked, *_place(asked)))


def _shown_now(asked: DeskRequest, team: TeamView) -> tuple[TeamView, dict[str, Any]]:
    people = sorted(team.members, key=lambda one: not one.on_duty)[:MOST_SHOWN]
    team = replace(team, members=tuple(people))
    everybody = covers(asked.everywhere, "change_team", team.tenant)
    goes = covers(asked.everywhere, "go_on_duty", team.tenant)
    me = asked.person.subject
    changeable = [
        one.subject for one in people if everybody or (goes and same_person(one.subject, me))
    ]
    now = {"team": team, "changeable": changeable, "most": MOST_SHOWN, "may_go": goes}
    return team, {**now, "may_change": everybody, "seen": version_of(team, changeable)}


def _place(asked: DeskRequest) -> tuple[str, str]:
    return asked.parameter("team"), asked.http.query_params.get("tenant", "")


def _unless_seen(asked: DeskRequest, template: str, values: dict[str, Any]) -> Response:
    """Answer with a part of a page, if it is another one than the page shows."""
    if asked.http.query_params.get("seen") == values["seen"]:
        return Response(None, 204, {"Cache-Control": "no-store"})
    return html_part(fragment(asked, template, **values))


# --- What people do ------------------------------------------------------------------------------


async def _duty(asked: DeskRequest, form: Form, name: str, tenant: str) -> TeamView:
    until = time_of_form(form) if any(map(form.exact, ("until", "instant", "at"))) else None
    return await change_duty(
        asked,
        name,
        tenant,
        on_duty=form.exact("on_duty") != "no",
        person=form.text("person"),
        capacity=_number(form),
        until=until,
        within=form.text("within") if isinstance(until, timedelta) else "",
    )


async def _rule(asked: DeskRequest, form: Form, name: str, tenant: str) -> TeamView:
    after, capacity = form.text("return_after").strip(), _number(form)
    return await change_rule(
        asked,
        name,
        tenant,
        rule=form.exact("rule") or "round_robin",
        capacity=5 if capacity is None else capacity,
        return_after=after or None,
        within=form.text("within") if after else "",
    )


def _number(form: Form) -> int | None:
    text = form.text("capacity").strip()
    if not text:
        return None
    if not _NUMBER.fullmatch(text):
        raise UserError(f"{text!r:.40} is no number of conversations. Write such as 5.")
    return int(text)


_NUMBER: Final = re.compile("-?[0-9]{1,6}")


async def _set_up(asked: DeskRequest) -> Response:
    """Begin a team, and lead to its page."""
    form = await form_of(asked)
    name, tenant = form.text("name").strip(), form.text("tenant").strip()
    await _rule(asked, form, name, tenant)
    address = link(asked, "teams", name, tenant=tenant)
    if not asked.http.headers.get("HX-Request"):
        return see_other(asked, "teams", name, tenant=tenant)
    return Response(None, 204, {"HX-Redirect": address, "Cache-Control": "no-store"})


async def _recount(asked: DeskRequest) -> Response:
    """Let the times of the open requests be counted anew, as far as the person may do it."""
    scopes = asked.scopes("recount")
    found = await recount_open(asked.desk.client, by=asked.person, scopes=scopes)
    words = found.words
    left = [*found.refused, *(("", "It cannot be read."),) * found.unread]
    if left:
        words += f" {counted(len(left), 'run')} left alone: {left[0][1]}"
    return html_part(fragment(asked, "conversation_said.html", said=words))


def _deed(name: str, action: Action, deed: Deed) -> BaseRoute:
    """Return the route of a form about a team; its answer has what has changed of the page."""

    async def handle(asked: DeskRequest) -> Response:
        form, place = await form_of(asked), _place(asked)
        team, now = _shown_now(asked, await deed(asked, form, *place))
        if not asked.http.headers.get("HX-Request"):
            return see_other(asked, "teams", team.name, tenant=team.tenant)
        duties = fragment(asked, "duty.html")
        if form.exact("back"):  # the form of the navigation is itself what has changed
            return html_part(duties)
        parts = {"duty": duties, "team": fragment(asked, "team_now.html", **now)}
        texts = [
            f'<div id="{one}" hx-swap-oob="innerHTML">{text}</div>' for one, text in parts.items()
        ]
        said = fragment(asked, "conversation_said.html", said="Done.")
        return html_part("\n".join([said, *texts]))

    return route(f"{_PATH}/{name}", handle, action=action, methods=["POST"], show=beside)


_PATH: Final = "/teams/{team}"

ROUTES: Final[list[BaseRoute]] = [
    route("/teams", _show_all, action="view_teams", show=show_page, soon=True),
    route("/teams", _set_up, action="change_team", methods=["POST"], show=beside, name="set_up"),
    route("/teams-list", _part_of_all, action="view_teams", show=stay, soon=True),
    route(_PATH, _show, action="view_teams", show=show_page, soon=True),
    route(f"{_PATH}/now", _part, action="view_teams", show=stay, soon=True),
    _deed("duty", "go_on_duty", _duty),
    _deed("rule", "change_team", _rule),
    route("/recount", _recount, action="recount", methods=["POST"], show=beside),
]
