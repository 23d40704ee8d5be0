"""How long the latest calls of each tool took in this process.

A tool that only reads, and whose calls are short, needs no activity of its own: a local activity
saves most of a call's history and time. The plan of each reply records the choice, so it is the
same in every replay.
"""

from datetime import timedelta
from typing import Final

from outlast.loop.calls import ToolResult

SHORT: Final = timedelta(milliseconds=100)
"""The longest call that counts as short."""

SHORT_OUTPUT: Final = 20_000
"""The longest output of a short call, in characters."""

SHORT_CALLS: Final = 3
"""How many short calls in a row make a tool short."""

LONGEST: Final = timedelta(seconds=1)
"""How long a call of a short tool may take before it is repeated as an activity."""


class ToolTimes:
    """Counts the short calls of tools."""

    def __init__(self) -> None:
        self._short_calls: dict[str, int] = {}

    def record(self, name: str, seconds: float, result: ToolResult | None) -> None:
        """Record a call; a long, failed or large one ends the row of short calls."""
        is_short = (
            seconds <= SHORT.total_seconds()
            and result is not None
            and isinstance(result.output, str)
            and len(result.output) <= SHORT_OUTPUT
            and not result.changes
        )
        self._short_calls[name] = self._short_calls.get(name, 0) + 1 if is_short else 0

    def is_short(self, name: str) -> bool:
        """Whether the latest calls of a tool were short."""
        return self._short_calls.get(name, 0) >= SHORT_CALLS
