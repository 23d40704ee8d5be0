"""Calendars: definitions, hours in zones whose clocks change, and laws of durations."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.agents.calendars import HORIZON, Calendar
from outlast.agents.errors import UserError

BERLIN = ZoneInfo("Europe/Berlin")
OFFICE = Calendar(
    "support-hours",
    zone="Europe/Berlin",
    hours={"mon-thu": "9:00-17:00", "fri": ["9:00-12:00", "13:00-15:00"]},
    holidays=[date(2026, 12, 25), "2027-01-01"],
    half_days={date(2026, 12, 24): "9:00-12:00", "2026-12-31": ["9:00-10:00", "11:00-12:00"]},
)


def at(text: str, zone: ZoneInfo = BERLIN, fold: int = 0) -> datetime:
    """Return what a clock shows, in UTC: times in zones are compared as they are shown."""
    return datetime.fromisoformat(text).replace(tzinfo=zone, fold=fold).astimezone(UTC)


def hours(count: float) -> timedelta:
    return timedelta(hours=count)


@pytest.mark.parametrize(
    ("start", "duration", "end"),
    [
        ("2026-11-30 09:00", hours(8), "2026-11-30 17:00"),  # where the hours end, not on Tuesday
        ("2026-11-30 09:00", hours(8.5), "2026-12-01 09:30"),
        ("2026-11-27 14:00", hours(4), "2026-11-30 12:00"),  # over the weekend
        ("2026-11-28 03:00", hours(0), "2026-11-28 03:00"),
        ("2026-11-28 03:00", timedelta(minutes=1), "2026-11-30 09:01"),
        ("2026-11-27 11:30", hours(1), "2026-11-27 13:30"),  # over lunch
        ("2026-12-24 11:00", hours(2), "2026-12-28 10:00"),  # a half day, and a holiday
        ("2026-12-31 09:30", hours(1.5), "2026-12-31 12:00"),
    ],
)
def test_a_duration_counts_open_hours_only(start: str, duration: timedelta, end: str) -> None:
    assert OFFICE.after(at(start), duration) == at(end)
    assert OFFICE.open_time_between(at(start), at(end)) == duration


@pytest.mark.parametrize(
    ("moment", "is_open", "opening"),
    [
        ("2026-11-30 09:00", True, "2026-11-30 09:00"),
        ("2026-11-30 16:59", True, "2026-11-30 16:59"),
        ("2026-11-30 17:00", False, "2026-12-01 09:00"),
        ("2026-11-27 12:30", False, "2026-11-27 13:00"),
        ("2026-12-25 10:00", False, "2026-12-28 09:00"),
        ("2027-01-01 10:00", False, "2027-01-04 09:00"),
    ],
)
def test_when_it_is_open(moment: str, is_open: bool, opening: str) -> None:
    assert OFFICE.is_open(at(moment)) is is_open
    assert OFFICE.next_opening(at(moment)) == at(opening)


def test_an_hour_that_spring_skips_is_not_open_and_one_that_autumn_repeats_is_open_twice() -> None:
    night = Calendar("night", zone="Europe/Berlin", hours={"sat-sun": "1:30-3:30"})
    spring, autumn = at("2026-03-29 00:00"), at("2026-10-25 00:00")
    assert night.open_time_between(spring, spring + timedelta(days=1)) == hours(1)
    assert night.open_time_between(autumn, autumn + hours(30)) == hours(3)
    assert night.after(spring, timedelta(minutes=45)) == at("2026-03-29 03:15")
    assert night.after(autumn, hours(1)) == at("2026-10-25 02:30")
    assert night.after(autumn, hours(2)) == at("2026-10-25 02:30", fold=1)
    # Hours that exist only in the night's second round, or not at all.
    half = Calendar("half", zone="Europe/Berlin", hours={"sun": "2:15-2:45"})
    assert half.open_time_between(autumn, autumn + hours(30)) == hours(1)
    assert half.open_time_between(spring, spring + timedelta(days=1)) == timedelta()
    assert half.next_opening(spring) == at("2026-04-05 02:15")


def test_a_day_that_a_zone_skips_is_not_open() -> None:
    """Samoa went from Thursday, December 29 of 2011, to Saturday."""
    apia = ZoneInfo("Pacific/Apia")
    every = Calendar("apia", zone="Pacific/Apia", hours={"mon-sun": "0:00-24:00"})
    friday = Calendar("friday", zone="Pacific/Apia", hours={"fri": "9:00-10:00"})
    start = at("2011-12-29 12:00", apia)
    assert every.open_time_between(start, start + hours(48)) == hours(48)
    assert friday.next_opening(start) == at("2012-01-06 09:00", apia)


def test_a_duration_of_more_than_a_year_ends_and_one_of_more_than_three_is_refused() -> None:
    start = at("2026-11-30 09:00")
    weekly = Calendar("weekly", zone="UTC", hours={"mon": "9:00-10:00"})
    assert weekly.after(start, hours(60)) - start > timedelta(days=400)
    with pytest.raises(UserError, match=r"'weekly' do not end within three years from 2026-11-30"):
        weekly.after(start, hours(200))
    closed = Calendar(
        "closed",
        zone="UTC",
        hours={"mon": "9:00-10:00"},
        holidays=[date(2026, 11, 30) + timedelta(days=at) for at in range(HORIZON.days + 9)],
    )
    assert closed.next_opening(start) is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"zone": "Europe/Bonn"}, "knows no time zone 'Europe/Bonn'"),
        ({"zone": "../../etc/passwd"}, "knows no time zone"),
        ({"zone": ""}, "knows no time zone"),
        ({"zone": None}, "knows no time zone None"),
        ({"zone": "Europe/Berlin\n"}, "knows no time zone"),
        ({"hours": {}}, "has no hours, so no duration would ever end"),
        ({"hours": {"mon-fri": []}}, "has no hours"),
        ({"hours": {"mon": ""}}, "has no hours"),
        ({"hours": "9:00-17:00"}, "must be a dict"),
        ({"hours": {"monday": "9:00-17:00"}}, "'monday' is no day"),
        ({"hours": {1: "9:00-17:00"}}, "1 is no day"),
        ({"hours": {"mon-fri": "9:00-17:00", "fri": "9:00-12:00"}}, "names fri twice"),
        ({"hours": {"mon": "9-17"}}, "'9-17' are no hours"),
        ({"hours": {"mon": 9}}, "9 are no hours"),
        ({"hours": {"mon": "9:00-17:00," * 50}}, "are no hours"),
        ({"hours": {"mon": "17:00-9:00"}}, "must begin before it ends"),
        ({"hours": {"mon": "9:00-9:00"}}, "must begin before it ends"),
        ({"hours": {"mon": "9:00-24:01"}}, "at 24:00 at the latest"),
        ({"hours": {"mon": ["9:00-13:00", "12:00-17:00"]}}, "hours overlap"),
        (
            {"holidays": [datetime(2026, 12, 25, tzinfo=UTC)]},
            r"is a time. Name the date: date\(2026, 12, 25\)",
        ),
        ({"holidays": ["25.12.2026"]}, "'25.12.2026' is no date"),
        ({"holidays": [20261225]}, "is no date"),
        ({"holidays": "2026-12-25"}, "must be a list"),
        ({"holidays": ["2026-12-25"], "half_days": {"2026-12-25": "9:00-12:00"}}, "twice"),
        ({"half_days": {date(2026, 12, 24): "9", "2026-12-24": "9:00-10:00"}}, "are no hours"),
        ({"half_days": ["2026-12-24"]}, "must be a dict"),
        (
            {"holidays": [date(2000, 1, 1) + timedelta(days=n) for n in range(2001)]},
            "at most 2,000",
        ),
        ({"name": ""}, "must be the name of a calendar"),
        ({"name": "a" * 61}, "must be the name of a calendar"),
        ({"name": "x\x1b[31m"}, "must be the name of a calendar"),
        ({"name": "a`b"}, "must be the name of a calendar"),
        ({"name": "<b>"}, "must be the name of a calendar"),
        ({"name": "a\n"}, "must be the name of a calendar"),
        ({"name": 7}, "must be the name of a calendar"),
    ],
)
def test_a_calendar_that_means_nothing_is_refused(changes: dict[str, Any], said: str) -> None:
    made: dict[str, Any] = {
        "name": "support",
        "zone": "Europe/Berlin",
        "hours": {"mon": "9:00-17:00"},
    } | changes
    with pytest.raises(UserError, match=said):
        Calendar(made.pop("name"), **made)


def _an_hour_after(moment: Any) -> object:
    return OFFICE.after(moment, hours(1))


def _no_time_between(moment: Any) -> object:
    return OFFICE.open_time_between(moment, moment)


@pytest.mark.parametrize(
    "ask",
    [_an_hour_after, OFFICE.is_open, OFFICE.next_opening, _no_time_between],
    ids=["after", "is_open", "next_opening", "open_time_between"],
)
@pytest.mark.parametrize(
    "moment",
    [datetime(2026, 1, 1), date(2026, 1, 1), datetime.max.replace(tzinfo=UTC)],  # noqa: DTZ001  the case
)
def test_a_time_without_a_zone_or_far_away_is_refused(
    ask: Callable[[Any], object], moment: Any
) -> None:
    with pytest.raises(UserError, match=r"must be a (time with a zone|year from)"):
        ask(moment)


def test_a_negative_duration_is_refused_and_an_end_before_the_start_has_no_open_time() -> None:
    with pytest.raises(UserError, match="must not be negative"):
        OFFICE.after(at("2026-11-30 09:00"), -hours(1))
    assert not OFFICE.open_time_between(at("2026-11-30 12:00"), at("2026-11-30 10:00"))


def test_calendars_with_the_same_hours_are_equal() -> None:
    def one(spelled: Any) -> Calendar:
        return Calendar("support", zone="UTC", hours={"mon-tue": spelled})

    assert one("9:00-12:00, 13:00-17:00") == one(["13:00-17:00", "09:00-12:00"])
    assert one("9:00-17:00") != one("9:00-12:00")
    assert len({one("9:00-17:00"), one(["9:00-17:00"])}) == 1


# --- Laws -----------------------------------------------------------------------------------------

ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",  # half an hour
    "Asia/Kathmandu",  # three quarters
    "Australia/Lord_Howe",  # turns its clocks by half an hour
    "America/St_Johns",
    "Africa/Casablanca",
    "Atlantic/Azores",  # turns them back over midnight
)
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
NEAR = [  # days around which clocks change, and a year's turn
    datetime(2026, month, day, tzinfo=UTC)
    for month, day in (
        *((3, 8), (3, 29), (4, 5), (10, 4), (10, 25), (11, 1)),
        *((2, 15), (3, 22), (12, 31)),
    )
]


def _clock(minutes: int) -> str:
    return f"{minutes // 60}:{minutes % 60:02}"


@st.composite
def calendars(draw: st.DrawFn) -> Calendar:
    def day() -> list[str]:
        edges = sorted(draw(st.sets(st.integers(0, 96), min_size=2, max_size=4)))
        pairs = zip(edges[::2], edges[1::2], strict=False)
        return [f"{_clock(15 * begins)}-{_clock(15 * ends)}" for begins, ends in pairs]

    chosen = draw(st.sets(st.sampled_from(DAYS), min_size=2))
    around = draw(st.sampled_from(NEAR)).date()
    return Calendar(
        "drawn",
        zone=draw(st.sampled_from(ZONES)),
        hours={one: day() for one in sorted(chosen)},
        holidays=[around + timedelta(days=draw(st.integers(-2, 2)))],
        half_days={around + timedelta(days=3): day()},
    )


def _later(near: datetime, minutes: int) -> datetime:
    return near + timedelta(minutes=minutes)


def _length(minutes: int) -> timedelta:
    return timedelta(minutes=minutes)


moments = st.builds(_later, st.sampled_from(NEAR), st.integers(-3 * 1440, 3 * 1440))
lengths = st.builds(_length, st.integers(0, 60 * 60))


@given(calendars(), moments, lengths, lengths)
def test_durations_add_up(calendar: Calendar, start: datetime, a: timedelta, b: timedelta) -> None:
    assert calendar.after(start, timedelta()) == start
    assert calendar.after(calendar.after(start, a), b) == calendar.after(start, a + b)


@given(calendars(), moments, moments, lengths, lengths)
def test_later_or_longer_is_never_sooner(
    calendar: Calendar, one: datetime, other: datetime, a: timedelta, b: timedelta
) -> None:
    first, second = min(one, other), max(one, other)
    assert calendar.after(first, a) <= calendar.after(second, a)
    assert calendar.after(first, min(a, b)) <= calendar.after(first, max(a, b))


@given(calendars(), moments, lengths)
def test_a_duration_ends_in_its_hours_after_just_as_much_of_them(
    calendar: Calendar, start: datetime, length: timedelta
) -> None:
    end = calendar.after(start, length)
    assert calendar.open_time_between(start, end) == length
    if length:
        assert calendar.is_open(end - timedelta.resolution)


@given(calendars(), moments, st.integers(0, 5 * 1440))
def test_it_agrees_with_a_clock_that_is_read_each_minute(
    calendar: Calendar, start: datetime, minutes: int
) -> None:
    zone = ZoneInfo(calendar.zone)
    opened = 0
    for minute in range(minutes):
        instant = start + timedelta(minutes=minute)
        opened += (is_open := _shows_open(calendar, instant.astimezone(zone)))
        if minute % 97 == 0:
            assert calendar.is_open(instant) is is_open
    end = start + timedelta(minutes=minutes)
    assert calendar.open_time_between(start, end) == timedelta(minutes=opened)


def _shows_open(calendar: Calendar, shown: datetime) -> bool:
    """Whether what a clock on the wall shows is inside of the hours as they are written."""
    day, half_days = shown.date(), cast("dict[Any, Any]", calendar.half_days)
    if day in calendar.holidays:
        return False
    listed: Any = half_days.get(day, calendar.hours.get(DAYS[day.weekday()], ()))
    minute = shown.hour * 60 + shown.minute
    return any(begins <= minute < ends for begins, ends in map(_minutes, listed))


def _minutes(text: str) -> tuple[int, int]:
    begins, ends = (
        int(one[0]) * 60 + int(one[1]) for one in (x.split(":") for x in text.split("-"))
    )
    return begins, ends
