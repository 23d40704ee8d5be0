"""How the demo is told: to a person line by line as it happens, or as JSON lines.

Owns: the words' place on the screen, and the time before them. Must not know: the story.
"""

import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict
from datetime import datetime

from outlast.cli import terminal, view
from outlast.cli.demo_proof import Deed
from outlast.cli.events import RunEvent, iso_time

CUSTOMER = "Mara"

_DEED_COLUMNS = (
    terminal.Column(name="begun", numbers=True),
    terminal.Column(name="applied", numbers=True),
    terminal.Column(name="side effect, and its idempotency key", folds=True),
)


class Narrator:
    """Prints each line with the time at which it happened."""

    def __init__(self, console: terminal.Screen, *, as_json: bool) -> None:
        self._console = console
        self._as_json = as_json

    def scene(self, title: str) -> None:
        """Begin a new part of the story."""
        if self._as_json:
            self._record("scene", title)
        else:
            terminal.say(self._console, "")
            terminal.say(self._console, (title, "bold underline"))

    def note(self, text: str, style: str = "italic") -> None:
        """Say what the demo does, or what there is to see."""
        if self._as_json:
            self._record("note", text)
        else:
            self._line(_now_ms(), ("·", "dim"), (text, style))

    def event(self, event: RunEvent) -> None:
        """Tell what happened in the run."""
        if self._as_json:
            terminal.print_json_line(event.record())
        elif event.text and event.type != "status":
            self._line(event.at_ms, *view.event_cells(event, user=CUSTOMER))

    def facts(self, rows: Sequence[tuple[str, str]]) -> None:
        """Print names with values, such as links."""
        if self._as_json:
            terminal.print_json_line({"type": "facts", **dict(rows)})
            return
        for name, value in rows:
            self._line(None, (name, "dim"), value)

    def deeds(self, deeds: Sequence[Deed]) -> None:
        """Show what was done, and how often."""
        if self._as_json:
            for deed in deeds:
                terminal.print_json_line({"type": "side_effect", **asdict(deed)})
            return
        rows: list[list[terminal.Part | list[terminal.Part]]] = []
        for deed in deeds:
            applied = "refused" if deed.wanted == 0 == deed.applied else f"{deed.applied}x"
            rows.append([f"{deed.attempts}x", applied, [deed.what, (deed.key, "dim")]])
        terminal.say_table(self._console, _DEED_COLUMNS, rows)

    def waiting(self, text: str) -> AbstractAsyncContextManager[object]:
        """Show a sign of life while a block waits, on a terminal."""
        return terminal.waiting(self._console, text)

    def verdict(self, text: str, *, good: bool) -> None:
        """Print one finding of the proof."""
        if self._as_json:
            terminal.print_json_line({"type": "verdict", "ok": good, "text": text})
        else:
            mark = ("  ✓ ", "bold green") if good else ("  ✗ ", "bold red")
            terminal.say(self._console, mark, text)

    def _line(self, at_ms: int | None, who: terminal.Part, text: terminal.Part) -> None:
        when = "" if at_ms is None else _clock(at_ms)
        cells = ((when, "dim"), who, text)
        terminal.say_columns(self._console, *cells, widths=[len("00:00:00"), view.WHO_WIDTH])

    def _record(self, kind: str, text: str) -> None:
        terminal.print_json_line({"type": kind, "at": iso_time(_now_ms()), "text": text})


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%H:%M:%S")
