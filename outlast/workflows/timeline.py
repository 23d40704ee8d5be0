"""Bars of the Temporal UI's timeline for waits that are no activity: timers with a summary."""

import asyncio
from collections.abc import Callable, Mapping
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
    """The bars of a run's present waits. The timer of a bar fires when something is due.

    Args:
        on_due: called when a timer fires.
    """

    def __init__(self, on_due: Callable[[], None]) -> None:
        self._on_due = on_due
        self._bars: dict[tuple[str, int | None], asyncio.Task[None]] = {}

    def show(self, waits: Mapping[str, Wait], now_ms: int) -> None:
        """Start a bar for each new wait, and end the bars of waits that are over.

        A wait whose next due time changes gets a new bar.

        Args:
            waits: the waits by an id.
            now_ms: the workflow's time, in milliseconds since the epoch.
        """
        present = {(name, wait.due_ms): wait for name, wait in waits.items()}
        for bar in [one for one in self._bars if one not in present]:
            self._bars.pop(bar).cancel()
        for bar, wait in present.items():
            if bar not in self._bars:
                self._bars[bar] = asyncio.create_task(self._run(bar, wait, now_ms))

    async def _run(self, bar: tuple[str, int | None], wait: Wait, now_ms: int) -> None:
        lasts = LONGEST_BAR
        if wait.due_ms is not None:
            lasts = min(timedelta(milliseconds=max(wait.due_ms - now_ms, 1)), LONGEST_BAR)
        await workflow.sleep(lasts, summary=wait.summary)
        self._bars.pop(bar, None)  # a wait that goes on gets another bar
        self._on_due()
