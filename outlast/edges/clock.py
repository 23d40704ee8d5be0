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


def ms_of(at: datetime) -> int:
    """Return a time in milliseconds since the epoch."""
    return round(at.timestamp() * 1_000)
