"""Reads JSON that others have written: a value of the expected type, or an empty one."""

from typing import Any, NoReturn, cast

from outlast.loop.values import JsonObject


def as_object(value: object) -> JsonObject | None:
    """Return the value if it is a JSON object, or None."""
    return cast("JsonObject", value) if isinstance(value, dict) else None


def as_objects(value: object) -> list[JsonObject] | None:
    """Return the value if it is a list of JSON objects, or None."""
    if not isinstance(value, list):
        return None
    members = cast("list[Any]", value)
    if not all(isinstance(member, dict) for member in members):
        return None
    return cast("list[JsonObject]", members)


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
