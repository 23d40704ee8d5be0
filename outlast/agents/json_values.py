"""Reads JSON that others have written: a value of the expected type, or an empty one."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn, cast

from outlast.loop.values import JsonObject

if TYPE_CHECKING:
    from typing_extensions import TypeIs


def is_object(value: object) -> "TypeIs[JsonObject]":
    """Whether a value is a dict; type checkers then take its keys for strings."""
    return isinstance(value, dict)


def is_mapping(value: object) -> "TypeIs[Mapping[str, object]]":
    """Whether a value is a mapping; type checkers then take its keys for strings."""
    return isinstance(value, Mapping)


def is_list(value: object) -> "TypeIs[list[Any]]":
    """Whether a value is a list."""
    return isinstance(value, list)


def as_object(value: object) -> JsonObject | None:
    """Return the value if it is a JSON object, or None."""
    return value if is_object(value) else None


def as_objects(value: object) -> list[JsonObject] | None:
    """Return the value if it is a list of JSON objects, or None."""
    if not is_list(value) or not all(isinstance(member, dict) for member in value):
        return None
    return cast("list[JsonObject]", value)


def as_text(value: object) -> str | None:
    """Return the value if it is a non-empty string, or None."""
    return value if isinstance(value, str) and value else None


def as_count(value: object) -> int:
    """Return the value if it is a positive integer, or 0."""
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return max(value, 0)


def no_number(name: str) -> NoReturn:
    """Refuse NaN and infinity: `json.loads(text, parse_constant=no_number)`."""
    raise ValueError(f"{name} is not JSON")
