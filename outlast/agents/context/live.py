"""Live values of a context: objects that are not data, such as a database pool.

The state of a run holds data only, with a marker such as `{"$live": "Pool"}` in place of each live
value. The object stays in its process and is put back at its path when a callable gets the context.
"""

from collections.abc import Iterator
from typing import Any, Final, TypeAlias, cast

from outlast.agents.json_values import is_object
from outlast.loop.values import Json, JsonObject

MARKER: Final = "$live"
"""The only key of a marker, with the name of the live value's type."""

ValuePath: TypeAlias = tuple[str, ...]
"""The fields and keys that lead to a value of a context."""

CLASS: Final = "$class"
"""The first part of the path `(CLASS, name)` under which a run keeps a class made in a function."""

LiveValues: TypeAlias = dict[ValuePath, Any]


def is_marker(value: object) -> bool:
    """Return whether a JSON value is the marker of a live value."""
    return is_object(value) and len(value) == 1 and isinstance(value.get(MARKER), str)


def live_paths(value: Json, path: ValuePath = ()) -> Iterator[tuple[ValuePath, str]]:
    """Yield the path and the type name of each marker in a context's JSON."""
    if is_marker(value):
        yield path, str(cast("JsonObject", value)[MARKER])
    elif isinstance(value, dict):
        for name, inner in cast("JsonObject", value).items():
            yield from live_paths(inner, (*path, name))


def without_live(value: Json) -> Json:
    """Return a context's JSON without its markers; None for a context that is one."""
    if is_marker(value):
        return None
    if not isinstance(value, dict):
        return value
    return {
        name: without_live(inner)
        for name, inner in cast("JsonObject", value).items()
        if not is_marker(inner)
    }


def absent(missing: list[tuple[ValuePath, str]]) -> str:
    """Return the error message for live values that this process does not have."""
    names = ", ".join(f"{'.'.join(path)} ({kind})" for path, kind in missing if path)
    if not names:
        return (
            f"The context, a {missing[0][1]}, is not data, and this process does not have it. Let "
            "workers make it (context=make_context), or start the run again in the program that "
            "hosts it."
        )
    return (
        f"The context's {names} is not data, and this process does not have it. Let workers "
        f"make it: context={{{'.'.join(missing[0][0])!r}: make_it}}, or context=make_context, "
        "called with the data of the context. A program that hosts its own runs passes it to "
        "Runner again."
    )
