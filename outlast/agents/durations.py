"""Durations in users' definitions: a `timedelta`, or a number of seconds. Fields that convert."""

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final, Generic, TypeAlias, TypeVar, overload

LONGEST_DURATION_TEXT: Final = 40  # longer than any duration; bounds the search

Kept = TypeVar("Kept")
Given = TypeVar("Given")
Default = TypeVar("Default")


def as_duration(value: object) -> object:
    """Return a number of seconds as a `timedelta`, and any other value unchanged.

    NaN, infinity and numbers too large for a `timedelta` are also returned unchanged, so that the
    caller's check refuses them.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        with suppress(ValueError, OverflowError):
            return timedelta(seconds=value)
    return value


_UNITS: Final = {"w": 604_800, "d": 86_400, "h": 3_600, "min": 60, "m": 60, "s": 1}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:w|d|h|min|m|s)\s*)+")


def parse_duration(text: str) -> timedelta | None:
    """Return a duration that is written as `90s`, `45m`, `2h`, `1h 30m`, `3d` or `2w`.

    None if the text is no duration.
    """
    if len(text) > LONGEST_DURATION_TEXT or not _DURATION.fullmatch(text.strip()):
        return None
    parts: list[tuple[str, str]] = re.findall(r"(\d+(?:\.\d+)?)(min|[wdhms])", text)
    try:
        return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in parts))
    except OverflowError:
        return None


def is_positive(duration: object) -> bool:
    """Whether a value is a `timedelta` greater than zero."""
    return isinstance(duration, timedelta) and duration > timedelta(0)


# --- Fields ---------------------------------------------------------------------------------------


class ConvertedField(Generic[Kept, Given, Default]):
    """A field that converts what it is set to.

    A function with the return type Any makes it, because type checkers would take the descriptor
    for the default value. It does not check the value: the dataclass does in `__post_init__`, where
    it can name the owner.
    """

    def __init__(self, convert: Callable[[Any], Any], default: Default) -> None:
        self._convert = convert
        self._default = default
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Default: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Kept | Default: ...

    def __get__(self, instance: object | None, owner: type) -> Kept | Default:
        return self._default if instance is None else vars(instance).get(self._name, self._default)

    def __set__(self, instance: object, value: Kept | Given | Default) -> None:
        vars(instance)[self._name] = self._convert(value)


DurationField: TypeAlias = ConvertedField[timedelta, float, Default]
"""A field that takes a `timedelta` or seconds, and returns a `timedelta` or the default."""


def duration_field(default: timedelta | None) -> Any:
    """Make a dataclass field for a duration, with a default."""
    return ConvertedField[Any, Any, Any](as_duration, default)
