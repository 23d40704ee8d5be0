"""Internal. The time of this machine."""

import time
from datetime import UTC, datetime


def now_ms() -> int:
    """Return the time, in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def now() -> datetime:
    """Return the time in UTC."""
    return time_of(now_ms())


def time_of(at_ms: float) -> datetime:
    """Return the time of some milliseconds since the epoch, in UTC."""
    return datetime.fromtimestamp(at_ms / 1_000, UTC)


def time_if_any(at_ms: float | None) -> datetime | None:
    """Return the time of some milliseconds since the epoch; None without any."""
    return None if at_ms is None else time_of(at_ms)


def ms_of(at: datetime) -> int:
    """Return a time in milliseconds since the epoch."""
    return round(at.timestamp() * 1_000)
