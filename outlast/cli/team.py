"""`outlast team`: who is on duty in a team, how it assigns, and whose each conversation is."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from outlast.agents.checks import duration_of
from outlast.agents.errors import UserError
from outlast.cli import options, terminal
from outlast.cli.caller import By, Caller, on_server, sender
from outlast.cli.durations import coming_time
from outlast.cli.terminal import Column
from outlast.edges.clock import ms_of, now
from outlast.edges.rendering import command, counted, named, rough, shown_time

if TYPE_CHECKING:
    from outlast.client.teams import Team, TeamConversation, TeamMember, TeamView

Rule: TypeAlias = Literal["round_robin", "least_busy"]
Person: TypeAlias = Annotated[str | None, typer.Argument(show_default=False)]


@on_server
async def show(caller: Caller, team: str, tenant: str = "") -> None:
    """Show who is on duty, and whose each conversation is.

    Command line:
        team (TEAM): The team's name.
        tenant: The tenant whose team it is.
    """
    view = await (await _team(caller, team, tenant)).view()
    if caller.as_json:
        terminal.print_json(view.record())
        return
    terminal.say(terminal.out(), (named(view.name), "bold"), " ", _terms(view))
    if not view.members:
        terminal.say(
            terminal.err(), "Nobody was ever on duty: `", command("team on", view.name), "`."
        )
    else:
        terminal.say_table(terminal.out(), _PEOPLE, view.members)
    if view.conversations:
        terminal.say_table(terminal.out(), _CONVERSATIONS, view.conversations)
    else:
        terminal.say(terminal.err(), "No conversation waits for the team.")


@on_server
async def on(
    caller: Caller,
    team: str,
    person: Person = None,
    tenant: str = "",
    capacity: Annotated[int | None, typer.Option(min=0)] = None,
    until: str | None = None,
    within: str | None = None,
    by: By = None,
    task_queue: options.TaskQueue = options.DEFAULT_TASK_QUEUE,
) -> None:
    """Go on duty: conversations of the team are assigned to you, or to somebody else.

    Command line:
        team (TEAM): The team's name.
        person (PERSON): Who. Default: you.
        tenant: The tenant whose team it is.
        capacity: How many conversations they have at most. Default: the team's number.
        until: When they leave duty by themselves: in 8h, or at a time such as 2026-11-30T17:00.
        within (CALENDAR): A length counts only the hours of this calendar of the operators' file.
    """
    ends: datetime | timedelta | None = None
    if until is not None and within is not None:
        ends = duration_of(until, "With --within, --until")
    elif until is not None:
        ends = coming_time(until, "--until", now()).astimezone()
    who = person or sender(None).subject
    asked = await _team(caller, team, tenant, task_queue)
    view = await asked.on_duty(who, by=sender(by), capacity=capacity, until=ends, within=within)
    _say_duty(caller, view, who, "on")


@on_server
async def off(
    caller: Caller, team: str, person: Person = None, tenant: str = "", by: By = None
) -> None:
    """Leave duty: what was not taken yet goes on to others.

    Command line:
        team (TEAM): The team's name.
        person (PERSON): Who. Default: you.
        tenant: The tenant whose team it is.
    """
    who = person or sender(None).subject
    view = await (await _team(caller, team, tenant)).off_duty(who, by=sender(by))
    _say_duty(caller, view, who, "off")


@on_server
async def rule(
    caller: Caller,
    team: str,
    rule: Annotated[Rule, typer.Argument(metavar="RULE")],
    tenant: str = "",
    capacity: Annotated[int, typer.Option(min=1)] = 5,
    return_after: str | None = None,
    within: str | None = None,
    by: By = None,
    task_queue: options.TaskQueue = options.DEFAULT_TASK_QUEUE,
) -> None:
    """Change how a team assigns: round_robin takes turns, least_busy looks who has the fewest.

    Command line:
        team (TEAM): The team's name.
        tenant: The tenant whose team it is.
        capacity: How many conversations a person has at most.
        return_after: After which time a conversation goes on that its person has not taken or not
            answered, such as 15min. Default: it stays with them.
        within (CALENDAR): That time counts only the hours of this calendar, as the workers know it.
    """
    after = None if return_after is None else duration_of(return_after, "--return-after")
    asked = await _team(caller, team, tenant, task_queue)
    view = await asked.assign_by(
        by=sender(by), rule=rule, capacity=capacity, return_after=after, within=within
    )
    caller.show(view.record(), named(view.name), " ", _terms(view))


async def _team(
    caller: Caller, name: str, tenant: str, task_queue: str = options.DEFAULT_TASK_QUEUE
) -> "Team":
    from outlast.client.teams import Team

    return Team((await caller.connect()).client, name, tenant=tenant, task_queue=task_queue)


def _say_duty(caller: Caller, view: "TeamView", who: str, duty: str) -> None:
    member = view.member(who)
    if member is None:
        raise UserError(f"{who!r:.80} was never on duty in the team {view.name!r:.80}.")
    has = counted(member.conversations, "conversation")
    caller.show(
        view.record(),
        named(member.subject),
        f" is {duty} duty in ",
        named(view.name),
        f", with {has}.",
    )


# --- For people ----------------------------------------------------------------------------------


def _terms(view: "TeamView") -> str:
    after = "" if view.return_after is None else f", back after {rough(view.return_after)}"
    after += f" of {named(view.within)}" if view.within else ""
    how = "takes turns" if view.rule == "round_robin" else "looks who has the fewest"
    return f"{how}, at most {view.capacity} for each{after}"


_PEOPLE: "tuple[Column[TeamMember], ...]" = (
    Column("PERSON", lambda one: named(one.subject), folds=True),
    Column("DUTY", lambda one: ("on", "green") if one.on_duty else ("off", "dim")),
    Column("HAS", lambda one: f"{one.conversations} of {one.capacity}", numbers=True),
    Column("UNTIL", lambda one: "-" if one.until is None else shown_time(ms_of(one.until))),
)

_CONVERSATIONS: "tuple[Column[TeamConversation], ...]" = (
    Column("CONVERSATION", lambda one: one.run_id, folds=True),
    Column("ASSIGNED TO", lambda one: named(one.to) if one.to else "nobody yet", folds=True),
    Column("TAKEN", lambda one: "yes" if one.taken else "no"),
    Column("SINCE", lambda one: rough(now() - one.since), numbers=True),
    Column(
        "GOES ON IN", lambda one: "-" if one.due is None else rough(one.due - now()), numbers=True
    ),
)
