"""The values that a run takes from outside: how large they may be, and of which shape."""

import json
from collections.abc import Iterable
from typing import Any, Final, cast

from outlast.loop.values import Json

LARGEST_VALUE_BYTES: Final = 200_000
"""The largest value that a run takes, in bytes of JSON: the run carries it in its state, and sends it
to the worker beside the rest of the call. Long texts in it are in the blob store, if there is one."""

DEEPEST: Final = 100
"""How many levels of lists and objects a value may have."""


def check_shape(value: Json) -> None:
    """Refuse a value that is no JSON, is nested too deeply, or has keys that cannot be recorded.

    Raises:
        ValueError: it is, or has.
    """
    try:
        json.dumps(value, allow_nan=False, sort_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"The value must be JSON: {error}") from error
    level = _containers([value])
    for _ in range(DEEPEST):
        level = [inner for one in level for inner in _containers(one)]
    if level:
        raise ValueError(f"The value has more than {DEEPEST} levels of lists and objects.")


def size_of(value: Json) -> int:
    """Return the size of a value, in bytes of JSON."""
    return len(json.dumps(value, separators=(",", ":")))


def _containers(value: Any) -> list[Any]:
    """Return the lists and objects in a list or an object."""
    inner: Iterable[Any] = cast("list[Any]", value)
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        _check_keys(fields)
        inner = fields.values()
    return [one for one in inner if isinstance(one, dict | list)]


def _check_keys(fields: dict[str, Any]) -> None:
    try:
        "".join(fields).encode()
    except UnicodeEncodeError:
        raise ValueError(
            "A key of the value has half a character, which no run can keep."
        ) from None
