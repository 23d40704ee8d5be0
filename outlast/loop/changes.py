"""Context changes: found by comparing JSON before and after user code, and applied later.

A JSON merge patch does not suffice: a field set to null must stay null, keys may hold dots and
slashes, and two parallel tools may both append to one list. Paths are therefore lists of keys, and
appending is an operation of its own.
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
    if _same(before, after):
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
        if _same(items, longer[: len(items)]):
            return (Change("append", path, longer[len(items) :]),)
    return (Change("set", path, after),)


def apply(context: Json, changes: Sequence[Change]) -> Json:
    """Return the context with the changes applied in order; the argument is not changed.

    Other calls may have changed the context since the comparison: `set` creates missing parents,
    and `remove` ignores a missing key.
    """
    for change in changes:
        context = _apply_one(context, change, change.path)
    return context


def _apply_one(value: Json, change: Change, path: tuple[str, ...]) -> Json:
    if not path:
        added: Json = change.value
        if change.op == "append" and isinstance(value, list) and isinstance(added, list):
            return [*cast("list[Any]", value), *cast("list[Any]", added)]
        return change.value
    fields = dict(cast("dict[str, Any]", value)) if isinstance(value, dict) else {}
    key, rest = path[0], path[1:]
    if change.op == "remove" and key not in fields:
        return cast("Json", value)
    if change.op == "remove" and not rest:
        del fields[key]
        return fields
    fields[key] = _apply_one(fields.get(key), change, rest)
    return fields


def _same(one: Json, other: Json) -> bool:
    """Whether two values are the same JSON. In Python 1 == 1.0 == True; in JSON they differ."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        fields, others = cast("dict[str, Any]", one), cast("dict[str, Any]", other)
        return fields.keys() == others.keys() and all(
            _same(fields[key], others[key]) for key in fields
        )
    if isinstance(one, list):
        items, more = cast("list[Any]", one), cast("list[Any]", other)
        return len(items) == len(more) and all(map(_same, items, more))
    return one == other
