"""Diffs in the V4A format of models: lines with context, and no line numbers.

A diff is a list of changes. A change may begin with `@@ line`, an anchor: the search for the change
starts after that line of the text. An anchor that is not in the text is ignored, because models also
write hunk headers (`@@ -1,2 +1,3 @@`). Several anchors narrow the search step by step, and all of
them must be in the text, in this order. Of the following lines, a line with a leading space is
context, a line with `-` is removed, and a line with `+` is added. `*** End of File` marks a change at
the end of the text.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

ApplyDiffMode: TypeAlias = Literal["default", "create"]

_END_OF_FILE = "*** End of File"
# Markers that end the changes of one text, also in a patch of several files.
_END_OF_PATCH = ("*** End Patch", "*** Update File:", "*** Add File:", "*** Delete File:")

# Normalizations to compare lines with, strictest first: models are careless about whitespace.
_EYES: tuple[Callable[[str], str], ...] = (str, str.rstrip, str.strip)


class InvalidDiffError(ValueError):
    """The diff is malformed, or does not match the text. The message is for the model."""


@dataclass
class _Change:
    """One change of a diff.

    Attributes:
        anchors: lines of the text before the change, in order.
        markers: how many lines with `@@` begin the change; some have no anchor.
        rows: the lines of the change, each as (mark, line).
        is_last: whether the change is at the end of the text.
    """

    anchors: list[str] = field(default_factory=list[str])
    markers: int = 0
    rows: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    is_last: bool = False

    @property
    def old(self) -> list[str]:
        """The lines of the text that the change covers."""
        return [line for mark, line in self.rows if mark != "+"]


def apply_diff(
    input: str,  # noqa: A002  the SDK's
    diff: str,
    mode: ApplyDiffMode = "default",
) -> str:
    """Return a text with a V4A diff applied.

    Lines are matched exactly, then without trailing whitespace, then without leading and trailing
    whitespace. Unchanged lines keep their whitespace, and the text keeps its type of line break.

    Args:
        input: the text.
        diff: the changes, in the format that models write for `ApplyPatchTool`.
        mode: `create` makes a new text from a diff with `+` lines only.

    Raises:
        ValueError: the mode is unknown, the diff is malformed, or its lines are not in the text.
    """
    rows = _rows(diff)
    if mode == "create":
        return _line_break(diff).join(_create(rows))
    if mode != "default":
        raise ValueError(f"apply_diff(mode=...) must be 'default' or 'create', not {mode!r}.")
    lines = input.replace("\r\n", "\n").split("\n")
    changed = _apply(lines, list(_changes(rows)))
    return _line_break(input if "\n" in input else diff).join(changed)


def _line_break(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _rows(diff: str) -> list[str]:
    text = diff.replace("\r\n", "\n")
    return text.removesuffix("\n").split("\n") if text else []


def _create(rows: Sequence[str]) -> Iterator[str]:
    for row in rows:
        if row.startswith(_END_OF_PATCH):
            return
        if not row.startswith("+"):
            raise InvalidDiffError(f"Every line of a new file must begin with '+': {row!r}")
        yield row[1:]


def _changes(rows: Sequence[str]) -> Iterator[_Change]:
    change, begun = _Change(), False
    for row in rows:
        if row.startswith(_END_OF_PATCH):
            break
        if row == "@@" or row.startswith("@@ "):
            if change.rows:
                yield change
                change = _Change()
            begun = True
            change.markers += 1
            change.anchors.extend([row[3:]] if row[3:].strip() else [])
        elif row == _END_OF_FILE:
            change.is_last = True
            yield _with_rows(change)
            change, begun = _Change(), False
        elif row and row[0] not in " +-":
            raise InvalidDiffError(f"A line must begin with ' ', '+', '-' or '@@ ': {row!r}")
        else:
            change.rows.append((row[0], row[1:]) if row else (" ", ""))
            begun = True
    if begun:
        yield _with_rows(change)


def _with_rows(change: _Change) -> _Change:
    if not change.rows:
        where = " after ".join(["", *reversed(change.anchors)])
        raise InvalidDiffError(f"A change{where} has no lines.")
    return change


def _apply(lines: Sequence[str], changes: Sequence[_Change]) -> list[str]:
    result: list[str] = []
    done = 0
    for change in changes:
        at = _place(lines, change, done)
        result.extend(lines[done:at])
        for mark, line in change.rows:
            if mark == "+":
                result.append(line)
                continue
            if mark == " ":
                result.append(lines[at])
            at += 1
        done = at
    return [*result, *lines[done:]]


def _place(lines: Sequence[str], change: _Change, done: int) -> int:
    """Return the index where a change begins, at or after the index `done`."""
    start = _start(lines, change, done)
    # Models also write an anchor that is a line of the change. Several anchors name one place, so the
    # change may begin at the last one, and not before.
    earliest = done if change.markers <= 1 else max(done, start - 1)
    # If the text ends with a line break, the split has an empty line after the last line.
    end = len(lines) - 1 if lines[-1] == "" and len(lines) > start else len(lines)
    if not change.old:
        return end if change.is_last else start
    if change.is_last:
        for last in (end, len(lines)):
            at = last - len(change.old)
            if at >= earliest and _find(lines[at:last], change.old, 0) is not None:
                return at
    for begin in (start, earliest):
        at = _find(lines, change.old, begin)
        if at is not None:
            return at
    shown = "\n".join(change.old)
    raise InvalidDiffError(f"The text does not have these lines in this order:\n{shown}")


def _start(lines: Sequence[str], change: _Change, done: int) -> int:
    """Return the index after the anchors of a change.

    The first anchor may be in the part before `done`: several changes of one class repeat its name.
    """
    start = done
    for number, anchor in enumerate(change.anchors):
        if number == 0 and anchor in lines[:done]:
            continue
        at = _find(lines, [anchor], start)
        if at is not None:
            start = at + 1
            continue
        if number == 0 and _find(lines[:done], [anchor], 0) is not None:
            continue
        if change.markers > 1:
            behind = f" after {change.anchors[number - 1]!r}" if number else ""
            raise InvalidDiffError(
                f"Invalid Anchor: the text does not have this line{behind}: {anchor!r}"
            )
    return start


def _find(lines: Sequence[str], expected: Sequence[str], start: int) -> int | None:
    for see in _EYES:
        seen, sought = [see(line) for line in lines], [see(line) for line in expected]
        for at in range(start, len(lines) - len(expected) + 1):
            if seen[at : at + len(expected)] == sought:
                return at
    return None
