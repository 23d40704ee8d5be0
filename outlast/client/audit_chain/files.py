"""Audits in files of JSON lines. Anybody may have written them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Final, cast

from outlast.agents.errors import UserError
from outlast.loop.values import JsonObject

LONGEST_LINE: Final = 2_000_000
"""The most characters of a line; an entry has fewer, whatever its texts are."""


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
    """Return the lines of an audit.

    Args:
        text: the audit.
        name: what it is called in messages.

    Raises:
        UserError: it has no chain.
    """
    lines = [*_json_lines(text)]
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
