"""The times of a request whose policy counts only the hours of a calendar."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from outlast.agents.calendars import Calendar
from outlast.loop.approvals import ApprovalTerms, EscalationStep
from outlast.loop.open_hours import Durations, Hours


def within_hours(terms: ApprovalTerms, name: str) -> ApprovalTerms:
    """Return terms whose durations count only the hours of a calendar, before they are counted.

    Until then, requests do not expire. Where a request that expires goes to further people, and gets
    the same time again, the terms have all of these steps, with their times from the request.
    """
    steps, lasts, on_expiry = terms.escalations, terms.expires_in_ms, terms.on_expiry
    if on_expiry == "escalate" and lasts is not None:
        steps, lasts = _unrolled(steps, lasts)
        on_expiry = "reject"
    return replace(
        terms,
        expires_in_ms=None,
        escalations=tuple(steps),
        on_expiry=on_expiry,
        hours=Hours(
            within=name,
            open=Durations(
                expires_in_ms=lasts,
                escalations_ms=tuple(step.after_ms for step in steps),
                remind_in_ms=terms.remind_every_ms,
            ),
        ),
    )


def _unrolled(steps: Sequence[EscalationStep], lasts: int) -> tuple[list[EscalationStep], int]:
    """Return the steps of an escalation as each expiry takes the next one, and the last expiry."""
    taken: list[EscalationStep] = []
    expires = lasts
    for step in steps:
        if step.after_ms > expires:
            taken.append(replace(step, after_ms=expires))
            expires += lasts
        else:
            taken.append(step)
    return taken, expires


def clock_durations(calendar: Calendar, open_: Durations, from_ms: int, at_ms: int) -> Durations:
    """Return how long the durations in hours of a calendar last by the clock.

    Args:
        calendar: the calendar.
        open_: the durations; `remind_in_ms` is the time between two reminders.
        from_ms: the moment from which they count, in milliseconds since the epoch.
        at_ms: the present: the next reminder is after it.

    Raises:
        UserError: a duration does not end within three years.
    """
    start = _time(from_ms)

    def clock(length_ms: int) -> int:
        return _ms(calendar.after(start, timedelta(milliseconds=length_ms)) - start)

    remind_in_ms = None
    if every := open_.remind_in_ms:
        now = _time(max(at_ms, from_ms))
        since = _ms(calendar.open_time_between(start, now))
        due = calendar.after(now, timedelta(milliseconds=every - since % every))
        remind_in_ms = _ms(due - start)
    return Durations(
        expires_in_ms=None if open_.expires_in_ms is None else clock(open_.expires_in_ms),
        escalations_ms=tuple(clock(one) for one in open_.escalations_ms),
        remind_in_ms=remind_in_ms,
    )


def _time(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def _ms(length: timedelta) -> int:
    return length // timedelta(milliseconds=1)
