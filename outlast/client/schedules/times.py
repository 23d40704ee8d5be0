"""The times of a schedule, checked and converted to Temporal's specification."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from temporalio.client import (
    ScheduleCalendarSpec,
    ScheduleIntervalSpec,
    ScheduleRange,
    ScheduleSpec,
)

from outlast.agents.checks import InvalidType
from outlast.agents.errors import UserError
from outlast.edges.rendering import exact


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The times at which a schedule fires: one time, or all that its other fields name.

    Attributes:
        at: one time. Without an offset of its own, it is a time in `time_zone`.
        cron: cron expressions with five fields, such as `0 9 * * MON`, or six with the year.
        every: fires whenever this much time has passed, counted from 1970 in UTC.
        offset: moves the times of `every`: with `every` a day, 9 hours mean 9:00 in UTC.
        calendars: calendars in Temporal's form, for what cron cannot say.
        skip: calendars of times that do not count, such as holidays.
        time_zone: the time zone of `cron`, `calendars` and `skip`, such as `Europe/Berlin`; default:
            UTC.
        start: no time before this one counts.
        end: no time after this one counts.
        jitter: fires up to this much later, by chance, so that many schedules do not fire together.

    Raises:
        UserError: the fields do not fit together.
    """

    at: datetime | None = None
    cron: str | Sequence[str] = ()
    every: timedelta | None = None
    offset: timedelta = timedelta()
    calendars: Sequence[ScheduleCalendarSpec] = ()
    skip: Sequence[ScheduleCalendarSpec] = ()
    time_zone: str | None = None
    start: datetime | None = None
    end: datetime | None = None
    jitter: timedelta | None = None

    def __post_init__(self) -> None:
        """Check the fields, so that a mistake is named where it is made."""
        repeats = bool(self.cron or self.every is not None or self.calendars)
        if repeats == (self.at is not None):
            raise UserError(
                "A schedule needs times: one time (at), or a cron expression (cron), a length of time "
                "(every) or calendars, which repeat."
            )
        for name in ("every", "offset", "jitter"):
            _check_length(name, getattr(self, name))
        for name in ("at", "start", "end"):
            _check_moment(name, getattr(self, name))
        if self.every is not None and self.every < timedelta(seconds=1):
            raise UserError(f"every={self.every} must be at least a second.")
        if self.offset and (self.every is None or self.offset >= self.every):
            raise UserError("offset= moves the times of every=, and must be shorter.")
        if self.at is not None and (self.skip or self.start or self.end):
            raise UserError("at= is one time: leave out skip=, start= and end=.")
        if self.at is not None:
            _instant(self.at, self.time_zone, "at")

    @property
    def expressions(self) -> tuple[str, ...]:
        """The cron expressions."""
        return (self.cron,) if isinstance(self.cron, str) and self.cron else tuple(self.cron)

    def once(self) -> datetime | None:
        """Return the one time in UTC; None for times that repeat."""
        return None if self.at is None else _instant(self.at, self.time_zone, "at")

    def spec(self) -> ScheduleSpec:
        """Return Temporal's specification."""
        at = self.once()
        if at is not None:
            return ScheduleSpec(calendars=[_calendar_of(at)], jitter=self.jitter)
        intervals = [] if self.every is None else [ScheduleIntervalSpec(self.every, self.offset)]
        return ScheduleSpec(
            calendars=list(self.calendars),
            intervals=intervals,
            cron_expressions=list(self.expressions),
            skip=list(self.skip),
            start_at=self.start and _instant(self.start, self.time_zone, "start"),
            end_at=self.end and _instant(self.end, self.time_zone, "end"),
            jitter=self.jitter,
            time_zone_name=self.time_zone,
        )

    def words(self) -> str:
        """Return the times in one line for people."""
        at = self.once()
        if at is not None:
            return f"once, at {at.isoformat()}"
        parts = [*self.expressions, *(one.comment or "a calendar" for one in self.calendars)]
        if self.every is not None:
            later = f", {exact(self.offset)} later" if self.offset else ""
            parts.append(f"every {exact(self.every)}{later}")
        zone = f" in {self.time_zone}" if self.time_zone else ""
        skipped = ", with exceptions" if self.skip else ""
        return f"{' and '.join(parts)}{zone}{skipped}"


def _check_length(name: str, value: object) -> None:
    if value is not None and not isinstance(value, timedelta):
        raise InvalidType(f"{name}= must be a timedelta, not {value!r:.80}.")
    if value is not None and value < timedelta():
        raise UserError(f"{name}={value} must not be negative.")


def _check_moment(name: str, value: object) -> None:
    if value is not None and not isinstance(value, datetime):
        raise InvalidType(f"{name}= must be a datetime, not {value!r:.80}.")


def _instant(moment: datetime, time_zone: str | None, name: str) -> datetime:
    """Return a time in UTC, in whole seconds.

    Where clocks go back, a time that comes twice means the first, unless its `fold` is 1.
    """
    if moment.tzinfo is None:
        if time_zone is None:
            raise UserError(
                f"{name}={moment.isoformat()} has no offset. Pass an aware datetime, or time_zone= "
                "such as 'Europe/Berlin'."
            )
        moment = _in_zone(moment, time_zone, name)
    else:
        _check_exists(moment, name)
    instant = moment.astimezone(UTC)
    if instant.microsecond:  # a schedule fires at whole seconds
        instant = instant.replace(microsecond=0) + timedelta(seconds=1)
    return instant


def _in_zone(moment: datetime, time_zone: str, name: str) -> datetime:
    try:
        zone = ZoneInfo(time_zone)
    except (KeyError, ValueError, OSError):  # ZoneInfoNotFoundError is a KeyError
        raise UserError(
            f"There is no time zone {time_zone!r:.80}. Write a name such as 'Europe/Berlin', or a time "
            "with its offset."
        ) from None
    local = moment.replace(tzinfo=zone)
    _check_exists(local, name)
    return local


def _check_exists(moment: datetime, name: str) -> None:
    """Refuse a time that clocks skip where they go forward."""
    again = moment.astimezone(UTC).astimezone(moment.tzinfo)
    if again.replace(tzinfo=None, fold=0) != moment.replace(tzinfo=None, fold=0):
        raise UserError(
            f"{name}={moment.replace(tzinfo=None).isoformat()} does not exist in {moment.tzinfo}: "
            "clocks go forward then."
        )


def _calendar_of(at: datetime) -> ScheduleCalendarSpec:
    def only(number: int) -> list[ScheduleRange]:
        return [ScheduleRange(number)]

    return ScheduleCalendarSpec(
        second=only(at.second),
        minute=only(at.minute),
        hour=only(at.hour),
        day_of_month=only(at.day),
        month=only(at.month),
        year=only(at.year),
        comment=at.isoformat(),
    )
