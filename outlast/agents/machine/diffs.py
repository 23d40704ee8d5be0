"""Diffs in the V4A format of models: lines with context, and no line numbers.

A diff is a list of changes. A change may begin with `@@ line`, an anchor: the search for the change
starts after that line of the text. Several anchors narrow the search step by step. Of the following
lines, a line with a leading space is context, a line with `-` is removed, and a line with `+` is
added. `*** End of File` marks a change at the end of the text.
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
        rows: the lines of the change, each as (mark, line).
        is_last: whether the change is at the end of the text.
    """

    anchors: list[str] = field(default_factory=list[str])
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
        return _line_break(diff).join(_created(rows))
    if mode != "default":
        raise ValueError(f"apply_diff(mode=...) must be 'default' or 'create', not {mode!r}.")
    lines = input.replace("\r\n", "\n").split("\n")
    changed = _changed(lines, list(_changes(rows)))
    return _line_break(input if "\n" in input else diff).join(changed)


def _line_break(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _rows(diff: str) -> list[str]:
    """Return the lines of a diff, without an empty line after the final line break."""
    text = diff.replace("\r\n", "\n")
    return text.removesuffix("\n").split("\n") if text else []


def _created(rows: Sequence[str]) -> Iterator[str]:
    for row in rows:
        if row.startswith(_END_OF_PATCH):
            return
        if not row.startswith("+"):
            raise InvalidDiffError(f"Every line of a new file has to begin with '+': {row!r}")
        yield row[1:]


def _changes(rows: Sequence[str]) -> Iterator[_Change]:
    """Yield the changes of a diff."""
    change, begun = _Change(), False
    for row in rows:
        if row.startswith(_END_OF_PATCH):
            break
        if row == "@@" or row.startswith("@@ "):
            if change.rows:
                yield change
                change = _Change()
            begun = True
            change.anchors.extend([row[3:]] if row[3:].strip() else [])
        elif row == _END_OF_FILE:
            change.is_last = True
            yield _with_rows(change)
            change, begun = _Change(), False
        elif row and row[0] not in " +-":
            raise InvalidDiffError(f"A line has to begin with ' ', '+', '-' or '@@ ': {row!r}")
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


def _changed(lines: Sequence[str], changes: Sequence[_Change]) -> list[str]:
    """Return the lines after all changes, which are applied from top to bottom."""
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
    """Return the index where a change begins, at or after the index `done`.

    Raises:
        InvalidDiffError: the text does not have the lines of the change.
    """
    start, lost = done, None
    for anchor in change.anchors:
        if len(change.anchors) == 1 and anchor in lines[:done]:
            break  # the previous change passed the anchor, so the search starts where that ended
        at = _find(lines, [anchor], start)
        if at is not None:
            start = at + 1
        elif _find(lines[:start], [anchor], 0) is None:
            lost = anchor
    # If the text ends with a line break, the split has an empty line after the last line.
    end = len(lines) - 1 if lines[-1] == "" and len(lines) > start else len(lines)
    if not change.old:
        # A single anchor that is not in the text is often a hunk header (`@@ -1,2 +1,3 @@`). With
        # several anchors, the missing one was meant to be a line.
        if lost is not None and len(change.anchors) > 1:
            raise InvalidDiffError(f"The text does not have this line: {lost!r}")
        return end if change.is_last else start
    if change.is_last:
        for last in (end, len(lines)):
            at = last - len(change.old)
            if at >= done and _find(lines[at:last], change.old, 0) is not None:
                return at
    for begin in (start, done):  # models also write an anchor that is a line of the change
        at = _find(lines, change.old, begin)
        if at is not None:
            return at
    shown = "\n".join(change.old)
    raise InvalidDiffError(f"The text does not have these lines in this order:\n{shown}")


def _find(lines: Sequence[str], wanted: Sequence[str], start: int) -> int | None:
    """Return the first index from `start` of the wanted lines, or None."""
    for see in _EYES:
        seen, sought = [see(line) for line in lines], [see(line) for line in wanted]
        for at in range(start, len(lines) - len(wanted) + 1):
            if seen[at : at + len(wanted)] == sought:
                return at
    return None
