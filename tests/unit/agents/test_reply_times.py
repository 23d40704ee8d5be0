"""Reply times: what a run keeps of them, mistakes, and what a worker counts."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from outlast.agents.calendars import Calendar
from outlast.agents.config.reply_times import ReplyTimes, counted_reply
from outlast.agents.config.run_config import RunConfig
from outlast.agents.config.settings import write_run_config
from outlast.agents.errors import UserError
from outlast.contract import records
from outlast.loop import start
from outlast.loop.open_hours import CountedReply, HoursOfReply

HOUR_MS = 3_600_000
OFFICE = Calendar("support-hours", zone="Europe/Berlin", hours={"mon-fri": "9:00-17:00"})
SATURDAY = datetime(2026, 11, 28, 12, tzinfo=UTC)
SINCE = round(SATURDAY.timestamp() * 1000)


def test_reply_times_travel_with_the_settings_of_a_run() -> None:
    times = ReplyTimes(first=60, warn=timedelta(seconds=10), within=OFFICE, away="Back at {time}.")
    settings = write_run_config(RunConfig(reply_times=times), lambda _: "")
    assert records.reply_times_of(settings) == start.ReplyTimes(
        first_ms=60_000,
        next_ms=60_000,
        warn_ms=10_000,
        within="support-hours",
        away="Back at {time}.",
    )
    assert records.reply_times_of({}) is None
    assert records.reply_times_of(None) is None
    days = list("MDMDFSS")
    assert ReplyTimes(first=60, next=90, days=days).record == start.ReplyTimes(
        first_ms=60_000, next_ms=90_000, days=tuple(days)
    )


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "first=...) must be a positive timedelta"),
        ({"first": -1}, "first=...) must be a positive timedelta"),
        ({"first": "1h"}, "first=...) must be a positive timedelta"),
        ({"first": 60, "next": 0}, "next=...) must be a positive timedelta"),
        ({"first": 60, "warn": timedelta(days=400)}, "warn=...) must be at most a year"),
        ({"first": 60, "within": "a\nb"}, "must be the name of a calendar"),
        ({"first": 60, "away": "Back at {time}."}, "so it needs within="),
        ({"first": 60, "within": "x", "away": ""}, "must be a non-empty string"),
        ({"first": 60, "within": "x", "away": "a" * 501}, "at most 500 characters"),
        (
            {"first": 60, "within": "x", "away": "{0.__class__}"},
            "{0.__class__}, which means nothing",
        ),
        ({"first": 60, "days": ["Mo"]}, "must have seven names"),
        ({"first": 60, "days": [1] * 7}, "must be a string"),
    ],
)
def test_reply_times_that_mean_nothing_are_refused(fields: Any, said: str) -> None:
    with pytest.raises(UserError) as caught:
        ReplyTimes(**fields)
    assert said in str(caught.value)


def test_a_reply_on_a_weekend_is_due_on_monday_and_the_customer_reads_when_somebody_is_back() -> (
    None
):
    asked = HoursOfReply(
        since_ms=SINCE,
        within="support-hours",
        lasts_ms=2 * HOUR_MS,
        warn_ms=HOUR_MS,
        away="We are back on {day} ({date}) at {time}. {nothing}",
    )
    opens = 44 * HOUR_MS  # on Monday at 8:00 UTC
    assert counted_reply(OFFICE, asked, SATURDAY) == CountedReply(
        since_ms=SINCE,
        due_ms=SINCE + opens + 2 * HOUR_MS,
        warn_ms=SINCE + opens + HOUR_MS,
        away="We are back on Monday (2026-11-30) at 9:00. {nothing}",
        back_ms=SINCE + opens,
    )


def test_while_it_is_open_there_is_no_away_text() -> None:
    monday = datetime(2026, 11, 30, 9, tzinfo=UTC)
    since = round(monday.timestamp() * 1000)
    asked = HoursOfReply(
        since_ms=since, within="x", lasts_ms=HOUR_MS, warn_ms=2 * HOUR_MS, away="Away.", days=("a",)
    )
    found = CountedReply(since_ms=since, due_ms=since + HOUR_MS, warn_ms=since)
    assert counted_reply(OFFICE, asked, monday) == found
