"""All output of the command line: text, JSON, and spinners. No other module prints.

Progress and errors go to standard error, answers and data to standard output. Colors and the
spinner appear on a terminal only; NO_COLOR disables colors. This module escapes invisible
characters in every text, and accepts no colors or line breaks inside a text.
"""

import asyncio
import csv
import os
import signal
import sys
import threading
import traceback
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import Any, Generic, Self, TextIO, TypeAlias, TypeVar, cast

from rich.console import Console, Group
from rich.live import Live
from rich.measure import Measurement
from rich.status import Status
from rich.table import Table
from rich.text import Text

from outlast.edges.rendering import joined, json_text, table_cell, visible, visible_lines

T = TypeVar("T")

Screen: TypeAlias = Console
"""An output stream; other modules only pass it on and read its size."""

Part: TypeAlias = str | tuple[str, str]
"""A text, or a text and its style."""

Cell: TypeAlias = Part | list[Part]
"""A cell of a table: a text, or lines."""

Row: TypeAlias = Sequence[Cell]

SPINNER_AFTER = timedelta(seconds=0.5)
"""The wait after which the spinner appears."""

_PIPED_WIDTH = 200  # in a pipe, lines are for grep and must not wrap
_NO_BOUND = 10_000  # wider than any table
_FRAMES_PER_SECOND = 12
_ROOM_ABOVE = 4
"""The number of screen lines that a growing text leaves free."""


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
    """Print a line, which wraps on a terminal only; parts may have a style."""
    console.print(Text.assemble(*(_line(part) for part in parts)), soft_wrap=True)


def say_text(console: Screen, text: str) -> None:
    """Print a text with its own line breaks."""
    for line in visible_lines(text):
        say(console, line)


def say_columns(console: Screen, *cells: Part, widths: Sequence[int]) -> None:
    """Print cells in columns; the last may have several lines, and wraps below its own start.

    `widths` are those of the cells before the last; a longer cell is not cut.
    """
    first, last = [_line(cell) for cell in cells[:-1]], _lines(cells[-1])
    if console.is_terminal:
        console.print(_grid(first, last, widths))
        return
    padded = [_pad(cell, width) for cell, width in zip(first, widths, strict=True)]
    indent = sum(cell.cell_len + 1 for cell in padded)
    for at, line in enumerate(last):
        margin = Text(" ").join([*padded, line]) if at == 0 else Text(" " * indent).append(line)
        console.print(margin, soft_wrap=True)


def warn(text: str) -> None:
    """Print a warning."""
    say(err(), ("warning: ", "bold yellow"), text)


def report(message: str) -> None:
    """Print an error."""
    first, *rest = visible_lines(message)
    say(err(), ("error: ", "bold red"), first)
    for line in rest:
        say(err(), "       ", line)


def report_traceback(error: BaseException) -> None:
    """Print the traceback of an error."""
    for line in visible_lines("".join(traceback.format_exception(error)).rstrip("\n")):
        say(err(), "  | ", line)


def ask(console: Screen, question: str) -> None:
    """Print a question, and leave the cursor behind it for the answer."""
    console.print(_line((question, "bold yellow")), end="")


def is_attended() -> bool:
    """Whether a person can answer a question."""
    return sys.stdin.isatty()


def confirmed(question: str) -> bool:
    """Return whether a person answers a question with yes; Ctrl-C ends the command at once."""
    ask(err(), f"{question} [y/N] ")
    # asyncio's own handler would only cancel a task, which nothing notices while a line is read.
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.default_int_handler) if is_main else None
    try:
        return sys.stdin.readline().strip().lower() in {"y", "yes"}
    finally:
        if is_main:
            signal.signal(signal.SIGINT, before)


def _line(part: Part) -> Text:
    text, style = (part, "") if isinstance(part, str) else part
    return Text(visible(text), style=style)


def _lines(part: Part) -> list[Text]:
    text, style = (part, "") if isinstance(part, str) else part
    return [Text(line, style=style) for line in visible_lines(text)]


def _pad(cell: Text, width: int) -> Text:
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


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """A column of a table.

    Attributes:
        name: its title.
        cell: makes its cell for an item of the table; None if the items are rows of cells.
        folds: whether the cells wrap; cells of other columns are cut if there is no room.
        widest: how many characters a line of its cells has at most; 0 for as many as there are.
            Longer cells wrap, so one of them makes its own row long and costs no other column.
        left_out: the position in the order in which columns are dropped on a narrow terminal; 0
            for never.
        below: the column below whose cells its cells stand where it is dropped; empty for nowhere.
    """

    name: str
    cell: Callable[[T], Cell] | None = None
    _: KW_ONLY
    numbers: bool = False
    folds: bool = False
    widest: int = 0
    left_out: int = 0
    below: str = ""


def say_table(console: Screen, columns: Sequence[Column[T]], items: Sequence[T]) -> None:
    """Print a table, and drop columns that do not fit."""
    console.print(_fitting(console, columns, items))


def _fitting(console: Console, columns: Sequence[Column[T]], items: Sequence[T]) -> Table:
    rows: Sequence[Row] = [
        [
            cast("Row", item)[at] if column.cell is None else column.cell(item)
            for at, column in enumerate(columns)
        ]
        for item in items
    ]
    kept = list(range(len(columns)))
    losses = sorted(
        (at for at in kept if columns[at].left_out), key=lambda at: columns[at].left_out
    )
    table = _table(columns, rows, kept)
    while losses and _width(console, table) > console.width:
        dropped = losses.pop(0)
        kept.remove(dropped)
        rows = _with_cell_below(columns, rows, dropped)
        table = _table(columns, rows, kept)
    return table


def _with_cell_below(
    columns: Sequence[Column[Any]], rows: Sequence[Row], dropped: int
) -> Sequence[Row]:
    column = columns[dropped]
    at = next((at for at, one in enumerate(columns) if column.below == one.name), None)
    if at is None:
        return rows
    moved: list[list[Cell]] = []
    for row in rows:
        cells = list(row)
        upper, lower = (
            one if isinstance(one, list) else [one] for one in (cells[at], cells[dropped])
        )
        label = f"{column.name.lower()}: "
        texts = (one if isinstance(one, str) else one[0] for one in lower)
        cells[at] = [*upper, *(joined(label, text) for text in texts if text)]
        moved.append(cells)
    return moved


def _table(columns: Sequence[Column[Any]], rows: Sequence[Row], kept: Sequence[int]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for at in kept:
        column = columns[at]
        wraps = column.folds or column.widest > 0
        table.add_column(
            column.name,
            max_width=column.widest or None,
            no_wrap=not wraps,
            overflow="fold" if wraps else "ellipsis",
            justify="right" if column.numbers else "left",
        )
    for row in rows:
        table.add_row(*(_cell(row[at]) for at in kept))
    return table


def _cell(cell: Cell) -> Text:
    return Text("\n").join(map(_line, cell)) if isinstance(cell, list) else _line(cell)


def _width(console: Console, table: Table) -> int:
    unbounded = console.options.update(max_width=_NO_BOUND)
    return Measurement.get(console, unbounded, table).maximum


# --- What changes in place ----------------------------------------------------------------------


class Growing:
    """A growing text that is updated in place on a terminal, until it is cleared."""

    def __init__(self, console: Screen, width: int) -> None:
        self._console = console
        self._width = width
        self._who = ""
        self._text: Callable[[], str] = str
        self._live: Live | None = None

    def show(self, who: Part, text: Callable[[], str]) -> None:
        """Show the newest lines of a text."""
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
        """Remove the text from the terminal."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _frame(self) -> Table:
        width = max(self._console.width - self._width - 1, 20)
        room = max(self._console.height - _ROOM_ABOVE, 1)
        # Lay out only as much of a long text as fits, because this runs for every frame.
        newest = _lines((self._text()[-room * width :], "green"))
        lines = [line for text in newest for line in text.wrap(self._console, width)]
        return _grid([_line(self._who)], lines[-room:], [self._width])


@dataclass(eq=False)
class LiveTable(Generic[T]):
    """A table that a terminal redraws in place every second, while the block runs.

    The newest table stays on the screen. Elsewhere nothing is printed.
    """

    console: Screen
    columns: Sequence[Column[T]]
    items: Callable[[], Sequence[T]]
    nothing: str

    def __post_init__(self) -> None:
        self._live = Live(console=self.console, refresh_per_second=1, get_renderable=self._frame)

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live.start(refresh=True)
        return self

    def __exit__(self, *_error: object) -> None:
        if self._live.is_started:
            self._live.stop()

    def update(self) -> None:
        """Draw the table again."""
        if self._live.is_started:
            self._live.refresh()

    def _frame(self) -> Group:
        items = self.items()
        if not items:
            return Group(_line((self.nothing, "dim")))
        room = max(self.console.height - _ROOM_ABOVE, 1)
        table = _fitting(self.console, self.columns, items[:room])
        rest = len(items) - room
        below = [_line((f"and {rest:,} more", "dim"))] if rest > 0 else []
        return Group(table, *below)


class Waiting:
    """A spinner with a text about the reason for the wait."""

    def __init__(self, console: Screen, text: str) -> None:
        self.status: Status = console.status(_line(text))

    def update(self, text: str) -> None:
        """Replace the text."""
        self.status.update(_line(text))


@asynccontextmanager
async def waiting(console: Screen, text: str) -> AsyncGenerator[Waiting]:
    """Show a spinner after half a second, below other output to the console."""
    spinner = Waiting(console, text)

    async def show_later() -> None:
        await asyncio.sleep(SPINNER_AFTER.total_seconds())
        if console.is_terminal:
            spinner.status.start()

    showing = asyncio.create_task(show_later())
    try:
        yield spinner
    finally:
        showing.cancel()
        spinner.status.stop()


# --- JSON ---------------------------------------------------------------------------------------


def print_json(value: Mapping[str, Any] | Sequence[Any]) -> None:
    """Print one JSON document."""
    _write(json_text(value, indent=2))


def print_json_line(value: Mapping[str, Any], file: TextIO | None = None) -> None:
    """Print one line of JSON, and flush it; to a file, if one is open for it."""
    _write(json_text(value), file)


def print_csv(rows: Iterable[Sequence[object]]) -> None:
    """Print rows of comma-separated values that a spreadsheet shows and does not calculate."""
    writer = csv.writer(sys.stdout, quoting=csv.QUOTE_ALL, lineterminator="\n")
    for row in rows:
        cells = ("" if value is None else str(value) for value in row)
        writer.writerow(map(table_cell, cells))
    sys.stdout.flush()


def _write(text: str, file: TextIO | None = None) -> None:
    stream = sys.stdout if file is None else file
    stream.write(f"{text}\n")
    stream.flush()
