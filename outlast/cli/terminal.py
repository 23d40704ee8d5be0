"""What reaches the screen: text for people, JSON for programs, and a sign of life while waiting.

Progress and errors go to standard error, answers and data to standard output, so that a script
can use the answer. Colours and the spinner appear on a terminal only, and colours not with
NO_COLOR. Every text is made visible here, whoever wrote it: colours, columns and line breaks are
this module's own and come beside the text, never in it. Owns: the streams; nothing else in the
command line prints. Must not know: what is printed.
"""

import asyncio
import os
import sys
import traceback
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

from rich.console import Console
from rich.live import Live
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from outlast.rendering import json_text, visible, visible_lines

Screen: TypeAlias = Console
"""A stream as this module writes on it; others hand it on and ask no more of it than its size."""

Part: TypeAlias = str | tuple[str, str]
"""A text, or a text and its style."""

SPINNER_AFTER = timedelta(seconds=0.5)
"""A wait shorter than this shows nothing."""

_PIPED_WIDTH = 200
_NO_BOUND = 10_000
_FRAMES_PER_SECOND = 12
_ROOM_ABOVE = 4
"""Lines of the screen that a growing text leaves free."""


def out() -> Screen:
    """Return standard output, for people."""
    return _console(stderr=False)


def err() -> Screen:
    """Return standard error."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _PIPED_WIDTH  # tables in a pipe are for grep: do not wrap them
    return console


# --- Lines --------------------------------------------------------------------------------------


def say(console: Screen, *parts: Part) -> None:
    """Print a line that the terminal wraps, and nobody else. A part may come with its style."""
    console.print(Text.assemble(*(_line(part) for part in parts)), soft_wrap=True)


def say_text(console: Screen, text: str) -> None:
    """Print a text with the line breaks that it has."""
    for line in visible_lines(text):
        say(console, line)


def say_columns(console: Screen, *cells: Part, widths: Sequence[int]) -> None:
    """Print cells beside each other; the last one may have lines, and wraps on a terminal.

    What comes below the first line of the last cell begins where that cell begins.

    Args:
        console: where.
        cells: one more than there are widths.
        widths: of the cells before the last, in characters; longer ones make room for themselves.
    """
    first, last = [_line(cell) for cell in cells[:-1]], _lines(cells[-1])
    if console.is_terminal:
        console.print(_grid(first, last, widths))
        return
    padded = [_padded(cell, width) for cell, width in zip(first, widths, strict=True)]
    indent = sum(cell.cell_len + 1 for cell in padded)
    for at, line in enumerate(last):
        margin = Text(" ").join([*padded, line]) if at == 0 else Text(" " * indent).append(line)
        console.print(margin, soft_wrap=True)


def report(message: str) -> None:
    """Print an error."""
    first, *rest = visible_lines(message)
    say(err(), ("error: ", "bold red"), first)
    for line in rest:
        say(err(), "       ", line)


def report_traceback(error: BaseException) -> None:
    """Print where an error comes from."""
    for line in visible_lines("".join(traceback.format_exception(error)).rstrip("\n")):
        say(err(), "  | ", line)


def ask(console: Screen, question: str) -> None:
    """Print a question whose answer is typed behind it."""
    console.print(_line((question, "bold yellow")), end="")


def _line(part: Part) -> Text:
    text, style = (part, "") if isinstance(part, str) else part
    return Text(visible(text), style=style)


def _lines(part: Part) -> list[Text]:
    text, style = (part, "") if isinstance(part, str) else part
    return [Text(line, style=style) for line in visible_lines(text)]


def _padded(cell: Text, width: int) -> Text:
    padded = cell.copy()
    padded.pad_right(max(0, width - cell.cell_len))
    return padded


def _grid(first: Sequence[Text], last: Sequence[Text], widths: Sequence[int]) -> Table:
    grid = Table.grid(padding=(0, 1))
    for width in widths:
        grid.add_column(min_width=width, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(*first, Text("\n").join(last))
    return grid


# --- Tables -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table.

    Attributes:
        name: its heading.
        numbers: whether it holds numbers.
        folds: whether its cells wrap; others are cut where there is no room.
        left_out: the place in the order in which a narrow terminal leaves columns out; 0: never.
    """

    name: str
    numbers: bool = False
    folds: bool = False
    left_out: int = 0


def say_table(
    console: Screen, columns: Sequence[Column], rows: Sequence[Sequence[Part | list[Part]]]
) -> None:
    """Print a table, without some columns where there is no room for all.

    Args:
        console: where.
        columns: what each cell of a row is.
        rows: a cell is a text, or a list of lines.
    """
    kept = list(range(len(columns)))
    losses = sorted((one for one in kept if columns[one].left_out), key=_order_of(columns))
    table = _table(columns, rows, kept)
    while losses and _width(console, table) > console.width:
        kept.remove(losses.pop(0))
        table = _table(columns, rows, kept)
    console.print(table)


def _order_of(columns: Sequence[Column]) -> Callable[[int], int]:
    return lambda at: columns[at].left_out


def _table(
    columns: Sequence[Column], rows: Sequence[Sequence[Part | list[Part]]], kept: Sequence[int]
) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for at in kept:
        column = columns[at]
        table.add_column(
            column.name,
            no_wrap=not column.folds,
            overflow="fold" if column.folds else "ellipsis",
            justify="right" if column.numbers else "left",
        )
    for row in rows:
        table.add_row(*(_cell(row[at]) for at in kept))
    return table


def _cell(cell: Part | list[Part]) -> Text:
    return Text("\n").join(map(_line, cell)) if isinstance(cell, list) else _line(cell)


def _width(console: Console, table: Table) -> int:
    """Return how wide a table is if nothing in it wraps."""
    unbounded = console.options.update(max_width=_NO_BOUND)
    return Measurement.get(console, unbounded, table).maximum


# --- What changes in place ----------------------------------------------------------------------


class Growing:
    """A text that grows in place, on a terminal, until it is cleared away."""

    def __init__(self, console: Screen, width: int) -> None:
        """Take in where to print, and the width of the cell before the text."""
        self._console = console
        self._width = width
        self._who = ""
        self._text: Callable[[], str] = str
        self._live: Live | None = None

    def show(self, who: Part, text: Callable[[], str]) -> None:
        """Show the newest lines of a text.

        Args:
            who: the cell before it.
            text: returns the text; called for every frame.
        """
        self._who, self._text = who, text
        if self._live is None and self._console.is_terminal:
            self._live = Live(
                console=self._console,
                transient=True,
                refresh_per_second=_FRAMES_PER_SECOND,
                get_renderable=self._frame,
            )
            self._live.start(refresh=True)

    def clear(self) -> None:
        """Leave no trace of it."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _frame(self) -> Table:
        width = max(self._console.width - self._width - 1, 20)
        room = max(self._console.height - _ROOM_ABOVE, 1)
        # Of a long text no more than fits, because this runs for every frame.
        newest = _lines((self._text()[-room * width :], "green"))
        lines = [line for text in newest for line in text.wrap(self._console, width)]
        grid = Table.grid(padding=(0, 1))
        grid.add_column(min_width=self._width, no_wrap=True)
        grid.add_column()
        grid.add_row(_line(self._who), Text("\n").join(lines[-room:]))
        return grid


class Waiting:
    """A spinner with a text that says what is waited for."""

    def __init__(self, console: Screen, text: str) -> None:
        self._status = console.status(_line(text))

    def show(self) -> None:
        """Begin to spin, where there is a terminal."""
        self._status.start()

    def update(self, text: str) -> None:
        """Say something else."""
        self._status.update(_line(text))

    def hide(self) -> None:
        """Leave no trace."""
        self._status.stop()


@asynccontextmanager
async def waiting(console: Screen, text: str) -> AsyncGenerator[Waiting]:
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


# --- JSON ---------------------------------------------------------------------------------------


def print_json(value: Mapping[str, Any] | Sequence[Any]) -> None:
    """Print one JSON document."""
    _write(json_text(value, indent=2))


def print_json_line(value: Mapping[str, Any]) -> None:
    """Print one line of JSON lines, at once."""
    _write(json_text(value))


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
