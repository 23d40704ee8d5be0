"""Bars of the Temporal UI's timeline for waits that are no activity: timers with a summary."""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from temporalio import workflow

LONGEST_BAR: Final = timedelta(days=3650)
"""The bar of a longer wait ends after this time, and the wait does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A wait for people: its summary in Markdown, and when something is due, if it ever is."""

    summary: str
    due_ms: int | None = None


class WaitBars:
    """The bars of a run's present waits: one for all that say the same and are due at the same time.

    The timer of a bar fires when something is due.

    Args:
        on_due: called when a timer fires.
    """

    def __init__(self, on_due: Callable[[], None]) -> None:
        self._on_due = on_due
        self._bars: dict[Wait, asyncio.Task[None]] = {}

    def show(self, waits: Collection[Wait], now_ms: int, *, may_return: bool = False) -> None:
        """Start a bar for each new wait, and end the bars of waits that are over.

        A wait whose next due time changes gets a new bar.

        Args:
            waits: the waits.
            now_ms: the workflow's time, in milliseconds since the epoch.
            may_return: keep the bars of waits that are over, except where something was due.
        """
        over = [one for one in self._bars if one not in waits]
        for wait in over:
            if wait.due_ms is not None or not may_return:
                self._bars.pop(wait).cancel()
        for wait in waits:
            if wait not in self._bars:
                self._bars[wait] = asyncio.create_task(self._run(wait, now_ms))

    async def _run(self, wait: Wait, now_ms: int) -> None:
        lasts = LONGEST_BAR
        if wait.due_ms is not None:
            lasts = min(timedelta(milliseconds=max(wait.due_ms - now_ms, 1)), LONGEST_BAR)
        await workflow.sleep(lasts, summary=wait.summary)
        self._bars.pop(wait, None)  # a wait that goes on gets another bar
        self._on_due()
