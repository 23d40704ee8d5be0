"""Context changes: found by comparing JSON before and after user code, and applied later.

Calls in different processes start from the same context, so a change may find another value than
the one it was made from. It is then made again on that value: what was added to a number is added,
and what was put into or taken out of a list is put in or taken out. A JSON merge patch cannot say
that, nor that a field is set to null, or whose keys hold dots and slashes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, cast

from outlast.loop.values import Json

Path: TypeAlias = tuple[str, ...]

LONGEST_BEFORE: Final = 200
"""The longest text that is recorded as the old value of a change."""

MOST_REMOVED: Final = 100
"""The most entries of a list that are recorded as removed; a larger change sets the list."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change at a path: of a value, a key, a list, or the end of a long text.

    The empty path is the context itself.

    Attributes:
        op: `set` a value, `remove` a key, `append` values to a list or a text to a text, or
            `splice` a list: put `value["added"]` in the place of `value["removed"]`, which began at
            `value["at"]`.
        path: the keys that lead to the value.
        value: the new value, or what is appended or spliced.
        before: the value that `set` replaced, if it was a number, a bool or a short text.
    """

    op: Literal["set", "remove", "append", "splice"]
    path: Path
    value: Json = None
    before: Json = None


def diff(before: Json, after: Json, path: tuple[str, ...] = ()) -> tuple[Change, ...]:
    """Return the changes that turn `before` into `after`."""
    if same(before, after):
        return ()
    if isinstance(before, dict) and isinstance(after, dict):
        old, new = cast("dict[str, Any]", before), cast("dict[str, Any]", after)
        changes = [Change("remove", (*path, key)) for key in old if key not in new]
        for key, value in new.items():
            if key in old:
                changes.extend(diff(old[key], value, (*path, key)))
            else:
                changes.append(Change("set", (*path, key), value))
        return tuple(changes)
    if isinstance(before, list) and isinstance(after, list):
        return (_list_change(cast("list[Any]", before), cast("list[Any]", after), path),)
    if isinstance(before, str) and isinstance(after, str) and len(before) > LONGEST_BEFORE:
        if after.startswith(before):
            return (Change("append", path, after[len(before) :]),)
        before = None
    is_plain = isinstance(before, str | int | float)
    return (Change("set", path, after, before if is_plain else None),)


def _list_change(before: list[Any], after: list[Any], path: Path) -> Change:
    shorter = min(len(before), len(after))
    start = next((at for at in range(shorter) if not same(before[at], after[at])), shorter)
    if start == len(before):
        return Change("append", path, after[start:])
    rest = shorter - start
    end = next((at for at in range(rest) if not same(before[-1 - at], after[-1 - at])), rest)
    removed, added = before[start : len(before) - end], after[start : len(after) - end]
    if len(removed) > MOST_REMOVED or not all(map(_is_small, removed)):
        return Change("set", path, after)
    return Change("splice", path, {"at": start, "removed": removed, "added": added})


def _is_small(value: Json) -> bool:
    """Whether a value may be recorded as removed: one that is large would be recorded twice."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return len(fields) <= MOST_REMOVED and not any(
            isinstance(one, dict | list) or not _is_small(one) for one in fields.values()
        )
    return not isinstance(value, list) and (
        not isinstance(value, str) or len(value) <= LONGEST_BEFORE
    )


def apply(context: Json, changes: Sequence[Change]) -> Json:
    """Return the context with the changes applied in order; the argument is not changed.

    Other calls may have changed the context since the comparison: each change is made on the
    present value. `set` creates missing parents, and `remove` ignores a missing key.
    """
    for change in changes:
        context = _apply_one(context, change, change.path)
    return context


def clashes(changes: Sequence[Change], others: Sequence[Change]) -> tuple[Path, ...]:
    """Return the paths that calls set which have not seen each other's changes.

    Such a change cannot be made again: nobody can say what the call would have set instead.
    """
    taken = {one.path: one.value for one in others if one.op == "set"}
    return tuple(
        one.path
        for one in changes
        if one.op == "set"
        and one.before is not None
        and one.path in taken
        and not same(taken[one.path], one.value)
        and _made_again(taken[one.path], one) is None
    )


def _apply_one(value: Json, change: Change, path: Path) -> Json:
    if not path:
        return _changed(value, change)
    fields = dict(cast("dict[str, Any]", value)) if isinstance(value, dict) else {}
    key, rest = path[0], path[1:]
    if change.op == "remove" and key not in fields:
        return cast("Json", value)
    if change.op == "remove" and not rest:
        del fields[key]
        return fields
    fields[key] = _apply_one(fields.get(key), change, rest)
    return fields


def _changed(value: Json, change: Change) -> Json:
    """Return a value after a change of it."""
    new: Json = change.value
    match change.op:
        case "append" if isinstance(value, list) and isinstance(new, list):
            return [*cast("list[Any]", value), *cast("list[Any]", new)]
        case "append" if isinstance(value, str) and isinstance(new, str):
            return value + new
        case "splice" if isinstance(new, dict):
            return _spliced(value, cast("dict[str, Any]", new))
        case "set" if change.before is not None and not same(value, change.before):
            again = _made_again(value, change)
            return new if again is None else again
        case _:
            return new


def _made_again(present: Json, change: Change) -> Json:
    """Return a change made again on another value than its own; None where that means nothing.

    A number gets the difference, and a text what was written after the old one.
    """
    before, new = change.before, change.value
    if _is_number(present) and _is_number(before) and _is_number(new):
        try:
            total = present + (new - before)
        except OverflowError:  # an integer beyond the range of floats
            return None
        return total if total - total == 0 else None  # not infinite
    texts = isinstance(before, str) and isinstance(new, str) and isinstance(present, str)
    if texts and before and new.startswith(before) and present.startswith(before):
        return present if present == new else present + new[len(before) :]
    return None


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _spliced(value: Json, change: dict[str, Any]) -> Json:
    """Return a list with entries taken out, as far as they are still there, and others put in."""
    at, removed, added = change.get("at"), change.get("removed"), change.get("added")
    if not (isinstance(at, int) and isinstance(removed, list) and isinstance(added, list)):
        return value
    gone, new = cast("list[Any]", removed), cast("list[Any]", added)
    if not isinstance(value, list):
        return new
    entries, at = list(cast("list[Any]", value)), max(at, 0)
    if same(entries[at : at + len(gone)], gone):
        return [*entries[:at], *new, *entries[at + len(gone) :]]
    for one in gone:
        place = next((at for at, entry in enumerate(entries) if same(entry, one)), None)
        if place is not None:
            at = place
            del entries[place]
    return [*entries[:at], *new, *entries[at:]]


def same(one: Json, other: Json) -> bool:
    """Whether two values are the same JSON. In Python 1 == 1.0 == True; in JSON they differ."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        fields, others = cast("dict[str, Any]", one), cast("dict[str, Any]", other)
        return fields.keys() == others.keys() and all(
            same(fields[key], others[key]) for key in fields
        )
    if isinstance(one, list):
        items, more = cast("list[Any]", one), cast("list[Any]", other)
        return len(items) == len(more) and all(map(same, items, more))
    return one == other
