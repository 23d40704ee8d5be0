"""The times of a schedule: which fit together, and where clocks change."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from temporalio.client import ScheduleCalendarSpec, ScheduleRange

from outlast.agents.errors import UserError
from outlast.client.schedules import Times
from outlast.edges.rendering import exact

BERLIN = "Europe/Berlin"
MONDAY = datetime.fromisoformat("2026-11-30T09:00")
"""Without an offset, as people write it."""

TWICE = datetime.fromisoformat("2026-10-25T02:30")
GAP = datetime.fromisoformat("2027-03-28T02:30")
"""Where the clocks of Berlin go back, and forward."""


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "A schedule needs times"),
        ({"cron": ""}, "A schedule needs times"),
        (
            {"at": MONDAY, "time_zone": BERLIN, "cron": "0 9 * * *"},
            "A schedule needs times: one time (at), or a cron",
        ),
        ({"at": MONDAY}, "at=2026-11-30T09:00:00 has no offset. Pass an aware datetime, or"),
        ({"at": MONDAY, "time_zone": "Mars/Base"}, "There is no time zone 'Mars/Base'"),
        ({"at": MONDAY, "time_zone": "../../etc/passwd"}, "There is no time zone"),
        ({"at": MONDAY, "time_zone": ""}, "There is no time zone ''"),
        ({"at": MONDAY, "time_zone": BERLIN, "end": MONDAY}, "at= is one time"),
        ({"at": "tomorrow"}, "at= must be a datetime, not 'tomorrow'"),
        ({"every": 60}, "every= must be a timedelta, not 60"),
        ({"every": timedelta(milliseconds=5)}, "every=0:00:00.005000 must be at least a second"),
        ({"every": -timedelta(hours=1)}, "must not be negative"),
        ({"cron": "0 9 * * *", "jitter": -timedelta(hours=1)}, "must not be negative"),
        ({"cron": "0 9 * * *", "offset": timedelta(hours=1)}, "offset= moves the times of every="),
        ({"every": timedelta(hours=1), "offset": timedelta(hours=1)}, "and must be shorter"),
    ],
)
def test_times_that_do_not_fit_are_refused_in_words(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(UserError) as refused:
        Times(**fields)
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("at", "zone", "instant"),
    [
        (MONDAY, BERLIN, "2026-11-30T08:00:00+00:00"),
        (MONDAY.replace(month=7), BERLIN, "2026-07-30T07:00:00+00:00"),
        (MONDAY.replace(tzinfo=UTC), BERLIN, "2026-11-30T09:00:00+00:00"),
        (MONDAY.replace(tzinfo=timezone(timedelta(hours=-5))), None, "2026-11-30T14:00:00+00:00"),
        (MONDAY.replace(microsecond=1), BERLIN, "2026-11-30T08:00:01+00:00"),
        (TWICE, BERLIN, "2026-10-25T00:30:00+00:00"),
        (TWICE.replace(fold=1), BERLIN, "2026-10-25T01:30:00+00:00"),
    ],
)
def test_one_time_is_an_instant(at: datetime, zone: str | None, instant: str) -> None:
    times = Times(at=at, time_zone=zone)
    once = times.once()
    assert once is not None
    assert (once.isoformat(), times.words()) == (instant, f"once, at {instant}")
    spec = times.spec()
    [calendar] = spec.calendars
    fields = [calendar.year, calendar.month, calendar.day_of_month]
    fields += [calendar.hour, calendar.minute, calendar.second]
    assert [one[0].start for one in fields] == list(once.timetuple())[:6]
    assert spec.time_zone_name is None  # the calendar is in UTC


def test_a_time_that_the_clocks_skip_is_refused() -> None:
    with pytest.raises(UserError) as refused:
        Times(at=GAP, time_zone=BERLIN)
    assert str(refused.value) == (
        "at=2027-03-28T02:30:00 does not exist in Europe/Berlin: clocks go forward then."
    )


@pytest.mark.parametrize("fold", [0, 1])
def test_a_time_with_a_zone_that_the_clocks_skip_is_refused(fold: int) -> None:
    gap = datetime(2027, 3, 14, 2, 30, tzinfo=ZoneInfo("America/New_York"), fold=fold)
    with pytest.raises(UserError) as refused:
        Times(at=gap)
    assert str(refused.value) == (
        "at=2027-03-14T02:30:00 does not exist in America/New_York: clocks go forward then."
    )
    assert Times(at=gap.replace(hour=3)).once() == datetime(2027, 3, 14, 7, 30, tzinfo=UTC)


def test_times_that_repeat_are_temporals() -> None:
    holiday = ScheduleCalendarSpec(day_of_month=[ScheduleRange(25)], month=[ScheduleRange(12)])
    times = Times(
        cron="0 9 * * MON",
        every=timedelta(days=1),
        offset=timedelta(hours=9),
        skip=[holiday],
        time_zone=BERLIN,
        start=datetime.fromisoformat("2026-12-01"),
        end=datetime.fromisoformat("2027-07-01"),
        jitter=timedelta(minutes=5),
    )
    spec = times.spec()
    assert times.once() is None
    assert (spec.cron_expressions, spec.skip) == (["0 9 * * MON"], [holiday])
    assert [(one.every.days, one.offset) for one in spec.intervals] == [(1, timedelta(hours=9))]
    assert (spec.time_zone_name, spec.jitter) == (BERLIN, timedelta(minutes=5))
    assert spec.start_at == datetime(2026, 11, 30, 23, tzinfo=UTC)
    assert spec.end_at == datetime(2027, 6, 30, 22, tzinfo=UTC)
    assert times.words() == ("0 9 * * MON and every 1d, 9h later in Europe/Berlin, with exceptions")


def test_calendars_are_named_by_their_comment() -> None:
    named = ScheduleCalendarSpec(hour=[ScheduleRange(9)], comment="each morning")
    assert Times(calendars=[named, ScheduleCalendarSpec()]).words() == "each morning and a calendar"


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (timedelta(hours=1, minutes=30), "1h 30min"),
        (timedelta(days=14, seconds=5), "14d 5s"),
        (timedelta(), "0s"),
    ],
)
def test_lengths_are_written_as_options_take_them(length: timedelta, text: str) -> None:
    assert exact(length) == text
