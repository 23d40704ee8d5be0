"""Reply times: how soon a person replies to a customer who waits for one."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from outlast.agents.calendars import Calendar, check_calendar_name
from outlast.agents.checks import check_list, check_name, duration
from outlast.agents.durations import DurationField, duration_field
from outlast.agents.errors import UserError
from outlast.loop import start as records
from outlast.loop.open_hours import CountedReply, HoursOfReply

LONGEST_AWAY: Final = 500  # characters
LONGEST_TARGET: Final = timedelta(days=366)

_NAMES: Final = frozenset({"day", "date", "time"})
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True, kw_only=True)
class ReplyTimes:
    """The times in which a person replies where a conversation is held or assigned.

    Durations are `timedelta`s or seconds, to a year.

    Attributes:
        first: how long the customer waits for the first reply of a person.
        next: how long for every other one; None: as long.
        warn: how long before that people are told that it is nearly over, in hours of the clock;
            None: they are not.
        within: the calendar whose hours count, or its name at the worker; None: all hours.
        away: what the customer reads when they write while it is closed, such as "We are back on
            {day} at {time}."; also `{date}`. None: nothing. It needs `within`.
        days: the names of the days in it, from Monday; None: the English ones.
    """

    first: DurationField[timedelta] = duration_field(timedelta(0))  # noqa: RUF009  a descriptor
    next: DurationField[timedelta | None] = duration_field(None)  # noqa: RUF009  same
    warn: DurationField[timedelta | None] = duration_field(None)  # noqa: RUF009  same
    within: Calendar | str | None = None
    away: str | None = None
    days: Sequence[str] | None = None

    def __post_init__(self) -> None:
        for name in ("first", "next", "warn"):
            length = getattr(self, name)
            if name == "first" or length is not None:
                duration(_place(name), length)
                if length > LONGEST_TARGET:
                    raise UserError(f"{_place(name)} must be at most a year, not {length}.")
        if self.within is not None and not isinstance(self.within, Calendar):
            check_calendar_name(_place("within"), self.within)
        if self.away is not None:
            self._check_away(self.away)
        if self.days is not None:
            listed = check_list(_place("days"), self.days)
            for one in listed:
                check_name(f"{_place('days')}: each name", one)
            if len(listed) != len(_DAYS):
                raise UserError(f"{_place('days')} must have seven names, from Monday.")

    def _check_away(self, away: str) -> None:
        place = _place("away")
        check_name(place, away)
        if self.within is None:
            raise UserError(f"{place} says when it opens, so it needs within=, the calendar.")
        if len(away) > LONGEST_AWAY:
            raise UserError(f"{place} must have at most {LONGEST_AWAY} characters.")
        unknown = {*re.findall(r"{(.*?)}", away)} - _NAMES
        if unknown:
            raise UserError(
                f"{place} has {{{min(unknown):.40}}}, which means nothing. Use {{day}}, {{date}} or {{time}}."
            )

    @property
    def record(self) -> records.ReplyTimes:
        """The times as a run keeps them."""
        within = self.within.name if isinstance(self.within, Calendar) else self.within
        return records.ReplyTimes(
            first_ms=_ms(self.first),
            next_ms=_ms(self.first if self.next is None else self.next),
            warn_ms=None if self.warn is None else _ms(self.warn),
            within=within or "",
            away=self.away or "",
            days=tuple(self.days or ()),
        )


def counted_reply(calendar: Calendar, asked: HoursOfReply, since: datetime) -> CountedReply:
    """Return when a reply is due in the hours of a calendar, and what the customer reads.

    Raises:
        UserError: it is not due within three years.
    """
    due_ms = asked.since_ms + _ms(
        calendar.after(since, timedelta(milliseconds=asked.lasts_ms)) - since
    )
    warn_ms = None if asked.warn_ms is None else max(due_ms - asked.warn_ms, asked.since_ms)
    opens = None if calendar.is_open(since) else calendar.next_opening(since)
    if not asked.away or opens is None:
        return CountedReply(since_ms=asked.since_ms, due_ms=due_ms, warn_ms=warn_ms)
    shown = opens.astimezone(calendar.zone_info)
    words = {
        "{day}": (asked.days if len(asked.days) == len(_DAYS) else _DAYS)[shown.weekday()],
        "{date}": f"{shown:%Y-%m-%d}",
        "{time}": f"{shown.hour}:{shown:%M}",
    }
    return CountedReply(
        since_ms=asked.since_ms,
        due_ms=due_ms,
        warn_ms=warn_ms,
        away=re.sub(r"{(?:day|date|time)}", lambda one: words[one[0]], asked.away),
        back_ms=asked.since_ms + _ms(opens - since),
    )


def _place(name: str) -> str:
    return f"ReplyTimes({name}=...)"


def _ms(length: timedelta) -> int:
    return max(length // timedelta(milliseconds=1), 1)
