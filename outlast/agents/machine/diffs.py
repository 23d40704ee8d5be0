"""Diffs as models write them: lines with their neighbours, and no line numbers.

Owns: reading such a diff and applying it to a text. Must not know: files, tools.

A diff is a list of changes. A change may begin with `@@ line`, which says after which line of the
text it is to be looked for; several such lines narrow it down step by step. Of the lines that
follow, those that begin with a space are in the text, those with `-` are taken out, those with `+`
are put in. `*** End of File` says that the change is at the end.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

ApplyDiffMode: TypeAlias = Literal["default", "create"]

_END_OF_FILE = "*** End of File"
# What ends the changes of this text, in a patch of several files too.
_END_OF_PATCH = ("*** End Patch", "*** Update File:", "*** Add File:", "*** Delete File:")

# How lines are compared, the strictest way first: models are careless about blanks.
_EYES: tuple[Callable[[str], str], ...] = (str, str.rstrip, str.strip)


class InvalidDiffError(ValueError):
    """A diff that is none, or that does not fit its text. The message is for the model."""


@dataclass
class _Change:
    """One place of the text that changes.

    Attributes:
        anchors: lines that come before it, one after the other.
        rows: its lines: the mark, and the line.
        is_last: it is at the end of the text.
    """

    anchors: list[str] = field(default_factory=list[str])
    rows: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    is_last: bool = False

    @property
    def old(self) -> list[str]:
        """The lines that the text has there."""
        return [line for mark, line in self.rows if mark != "+"]


def apply_diff(
    input: str,  # noqa: A002  the SDK's
    diff: str,
    mode: ApplyDiffMode = "default",
) -> str:
    """Return a text with a V4A diff applied.

    Lines are found as they are, or else without regard to blanks at their ends and then at their
    beginnings; what stays keeps its own blanks, and the text its own kind of line breaks.

    Args:
        input: the text.
        diff: what to change, in the format that models write for `ApplyPatchTool`.
        mode: `create` makes a new text, of a diff that has `+` lines only.

    Raises:
        ValueError: the diff cannot be read, or the text does not have the lines that it names.
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
    """Return the lines of a diff; a line break at its end begins no further line."""
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
    """Read the changes of a diff."""
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
    """Return the lines as the changes leave them; each is looked for behind the one before."""
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
    """Return where a change begins, behind the lines that are done.

    Raises:
        InvalidDiffError: the text has no such place.
    """
    start, lost = done, None
    for anchor in change.anchors:
        if len(change.anchors) == 1 and anchor in lines[:done]:
            break  # the change before this one has come by there: it goes on from where that ended
        at = _find(lines, [anchor], start)
        if at is not None:
            start = at + 1
        elif _find(lines[:start], [anchor], 0) is None:
            lost = anchor
    # A line break at the end of the text ends its last line; the split has an empty one behind it.
    end = len(lines) - 1 if lines[-1] == "" and len(lines) > start else len(lines)
    if not change.old:
        # One line that the text lacks is often no line at all, but a heading (`@@ -1,2 +1,3 @@`);
        # of several, the others show that a line was meant.
        if lost is not None and len(change.anchors) > 1:
            raise InvalidDiffError(f"The text does not have this line: {lost!r}")
        return end if change.is_last else start
    if change.is_last:
        for last in (end, len(lines)):
            at = last - len(change.old)
            if at >= done and _find(lines[at:last], change.old, 0) is not None:
                return at
    for begin in (start, done):  # models name an anchor, too, that is one of the lines
        at = _find(lines, change.old, begin)
        if at is not None:
            return at
    shown = "\n".join(change.old)
    raise InvalidDiffError(f"The text does not have these lines in this order:\n{shown}")


def _find(lines: Sequence[str], wanted: Sequence[str], start: int) -> int | None:
    """Return where lines stand one after the other, from a line on."""
    for see in _EYES:
        seen, sought = [see(line) for line in lines], [see(line) for line in wanted]
        for at in range(start, len(lines) - len(wanted) + 1):
            if seen[at : at + len(wanted)] == sought:
                return at
    return None
