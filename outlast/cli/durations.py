"""Times and durations as people read them."""

from datetime import datetime

from outlast.agents.durations import parse_duration
from outlast.agents.errors import UserError


def coming_time(text: str, option: str, now: datetime) -> datetime:
    """Return the time that an option names: `2h` from now, or a time, which may lack an offset."""
    length = parse_duration(text)
    try:
        return now + length if length is not None else datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError):
        raise UserError(
            f"{option} {text!r:.80} is no time. Write a length from now, such as 90min or 3d, or a "
            "time, such as 2026-11-30T09:00 or 2026-11-30T09:00+01:00."
        ) from None


def past_time(text: str, now: datetime) -> datetime:
    """Return the time that an option such as `--since` names: `30d` before now, or a date."""
    length = parse_duration(text)
    try:
        if length is not None:
            return now - length
        named = datetime.fromisoformat(text.strip())
        return named if named.tzinfo is not None else named.astimezone()
    except (ValueError, OverflowError):
        raise UserError(
            f"{text!r:.80} is no time. Write a length, such as 90min, 12h, 30d or 2w, or a date, "
            "such as 2026-11-01."
        ) from None
