"""Checks of the values that users define things with.

Each takes the place that an error names, such as `Agent(name=...)`, and the value.
"""

from collections.abc import Iterable, Sequence
from typing import Any, cast

from outlast.agents.errors import UserError


def check_type(place: str, value: object, kinds: type | tuple[type, ...], wanted: str) -> None:
    """Refuse a value of another type.

    Raises:
        UserError: it is none of these.
    """
    if not isinstance(value, kinds):
        raise UserError(f"{place} must be {wanted}, not {value!r}.")


def check_choice(place: str, value: object, choices: Iterable[object]) -> None:
    """Refuse a value that is none of the choices.

    Raises:
        UserError: it is none of them.
    """
    choices = tuple(choices)
    if not any(value is choice or value == choice for choice in choices):
        wanted = ", ".join(repr(choice) for choice in choices)
        raise UserError(f"{place} must be one of {wanted}, not {value!r}.")


def check_flag(place: str, value: object) -> None:
    """Refuse a value that is not True or False.

    Raises:
        UserError: it is another.
    """
    check_type(place, value, bool, "True or False")


def check_name(place: str, value: object) -> None:
    """Refuse a name that is no text, or an empty one.

    Raises:
        UserError: it is one.
    """
    if not isinstance(value, str) or not value.strip():
        raise UserError(f"{place} must be a non-empty string, not {value!r}.")


def check_count(place: str, value: object, *, wanted: str = "a whole number from 1") -> None:
    """Refuse a number that counts nothing.

    Raises:
        UserError: it is no whole number from 1.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UserError(f"{place} must be {wanted}, not {value!r}.")


def check_list(place: str, value: object) -> Sequence[Any]:
    """Return a list, and refuse anything else.

    Raises:
        UserError: it is no list.
    """
    if not isinstance(value, list | tuple):
        raise UserError(f"{place} must be a list, not {type(value).__name__}.")
    return cast("Sequence[Any]", value)
