"""Teams in our HTTP API: who is on duty, how a team assigns, and whose each conversation is.

A team is one of a tenant. Whoever does not see the tenant's runs reads about its teams what they
read about a team that is not there.
"""

import asyncio
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from pydantic import Field, field_validator

from outlast.agents.checks import duration_of
from outlast.agents.errors import AgentsException
from outlast.client.teams import Team, TeamView, find_teams
from outlast.contract import names
from outlast.contract.searchability import searchable
from outlast.deliveries.problems import Refused
from outlast.serve.access import RULES, Action, Caller, may, scopes_for
from outlast.serve.bodies import Body, Query
from outlast.serve.case_api import WITHIN, acted, snooze_end
from outlast.serve.endpoints import get, post
from outlast.serve.records import Moment, View
from outlast.serve.routing import PATIENCE, Desk, DeskRequest
from outlast.temporal.visibility.scopes import any_covers
from outlast.views.acts import canonical_name
from outlast.views.records import LONGEST_NAME

_TEAM: Final = "/api/teams/{team}"
TEAMS: Final = "teams"
"""What a desk remembers of all teams, for a moment."""

_AT_ONCE: Final = 8
_SECONDS: Final = 2.0
"""How long a list waits for a team whose worker does not answer."""


class TeamQuery(Query):
    """Whose team it is."""

    tenant: str = Field(default="", description="The tenant whose team it is; empty for none.")


class DutyBody(Body):
    """Goes on duty, or leaves it."""

    on_duty: bool = Field(default=True, description="Whether conversations are assigned to them.")
    person: str = Field(
        default="",
        max_length=LONGEST_NAME,
        description="Who; empty for the caller. For somebody else it takes the role operator.",
    )
    capacity: int | None = Field(
        default=None, description="How many they have at most; null for the team's number."
    )
    until: str | None = Field(
        default=None,
        description="When they leave by themselves: a length, such as 8h, or a time with a zone in ISO "
        "8601; null if they say so.",
    )
    within: str = Field(default="", max_length=LONGEST_NAME, description=WITHIN)

    @field_validator("until")
    @classmethod
    def _is_time(cls, text: str | None) -> str | None:
        if text is not None:
            snooze_end(text)
        return text


class RuleBody(Body):
    """Says how a team assigns; a team that is not there begins by it."""

    rule: str = Field(
        default="round_robin",
        description="`round_robin`: whoever has waited longest; `least_busy`: whoever has the fewest.",
    )
    capacity: int = Field(default=5, description="How many a person has at most.")
    return_after: str | None = Field(
        default=None,
        description="After which time, such as 15min, a conversation goes on that its person has not "
        "taken or not answered; null: it stays with them.",
    )
    within: str = Field(default="", max_length=LONGEST_NAME, description=WITHIN)


class MemberView(View, from_attributes=True):
    """A person of a team."""

    subject: str
    on_duty: bool
    conversations: int = Field(description="How many they have.")
    capacity: int
    until: Moment | None = Field(description="When they leave duty by themselves.")


class TeamConversationView(View, from_attributes=True):
    """A conversation that a team has to act on."""

    id: str = Field(validation_alias="run_id")
    to: str = Field(description="Whose it is; empty while nobody has room for it.")
    taken: bool
    since: Moment
    due: Moment | None = Field(description="When it goes on to the next person.")


class WholeTeam(View):
    """A team at one moment."""

    name: str
    tenant: str
    rule: str
    capacity: int
    return_after_seconds: float | None
    within: str = Field(description="The calendar whose hours that counts; empty for all hours.")
    members: list[MemberView]
    conversations: list[TeamConversationView]


class TeamList(View):
    """The teams that the caller sees."""

    teams: list[WholeTeam]


# --- Who sees which team -------------------------------------------------------------------------


def covers(caller: Caller, action: Action, tenant: str) -> bool:
    """Whether somebody may do something with the teams of a tenant.

    A team has conversations of any agent and group, so a scope of some of these covers no team.
    """
    scopes = scopes_for(caller, action)
    return may(caller, action) is None and any_covers(scopes, tenant=searchable(tenant), agent="")


def team_at(asked: DeskRequest, action: Action, name: str, tenant: str) -> Team:
    """Return a team for something that the caller may do with it.

    Raises:
        Refused: they do not see it, or may only look.
    """
    caller = asked.everywhere
    if not covers(caller, "view_teams", tenant):
        raise not_there(name)
    if not covers(caller, action, tenant):
        raise Refused(403, "forbidden", f"You cannot {RULES[action].words} of this tenant.")
    queue = asked.desk.task_queue or names.TASK_QUEUE
    return Team(asked.desk.client, name, tenant=tenant, task_queue=queue, patience=PATIENCE)


def not_there(name: str) -> Refused:
    """Return the answer about a team that is not there, or that the caller does not see."""
    return Refused(404, "team_not_found", f"There is no team {name!r:.80}.")


async def team_of(asked: DeskRequest, name: str, tenant: str) -> TeamView:
    """Return a team as the caller sees it.

    Raises:
        Refused: there is no such team, or they do not see it.
    """
    view = await team_at(asked, "view_teams", name, tenant).find()
    if view is None:
        raise not_there(name)
    return view


async def teams_of(asked: DeskRequest) -> tuple[TeamView, ...]:
    """Return the teams that the caller sees, as they were a moment ago."""
    look = partial(_look, asked.desk)
    found: tuple[TeamView, ...] = await asked.desk.cases.recent.get(TEAMS, look)
    return of_caller(asked.everywhere, found)


def of_caller(caller: Caller, teams: tuple[TeamView, ...]) -> tuple[TeamView, ...]:
    """Return those of some teams that somebody sees."""
    return tuple(one for one in teams if covers(caller, "view_teams", one.tenant))


async def _look(desk: Desk) -> tuple[TeamView, ...]:
    """Return all teams whose workers answer: one look serves everybody at a desk."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def look(name: str, tenant: str) -> TeamView | None:
        async with slots:
            try:
                asking = Team(desk.client, name, tenant=tenant).find()
                return await asyncio.wait_for(asking, _SECONDS)
            except (AgentsException, TimeoutError):
                return None

    found = await asyncio.gather(*(look(*one) for one in await find_teams(desk.client)))
    return tuple(one for one in found if one is not None)


# --- What people do ------------------------------------------------------------------------------


async def change_duty(
    asked: DeskRequest,
    name: str,
    tenant: str,
    *,
    on_duty: bool,
    person: str = "",
    capacity: int | None = None,
    until: datetime | timedelta | None = None,
    within: str = "",
) -> TeamView:
    """Let somebody go on duty, or leave it.

    Raises:
        Refused: the caller may not do it, or the team is not there and they may not set one up.
    """
    person = person.strip() or asked.person.subject
    is_own = canonical_name(person) == canonical_name(asked.person.subject)
    action: Action = "go_on_duty" if is_own else "change_team"
    if not is_own:
        asked.check(action)
    team = team_at(asked, action, name, tenant)
    if not covers(asked.everywhere, "change_team", tenant) and await team.find() is None:
        raise not_there(name)
    by, calendar = asked.person, within.strip() or None
    change = (
        team.on_duty(person, by=by, capacity=capacity, until=until, within=calendar)
        if on_duty
        else team.off_duty(person, by=by)
    )
    return _told(asked, await acted(change))


async def change_rule(
    asked: DeskRequest,
    name: str,
    tenant: str,
    *,
    rule: str,
    capacity: int,
    return_after: str | None,
    within: str,
) -> TeamView:
    """Say how a team assigns.

    Raises:
        Refused: the caller may not do it, or something does not fit.
    """
    team, after = team_at(asked, "change_team", name, tenant), return_after
    changed = team.assign_by(
        by=asked.person,
        rule=rule,  # type: ignore[arg-type]  what is none is refused there
        capacity=capacity,
        return_after=None if after is None else duration_of(after),
        within=within.strip() or None,
    )
    return _told(asked, await acted(changed))


def _told(asked: DeskRequest, view: TeamView) -> TeamView:
    """Let the desk's pages know of a change at once."""
    recent = asked.desk.cases.recent
    if (known := recent.known(TEAMS)) is not None:
        others = (one for one in known if (one.name, one.tenant) != (view.name, view.tenant))
        recent.put(TEAMS, (*others, view))
    return view


@get("/api/teams", "view_teams")
async def _list(asked: DeskRequest) -> TeamList:
    """List the teams whose workers answer."""
    return TeamList(teams=[WholeTeam.of(one) for one in await teams_of(asked)])


@get(_TEAM, "view_teams")
async def _show(asked: DeskRequest, query: TeamQuery) -> WholeTeam:
    """Read who is on duty in a team, and whose each conversation is."""
    return WholeTeam.of(await team_of(asked, asked.parameter("team"), query.tenant))


@post(f"{_TEAM}/duty", "go_on_duty")
async def _duty(asked: DeskRequest, body: DutyBody, query: TeamQuery) -> WholeTeam:
    """Go on duty, or leave it: what was not taken yet goes on to others."""
    until = None if body.until is None else snooze_end(body.until)
    said: dict[str, Any] = {**body.model_dump(), "until": until}
    changed = change_duty(asked, asked.parameter("team"), query.tenant, **said)
    return WholeTeam.of(await changed)


@post(f"{_TEAM}/rule", "change_team")
async def _rule(asked: DeskRequest, body: RuleBody, query: TeamQuery) -> WholeTeam:
    """Change how a team assigns; a team that is not there begins."""
    name, said = asked.parameter("team"), body.model_dump()
    return WholeTeam.of(await change_rule(asked, name, query.tenant, **said))
