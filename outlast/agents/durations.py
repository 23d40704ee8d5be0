"""Durations as users give them: a `timedelta`, or a number of seconds.

Owns: the field of a dataclass that takes both and always gives a `timedelta`. Must not know: what
is bounded by it.
"""

from datetime import timedelta
from typing import Any, Generic, TypeVar, overload

Default = TypeVar("Default", bound=timedelta | None)


def as_duration(value: object) -> object:
    """Return a number of seconds as a `timedelta`, and anything else as it is.

    NaN, infinity and numbers that no `timedelta` can hold stay what they are, for whoever checks
    the value to refuse.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return timedelta(seconds=value)
        except (ValueError, OverflowError):
            pass
    return value


def is_positive(duration: object) -> bool:
    """Say whether a value is a `timedelta` longer than nothing."""
    return isinstance(duration, timedelta) and duration > timedelta(0)


class DurationField(Generic[Default]):
    """A dataclass's field for a duration; make one with `duration_field`.

    It takes a `timedelta` or seconds and gives a `timedelta`, or its default. It checks nothing:
    the dataclass does, in its `__post_init__`, where it can name its owner.
    """

    def __init__(self, default: Default) -> None:
        self._default = default
        self._place = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._place = f"_{name}"

    @overload
    def __get__(self, instance: None, owner: type) -> Default: ...

    @overload
    def __get__(self, instance: object, owner: type) -> timedelta | Default: ...

    def __get__(self, instance: object | None, owner: type) -> timedelta | Default:
        """Return the duration; of the class, the default."""
        return self._default if instance is None else getattr(instance, self._place)

    def __set__(self, instance: Any, value: timedelta | float | Default) -> None:
        """Keep a duration, whatever its form; the dataclass may be frozen."""
        object.__setattr__(instance, self._place, as_duration(value))


def duration_field(default: timedelta | None) -> Any:
    """Make a field with a default, for a dataclass.

    A type checker takes what stands there for the default, which is no duration itself: so it
    must not see what is made.
    """
    return DurationField(default)
