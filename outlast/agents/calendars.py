"""Calendars: the hours in which people work, and durations that count only those hours.

A calendar has opening hours for each day of the week, holidays, and half days, in one time zone. Its
hours are those that a clock on the wall shows there: an hour that a spring night skips is not open,
and an hour that an autumn night repeats is open twice.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any, Final, TypeAlias, cast
from zoneinfo import ZoneInfo

from outlast.agents.argument_names import near_name
from outlast.agents.checks import check_list
from outlast.agents.errors import UserError

HORIZON: Final = timedelta(days=3 * 366)
"""How far ahead a calendar is read: a duration has to end within these three years."""

LONGEST_NAME: Final = 60
MOST_DATES: Final = 2_000
"""The most holidays, and the most half days, of a calendar."""

Hours: TypeAlias = str | Sequence[str]
"""The hours of a day, such as `9:00-17:00`, or `["9:00-12:00", "13:00-17:00"]`."""

_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_NAME: Final = re.compile(r"\w[\w .-]*")
_RANGE: Final = re.compile(r"(\d{1,2}):([0-5]\d) *- *(\d{1,2}):([0-5]\d)")
_YEARS: Final = (1900, 9000)
_LONGEST_HOURS: Final = 200  # characters; more is a mistake

_Range: TypeAlias = tuple[timedelta, timedelta]
_Span: TypeAlias = tuple[datetime, datetime]


@dataclass(frozen=True)
class Calendar:
    """The hours of a team, and what counts only them.

        Calendar(
            "support-hours",
            zone="Europe/Berlin",
            hours={"mon-thu": "9:00-17:00", "fri": ["9:00-12:00", "13:00-15:00"]},
            holidays=[date(2026, 12, 25)],
            half_days={date(2026, 12, 24): "9:00-12:00"},
        )

    Attributes:
        name: the name by which policies and waits refer to it.
        zone: the time zone of its hours, such as `Europe/Berlin`.
        hours: the hours of the days of the week: a day (`mon` to `sun`) or days (`mon-fri`), and
            their hours. A day that is not named is closed. Hours end at midnight (`24:00`) or before.
        holidays: dates on which it is closed.
        half_days: dates with other hours than their day of the week.
    """

    name: str
    zone: str = field(kw_only=True)
    hours: Mapping[str, Hours] = field(kw_only=True, compare=False)
    holidays: Sequence[date | str] = field(kw_only=True, default=(), compare=False)
    half_days: Mapping[Any, Hours] = field(
        kw_only=True, default_factory=dict[Any, Any], compare=False
    )
    _week: tuple[tuple[_Range, ...], ...] = field(init=False, repr=False)
    _dates: Mapping[date, tuple[_Range, ...]] = field(init=False, repr=False, hash=False)
    _zone: ZoneInfo = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_calendar_name("Calendar(name)", self.name)
        object.__setattr__(self, "_zone", _zone_of(self._place("zone"), self.zone))
        object.__setattr__(self, "_week", self._read_week())
        object.__setattr__(self, "_dates", self._read_dates())

    def after(self, start: datetime, duration: timedelta) -> datetime:
        """Return the moment at which the calendar was open for a duration since a start.

        It is inside of the hours, or where they end: eight hours from Monday at 9:00 end on Monday
        at 17:00, not on Tuesday morning. A duration of zero ends at its start, open or not.

        Args:
            start: a time with a zone.
            duration: how long the calendar has to be open.

        Returns:
            The time, in UTC.

        Raises:
            UserError: the start has no zone, the duration is negative, or it does not end within three
                years.
        """
        start, left = _utc("start", start), duration
        if left < timedelta():
            raise UserError(f"Calendar.after(duration=...) must not be negative, not {duration}.")
        if not left:
            return start
        for opens, closes in self._spans(start, start + HORIZON):
            if closes - opens >= left:
                return opens + left
            left -= closes - opens
        raise UserError(
            f"{duration} of the calendar {self.name!r} do not end within three years from "
            f"{start:%Y-%m-%d}. Choose a shorter duration, or give the calendar more hours."
        )

    def is_open(self, at: datetime) -> bool:
        """Whether it is open at a time, which has a zone; it is closed where its hours end."""
        at = _utc("at", at)
        return any(True for _ in self._spans(at, at + timedelta.resolution))

    def open_time_between(self, start: datetime, end: datetime) -> timedelta:
        """Return how long it is open between two times with zones; zero if the end is not later."""
        spans = self._spans(_utc("start", start), _utc("end", end))
        return sum((closes - opens for opens, closes in spans), timedelta())

    def next_opening(self, at: datetime) -> datetime | None:
        """Return when it is open next, in UTC: now if it is open; None if not within three years."""
        at = _utc("at", at)
        return next((opens for opens, _ in self._spans(at, at + HORIZON)), None)

    @property
    def zone_info(self) -> ZoneInfo:
        """The time zone of its hours."""
        return self._zone

    # --- Hours as spans of time --------------------------------------------------------------------

    def _spans(self, start: datetime, end: datetime) -> Iterator[_Span]:
        """Yield when it is open between two times in UTC, in order."""
        week = timedelta(days=7)
        while start < end:
            stop = min(start + week, end)
            # A clock that is turned back shows a date again, so days are sorted after all are read.
            first, days = start.date() - timedelta(days=2), (stop - start).days + 5
            found = (one for at in range(days) for one in self._open_on(first + timedelta(days=at)))
            for opens, closes in sorted(found):
                if (begin := max(opens, start)) < (until := min(closes, stop)):
                    yield begin, until
            start = stop

    def _open_on(self, day: date) -> Iterator[_Span]:
        """Yield the times in UTC at which the clock shows this day and one of its hours."""
        ranges = self._dates.get(day, self._week[day.weekday()])
        if not ranges:
            return
        shown = datetime(day.year, day.month, day.day, tzinfo=UTC)
        low, high = shown - timedelta(days=2), shown + timedelta(days=3)
        before, after = self._offset(low), self._offset(high)
        turn = high if before == after else self._turn(low, high, before)
        for offset, earliest, latest in ((before, low, turn), (after, turn, high)):
            for begins, ends in ranges:
                opens = max(shown + begins - offset, earliest)
                closes = min(shown + ends - offset, latest)
                if opens < closes:
                    yield opens, closes

    def _offset(self, at: datetime) -> timedelta:
        return at.astimezone(self._zone).utcoffset() or timedelta()

    def _turn(self, low: datetime, high: datetime, before: timedelta) -> datetime:
        """Return the second at which the offset changes between two times."""
        while high - low > timedelta(seconds=1):
            middle = low + timedelta(seconds=(high - low) // timedelta(seconds=2))
            low, high = (middle, high) if self._offset(middle) == before else (low, middle)
        return high

    # --- Definitions -------------------------------------------------------------------------------

    def _place(self, what: str) -> str:
        return f"Calendar({self.name!r}, {what}=...)"

    def _read_week(self) -> tuple[tuple[_Range, ...], ...]:
        place = self._place("hours")
        week: dict[int, tuple[_Range, ...]] = {}
        for days, hours in _mapping(place, self.hours).items():
            for day in _days(place, days):
                if day in week:
                    raise UserError(f"{place} names {_DAYS[day]} twice. Write its hours once.")
                week[day] = _ranges(f"{place}: {days}", hours)
        if not any(week.values()):
            raise UserError(
                f"{place} has no hours, so no duration would ever end. Add some, such as "
                '{"mon-fri": "9:00-17:00"}.'
            )
        return tuple(week.get(day, ()) for day in range(7))

    def _read_dates(self) -> dict[date, tuple[_Range, ...]]:
        place, half = self._place("holidays"), self._place("half_days")
        listed = check_list(place, self.holidays)
        found = dict.fromkeys((_date(place, one) for one in listed), cast("tuple[_Range, ...]", ()))
        half_days = _mapping(half, self.half_days)
        if max(len(listed), len(half_days)) > MOST_DATES:
            raise UserError(f"{place} and half_days have at most {MOST_DATES:,} dates each.")
        for day, hours in half_days.items():
            if (at := _date(half, day)) in found:
                raise UserError(
                    f"{half} names {at} twice, or holidays names it, too. Write it once."
                )
            found[at] = _ranges(f"{half}: {at}", hours)
        return found


def check_calendar_name(place: str, name: object) -> None:
    """Refuse a name that no calendar has."""
    if not isinstance(name, str) or len(name) > LONGEST_NAME or not _NAME.fullmatch(name):
        raise UserError(
            f"{place} must be the name of a calendar: up to {LONGEST_NAME} letters, digits, spaces, and "
            f"any of `_ . -`, such as 'support-hours', not {name!r:.80}."
        )


def find_calendar(name: str, *tables: Mapping[str, Calendar]) -> Calendar:
    """Return a calendar by its name, from the first table that has it.

    Raises:
        UserError: none has it.
    """
    known = {one: found for table in reversed(tables) for one, found in table.items()}
    if name in known:
        return known[name]
    listed = ", ".join(repr(one) for one in sorted(known)) or "none"
    raise UserError(
        f"There is no calendar {name!r:.80} here.{near_name(name, known)} There is: {listed}. Pass it as "
        "AgentWorker(calendars=[...]), or write it as a table [calendar.NAME] of the operators' file."
    )


def _zone_of(place: str, zone: object) -> ZoneInfo:
    try:
        return ZoneInfo(cast("str", zone))
    except (KeyError, ValueError, TypeError, OSError, AttributeError):
        raise UserError(
            f"{place}: this process knows no time zone {zone!r:.80}. Name one such as 'Europe/Berlin' or "
            "'UTC'. If the name is right, the machine has no time zones: pip install tzdata."
        ) from None


def _mapping(place: str, value: object) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise UserError(f"{place} must be a dict, not {value!r:.80}.")
    return cast("Mapping[Any, Any]", value)


def _days(place: str, text: object) -> Iterator[int]:
    """Yield the numbers of the days that a text such as `mon` or `mon-fri` names."""
    first, dash, last = text.strip().lower().partition("-") if isinstance(text, str) else ("",) * 3
    last = last if dash else first
    if first not in _DAYS or last not in _DAYS:
        raise UserError(f"{place}: {text!r:.80} is no day. Write days as 'mon' or 'mon-fri'.")
    start, count = _DAYS.index(first), (_DAYS.index(last) - _DAYS.index(first)) % 7 + 1
    yield from ((start + at) % 7 for at in range(count))


def _ranges(place: str, hours: object) -> tuple[_Range, ...]:
    """Return the hours of a day, in order."""
    listed = hours.split(",") if isinstance(hours, str) and hours.strip() else hours or ()
    texts = cast("Sequence[object]", listed) if isinstance(listed, list | tuple) else (listed,)
    found: list[_Range] = []
    for text in texts:
        is_short = isinstance(text, str) and len(text) <= _LONGEST_HOURS
        read = _RANGE.fullmatch(cast("str", text).strip()) if is_short else None
        if read is None:
            raise UserError(f"{place}: {text!r:.80} are no hours. Write them as '9:00-17:00'.")
        begins, ends = _clock(read[1], read[2]), _clock(read[3], read[4])
        if not begins < ends <= timedelta(days=1):
            raise UserError(
                f"{place}: {text!r:.80} must begin before it ends, at 24:00 at the latest. Hours over "
                "midnight are two: '22:00-24:00', and '0:00-6:00' on the next day."
            )
        found.append((begins, ends))
    found.sort()
    for (_, ends), (begins, _) in pairwise(found):
        if begins < ends:
            raise UserError(
                f"{place}: hours overlap in {hours!r:.80}. Write them without overlaps."
            )
    return tuple(found)


def _clock(hours: str, minutes: str) -> timedelta:
    return timedelta(hours=int(hours), minutes=int(minutes))


def _date(place: str, value: object) -> date:
    if isinstance(value, datetime):
        named = f"date({value.year}, {value.month}, {value.day})"
        raise UserError(f"{place}: {value!r} is a time. Name the date: {named}.")
    if isinstance(value, date):
        return value
    try:
        return date.fromisoformat(cast("str", value))
    except (ValueError, TypeError):
        raise UserError(
            f"{place}: {value!r:.80} is no date. Write date(2026, 12, 25) or '2026-12-25'."
        ) from None


def _utc(what: str, at: datetime) -> datetime:
    if not isinstance(cast("object", at), datetime) or at.tzinfo is None:
        raise UserError(f"Calendar: {what} must be a time with a zone, not {at!r:.80}.")
    if not _YEARS[0] <= at.year <= _YEARS[1]:
        raise UserError(
            f"Calendar: {what} must be a year from {_YEARS[0]} to {_YEARS[1]}, not {at}."
        )
    return at.astimezone(UTC)
