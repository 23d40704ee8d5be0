"""`outlast figures`: waiting times, decisions, takeovers, replies and ratings by day."""

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from outlast.cli import terminal
from outlast.cli.caller import Caller, on_server
from outlast.cli.search_index import Index, chosen_index
from outlast.cli.terminal import Column
from outlast.edges.rendering import rough

if TYPE_CHECKING:
    from outlast.client.figures import DayFigures


@on_server
async def figures(
    caller: Caller,
    days: Annotated[int, typer.Option(min=1, max=366)] = 14,
    team: str | None = None,
    time_zone: str = "UTC",
    place: Index = None,
) -> None:
    """Show how long people waited, decisions, takeovers, replies and ratings, by day.

    The figures come from the index of search, which `outlast search run` feeds.

    Command line:
        days: How many days, with today.
        team: Only conversations that were assigned to this team at the time.
        time_zone: The time zone in which days begin, such as Europe/Berlin.
    """
    from outlast.client.figures import team_figures

    index = chosen_index(place)
    client = (await caller.connect()).client
    found = await team_figures(client, index, days=days, team=team, time_zone=time_zone)
    if caller.printed_json(found.record()):
        return
    terminal.say_table(terminal.out(), _COLUMNS, [*found.days, found.total])
    if found.problem:
        terminal.say(terminal.err(), found.problem)


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else rough(timedelta(seconds=seconds))


_COLUMNS: "tuple[Column[DayFigures], ...]" = (
    Column("DAY", lambda one: one.day or "all"),
    Column("REPLIES", lambda one: f"{one.replies:,}", numbers=True),
    Column("WAITED", lambda one: _time(one.reply_seconds), numbers=True),
    Column("DECISIONS", lambda one: f"{one.decisions:,}", numbers=True),
    Column("WAITED", lambda one: _time(one.decision_seconds), numbers=True),
    Column("TAKEOVERS", lambda one: f"{one.takeovers:,}", numbers=True),
    Column("GOOD", lambda one: f"{one.good:,}", numbers=True),
    Column("BAD", lambda one: f"{one.bad:,}", numbers=True),
    Column("MEAN", lambda one: "-" if one.score is None else f"{one.score:g}", numbers=True),
)
