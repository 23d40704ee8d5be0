"""Figures of a team by day: how long people waited, decisions, takeovers, replies and ratings.

They come from the index of search: no history is read for them.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from statistics import mean, median
from typing import Final
from zoneinfo import ZoneInfo

from temporalio.client import Client

from outlast.agents.errors import UserError
from outlast.agents.threads import run_in_thread
from outlast.client.search import behind_words, search_status, space_of
from outlast.contract.ratings import rated_as
from outlast.edges.clock import now
from outlast.loop.values import JsonObject
from outlast.search.index import SearchIndex
from outlast.search.occurrences import Occurrence, OccurrenceKind
from outlast.temporal.visibility.scopes import EVERYTHING, Scopes

MOST_DAYS: Final = 366


@dataclass(frozen=True, slots=True, kw_only=True)
class DayFigures:
    """What happened on a day, or in all days together.

    Attributes:
        day: the date, such as `2026-11-30`; empty for all days.
        decisions: the requests that people decided.
        decision_seconds: the median time from a request to its decision; None without one.
        takeovers: how often a person took a conversation over.
        replies: the replies of people to customers who waited for a person.
        reply_seconds: the median time that these customers waited; None without one.
        ratings: the conversations that were rated.
        good: how many of them 4 or 5.
        bad: how many of them 1 or 2.
        score: the mean of the ratings; None without one.
    """

    day: str = ""
    decisions: int = 0
    decision_seconds: float | None = None
    takeovers: int = 0
    replies: int = 0
    reply_seconds: float | None = None
    ratings: int = 0
    good: int = 0
    bad: int = 0
    score: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamFigures:
    """The figures of some days.

    Attributes:
        days: each day, the newest first.
        total: all days together.
        time_zone: the time zone in which days begin.
        as_of_ms: everything before is counted; 0 if that was never so.
        problem: what is wrong with the index, in a sentence; empty for nothing.
    """

    days: tuple[DayFigures, ...]
    total: DayFigures
    time_zone: str = "UTC"
    as_of_ms: int = 0
    problem: str = ""

    def record(self) -> JsonObject:
        """Return the figures for programs."""
        return asdict(self)


async def team_figures(
    client: Client,
    index: SearchIndex,
    *,
    days: int = 14,
    team: str | None = None,
    time_zone: str = "UTC",
    scopes: Scopes = EVERYTHING,
) -> TeamFigures:
    """Return what happened on the last days, today among them.

    Args:
        client: connected to the runs' server.
        index: the index of search.
        days: how many days, up to 366.
        team: only conversations that were assigned to this team at the time; None for all.
        time_zone: in which days begin, such as `Europe/Berlin`.
        scopes: whose conversations count; default: all.

    Raises:
        UserError: there is no such time zone, or the days are too many.
        SearchUnavailable: the index is not there, or cannot be read.
        AgentsException: the server refused, or does not answer.
    """
    if not 1 <= days <= MOST_DAYS:
        raise UserError(f"Figures are of 1 to {MOST_DAYS} days, not {days}.")
    zone = _zone(time_zone)
    today = now().astimezone(zone).date()
    dates = [today - timedelta(days=back) for back in range(days)]
    begin, end = (
        round(datetime(one.year, one.month, one.day, tzinfo=zone).timestamp() * 1_000)
        for one in (dates[-1], today + timedelta(days=1))
    )
    status, space = await search_status(client, index), await space_of(client)
    found = await run_in_thread(index.occurrences, space, scopes, (begin, end), team=team)
    by_day = defaultdict[str, list[Occurrence]](list)
    for one in found:
        by_day[f"{datetime.fromtimestamp(one.at_ms / 1_000, UTC).astimezone(zone):%Y-%m-%d}"] += [
            one
        ]
    return TeamFigures(
        days=tuple(_figures(by_day[str(one)], str(one)) for one in dates),
        total=_figures(found),
        time_zone=time_zone,
        as_of_ms=0 if status is None else status.as_of_ms,
        problem=behind_words(status, shows_counts=not scopes),
    )


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise UserError(
            f"{name!r:.80} is no time zone. Write such as Europe/Berlin, or UTC."
        ) from None


def _figures(found: Sequence[Occurrence], day: str = "") -> DayFigures:
    values = defaultdict[OccurrenceKind, list[int]](list)
    for one in found:
        values[one.kind].append(one.value)
    ratings = values["rating"]
    words = [rated_as(one) for one in ratings]
    return DayFigures(
        day=day,
        decisions=len(values["decision"]),
        decision_seconds=_median_seconds(values["decision"]),
        takeovers=len(values["takeover"]),
        replies=len(values["reply"]),
        reply_seconds=_median_seconds(values["reply"]),
        ratings=len(ratings),
        good=words.count("good"),
        bad=words.count("bad"),
        score=round(mean(ratings), 2) if ratings else None,
    )


def _median_seconds(milliseconds: Iterable[int]) -> float | None:
    known = list(milliseconds)
    return round(median(known) / 1_000, 1) if known else None
