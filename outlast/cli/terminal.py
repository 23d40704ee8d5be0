"""What reaches the screen: text for people, JSON for programs, and a sign of life while waiting.

Progress and errors go to standard error, answers and data to standard output, so that a script
can use the answer. Colours and the spinner appear on a terminal only, and colours not with
NO_COLOR. Owns: the streams. Must not know: what is printed.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

SPINNER_AFTER = timedelta(seconds=0.5)
"""A wait shorter than this shows nothing."""

_PIPED_WIDTH = 200


def out() -> Console:
    """Return standard output, for people."""
    return _console(stderr=False)


def err() -> Console:
    """Return standard error."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _PIPED_WIDTH  # tables in a pipe are for grep: do not wrap them
    return console


def say(console: Console, *parts: str | tuple[str, str] | Text) -> None:
    """Print a line that the terminal wraps, and nobody else. A part may come with its style."""
    console.print(Text.assemble(*parts), soft_wrap=True)


def say_columns(console: Console, *cells: Text, widths: Sequence[int]) -> None:
    """Print cells beside each other; the last one wraps below itself, on a terminal.

    Args:
        console: where.
        cells: one more than there are widths.
        widths: of the cells before the last, in characters; longer ones make room for themselves.
    """
    if not console.is_terminal:
        padded = [_padded(cell, width) for cell, width in zip(cells, widths, strict=False)]
        console.print(Text(" ").join([*padded, cells[-1]]), soft_wrap=True)
        return
    grid = Table.grid(padding=(0, 1))
    for width in widths:
        grid.add_column(min_width=width, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(*cells)
    console.print(grid)


def _padded(cell: Text, width: int) -> Text:
    padded = cell.copy()
    padded.pad_right(max(0, width - cell.cell_len))
    return padded


def report(message: str) -> None:
    """Print an error."""
    say(err(), Text("error: ", style="bold red"), message)


def print_json(value: Mapping[str, Any] | Sequence[Any]) -> None:
    """Print one JSON document."""
    _write(json.dumps(value, ensure_ascii=False, indent=2))


def print_json_line(value: Mapping[str, Any]) -> None:
    """Print one line of JSON lines, at once."""
    _write(json.dumps(value, ensure_ascii=False))


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class Waiting:
    """A spinner with a text that says what is waited for."""

    def __init__(self, console: Console, text: str) -> None:
        self._status = console.status(Text(text))

    def show(self) -> None:
        """Begin to spin, where there is a terminal."""
        self._status.start()

    def update(self, text: str) -> None:
        """Say something else."""
        self._status.update(Text(text))

    def hide(self) -> None:
        """Leave no trace."""
        self._status.stop()


@asynccontextmanager
async def waiting(console: Console, text: str) -> AsyncGenerator[Waiting]:
    """Show a spinner from half a second on; what is printed on the console goes above it."""
    spinner = Waiting(console, text)

    async def show_later() -> None:
        await asyncio.sleep(SPINNER_AFTER.total_seconds())
        if console.is_terminal:
            spinner.show()

    showing = asyncio.create_task(show_later())
    try:
        yield spinner
    finally:
        showing.cancel()
        spinner.hide()
