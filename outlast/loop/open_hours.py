"""Durations that count only the hours of a calendar, and what a worker makes of them."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """How long after a request something happens to it.

    Attributes:
        expires_in_ms: how long it waits; None for ever.
        escalations_ms: when further people may decide, a number for each step.
        remind_in_ms: the time until the next reminder; None for no reminders.
    """

    expires_in_ms: int | None = None
    escalations_ms: tuple[int, ...] = ()
    remind_in_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hours:
    """The durations of terms that count only the hours of a calendar.

    A worker, which has the calendar, has made the times of the terms and of the request from them.

    Attributes:
        within: the name of the calendar.
        open: the durations in hours of the calendar; `remind_in_ms` is the time between two.
        from_ms: the moment from which they were counted; None if no worker has counted them yet.
        reminders: how many reminders there had been by then.
        remind_in_ms: the time of the next reminder, from that moment; None for no reminders.
    """

    within: str
    open: Durations
    from_ms: int | None = None
    reminders: int = 0
    remind_in_ms: int | None = None

    @property
    def without_expiry(self) -> "Hours":
        """The durations of a request that does not expire."""
        return replace(self, open=replace(self.open, expires_in_ms=None))


@dataclass(frozen=True, slots=True, kw_only=True)
class HoursOfRequest:
    """What a worker needs to count the times of a request.

    Attributes:
        request_id: the request.
        within: the name of the calendar.
        open: its durations, in hours of the calendar.
        from_ms: the moment from which they count, in milliseconds since the epoch.
        reminders: how many reminders there were.
    """

    request_id: str
    within: str
    open: Durations
    from_ms: int
    reminders: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedHours:
    """What the durations of a request come to: `clock` counts from `from_ms`."""

    request_id: str
    clock: Durations
    from_ms: int
    reminders: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HoursOfReply:
    """What a worker needs to count the time of a reply; see `ReplyTimes`.

    Attributes:
        since_ms: since when the customer waits, in milliseconds since the epoch.
        within: the name of the calendar.
        lasts_ms: how long the reply may take, in hours of the calendar.
        warn_ms: how long before that people are warned; None for no warning.
        away: what the customer reads while it is closed.
        days: the names of the days in it.
    """

    since_ms: int
    within: str
    lasts_ms: int
    warn_ms: int | None = None
    away: str = ""
    days: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedReply:
    """When a reply is due, when people are warned, and what the customer reads until they are back."""

    since_ms: int
    due_ms: int
    warn_ms: int | None = None
    away: str = ""
    back_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HoursCounted:
    """The times that a worker has counted."""

    requests: tuple[CountedHours, ...] = ()
    reply: CountedReply | None = None
