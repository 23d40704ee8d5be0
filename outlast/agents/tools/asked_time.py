"""A time that a model asks for: in so many minutes, or at a point in time."""

from datetime import datetime, timedelta


def asked_length(
    minutes: float | None, time: str | None, now: datetime, *, name: str
) -> timedelta | str:
    """Return how long it is until then, or what the model reads about arguments that do not say.

    Args:
        minutes: the argument `minutes`.
        time: the argument with a point in time.
        now: the present time.
        name: the name of that argument.
    """
    if (minutes is None) == (time is None):
        return f"give either minutes or {name}."
    if minutes is not None:
        try:
            return timedelta(minutes=minutes)
        except (OverflowError, ValueError):
            return "minutes must be a number of minutes."
    try:
        then = datetime.fromisoformat(str(time))
    except ValueError:
        return f"{name} must be a time in ISO 8601, such as 2026-11-30T09:00:00+01:00."
    if then.tzinfo is None:
        return f"{name} needs its offset from UTC, such as 2026-11-30T09:00:00+01:00."
    return then - now


def shown(length: timedelta) -> str:
    """Return a length of time for a model to read."""
    minutes = round(length.total_seconds() / 60)
    return f"{minutes:,} minutes" if minutes < 120 else f"{minutes / 60:,.1f} hours"
