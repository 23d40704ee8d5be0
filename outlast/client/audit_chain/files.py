"""Audits in files: JSON lines, or a table of comma-separated values. Anybody may have written them."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Final, cast

from outlast.agents.errors import UserError
from outlast.client.audit import FIELDS, AuditRecord
from outlast.client.audit_chain.entries import COLUMNS
from outlast.loop.values import Json, JsonObject
from outlast.rendering import table_cell, text_of_cell

LONGEST_LINE: Final = 2_000_000
"""The most characters of a line; an entry has fewer, whatever its texts are."""

_BLANK: Final = AuditRecord(at_ms=0, event="vote", run_id="", root_run_id="").record()
_NOT_TEXT: Final = frozenset(
    {
        "signed",
        "number",
        "verified",
        "seconds_to_decide",
        "quorum",
        *(name for name, value in _BLANK.items() if isinstance(value, list)),
        "audience",
        "seen",
    }
)
"""The fields whose cells are JSON; those of others, also of unknown ones, are text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a file, or one entry of an audit that is in no file.

    Attributes:
        entry: the entry; None if the line has none.
        number: the number of the line; None without a file.
        problem: why the line has no entry.
    """

    entry: JsonObject | None = None
    number: int | None = None
    problem: str = ""


# --- Writing a table -----------------------------------------------------------------------------


def table_of(entries: Iterable[JsonObject]) -> Iterator[list[str]]:
    """Yield the rows of a table, from which `lines_of` reads the same entries again."""
    names = (*FIELDS, *COLUMNS)
    yield [*names]
    for entry in entries:
        yield [_cell(name, entry[name]) for name in names]


def _cell(name: str, value: Json) -> str:
    if value is None:
        return ""
    if name in _NOT_TEXT:
        return "" if value == [] else json.dumps(value, ensure_ascii=False)
    return str(value)


# --- Reading -------------------------------------------------------------------------------------


def read_file(path: Path) -> list[Line]:
    """Return the lines of a file.

    Raises:
        UserError: there is no such file, or it has no chain.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} is no audit: it is not UTF-8 from byte {error.start:,} on."
        ) from None
    return lines_of(text, str(path))


def lines_of(text: str, name: str = "The text") -> list[Line]:
    """Return the lines of an audit: JSON lines, or a table.

    Args:
        text: the audit.
        name: what it is called in messages.

    Raises:
        UserError: it has no chain.
    """
    lines = [*(_json_lines(text) if text.lstrip()[:1] in {"{", ""} else _rows(text, name))]
    if not any(one.entry is not None and "hash" in one.entry for one in lines):
        raise UserError(
            f"{name} has no chain, so there is nothing to verify. Export it with "
            "`outlast audit --chain`."
        )
    return lines


def _json_lines(text: str) -> Iterator[Line]:
    # Not `splitlines`: a text may hold characters that other programs take for line breaks.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            entry = _parsed(line)
        except (ValueError, RecursionError) as error:
            yield Line(number=number, problem=f"cannot be read: {_why(error)}")
            continue
        if isinstance(entry, dict):
            yield Line(entry=cast("JsonObject", entry), number=number)
        else:
            yield Line(number=number, problem="is no JSON object")


def _rows(text: str, name: str) -> Iterator[Line]:
    # The module has one limit for the process; a cell may hold a long text with every character escaped.
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    names: Sequence[str] | None = None
    while True:
        begin = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            yield Line(number=begin, problem=f"cannot be read: {error}")
            return
        if cells is None:
            return
        if names is None:
            names = cells
            if len(set(names)) < len(names):
                raise UserError(f"{name} has two columns of the same name.")
        elif cells:
            yield _row(names, cells, begin)


def _row(names: Sequence[str], cells: Sequence[str], number: int) -> Line:
    if len(cells) != len(names):
        problem = f"has {len(cells)} cells, and the first line has {len(names)}"
        return Line(number=number, problem=problem)
    entry: JsonObject = {}
    for name, cell in zip(names, cells, strict=True):
        text = text_of_cell(cell)
        if table_cell(text) != cell:
            return Line(number=number, problem=f"cannot be read: `{name}` is not as it was written")
        try:
            entry[name] = _parsed(text) if name in _NOT_TEXT and text else text or None
        except (ValueError, RecursionError) as error:
            return Line(number=number, problem=f"cannot be read: `{name}`: {_why(error)}")
    return Line(entry=entry, number=number)


def _parsed(text: str) -> Any:
    """Return a JSON value; what two programs could read differently is none."""
    if len(text) > LONGEST_LINE:
        raise ValueError(f"it has more than {LONGEST_LINE:,} characters")
    return json.loads(
        text, object_pairs_hook=_object, parse_constant=_no_number, parse_float=_finite
    )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has the same name twice")
    return found


def _finite(text: str) -> float:
    return float(text) if isfinite(float(text)) else _no_number(text)


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no JSON number")


def _why(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
