"""What a callable changed in the run's context, found by comparison and applied later.

Owns: `Change`, `diff` and `apply`. A JSON merge patch would do but for three things that a run's
context needs: a field set to null must stay null, a key that holds a dot or a slash must be safe,
and two parallel tools that each append to one list must both be heard. Paths are therefore lists
of keys, and appending is an operation of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from outlast.loop.values import Json


@dataclass(frozen=True, slots=True)
class Change:
    """One change: `set` a value at a path, `remove` a key, or `append` values to a list.

    The empty path is the context itself.
    """

    op: Literal["set", "remove", "append"]
    path: tuple[str, ...]
    value: Json = None


def diff(before: Json, after: Json, path: tuple[str, ...] = ()) -> tuple[Change, ...]:
    """Return the changes that turn `before` into `after`."""
    if type(before) is type(after) and before == after:
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
        items, longer = cast("list[Any]", before), cast("list[Any]", after)
        if items and longer[: len(items)] == items:
            return (Change("append", path, longer[len(items) :]),)
    return (Change("set", path, after),)


def apply(context: Json, changes: Sequence[Change]) -> Json:
    """Return the context with the changes made, in their order; the given one is not touched.

    A change whose path has gone (a sibling call removed it) sets it anew, so nothing is lost.
    """
    for change in changes:
        context = _apply_one(context, change, change.path)
    return context


def _apply_one(value: Json, change: Change, path: tuple[str, ...]) -> Json:
    if not path:
        if change.op == "append" and isinstance(value, list):
            return [*cast("list[Any]", value), *change.value]
        return change.value
    fields = dict(cast("dict[str, Any]", value)) if isinstance(value, dict) else {}
    key, rest = path[0], path[1:]
    if change.op == "remove" and not rest:
        fields.pop(key, None)
    else:
        fields[key] = _apply_one(fields.get(key), change, rest)
    return fields
