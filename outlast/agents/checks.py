"""Checks of the values in users' definitions.

A rule gets the place for its error message, such as `Agent(name=...)`, and the value, and raises
the error. A field's type is its rule; a definition has a table of the rules that say more than the
types do. `check_fields` applies both.
"""

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import timedelta
from functools import cache, wraps
from types import MappingProxyType, UnionType
from typing import (
    Any,
    Final,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from outlast.agents.argument_names import advice_on
from outlast.agents.durations import ConvertedField, is_positive, parse_duration
from outlast.agents.errors import UserError

Rule: TypeAlias = Callable[[str, Any], object]
"""Called with (the place, the value); raises the error of an invalid value."""

Method = TypeVar("Method", bound=Callable[..., Any])


class InvalidValue(UserError, ValueError):
    """An argument has a value that cannot be used; `except ValueError` catches it, too."""


class InvalidType(UserError, TypeError):
    """An argument has a type that cannot be used; `except TypeError` catches it, too."""


def check_fields(
    definition: Any, rules: Mapping[str, Rule] = MappingProxyType({}), owner: str = ""
) -> None:
    """Refuse a definition with an invalid field; `owner` names it in messages, else its class.

    `rules` are in place of those that the types of fields mean.
    """
    kind = definition.__class__
    for name, typed, default in _typed_fields(kind) or [(name, None, rules) for name in rules]:
        value = getattr(definition, name)
        if value is not default and (rule := rules.get(name, typed)) is not None:
            place = f"{owner}: {name}" if owner else f"{kind.__name__}({name}=...)"
            rule(place, value)


@cache
def _typed_fields(kind: Any) -> Sequence[tuple[str, Rule | None, object]]:
    """Return the fields of a dataclass, with the rules of their types and the defaults."""
    if not is_dataclass(kind):
        return ()
    rules = typed_rules(kind)
    return [(one.name, rules.get(one.name), getattr(kind, one.name, rules)) for one in fields(kind)]


@cache
def typed_rules(kind: type[Any]) -> dict[str, Rule]:
    """Return the rules that the types of a dataclass's fields mean."""
    hints = get_type_hints(kind)
    found = {one.name: _rule_of(hints[one.name]) for one in fields(kind)}
    return {name: rule for name, rule in found.items() if rule is not None}


def _rule_of(hint: Any) -> Rule | None:
    """Return the rule of a type; None if a part of it is no class, or says nothing."""
    is_converted = get_origin(hint) is ConvertedField
    if is_converted:
        kept, _, default = get_args(hint)
        hint = Union[kept, default]  # noqa: UP007  they are values
    members = get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)
    given = [one for one in members if one is not type(None)]
    if all(get_origin(one) is Literal for one in given):
        rule = one_of(*(choice for one in given for choice in get_args(one)))
    else:
        kinds = [_checked(get_origin(one) or one) for one in given]
        if not all(isinstance(one, type) and not _says_nothing(one) for one in kinds):
            return None
        rule = duration if is_converted and kinds == [timedelta] else of_kinds(*kinds)
    return optional(rule) if type(None) in members else rule


def _says_nothing(kind: Any) -> bool:
    return kind in {Any, Callable} or getattr(kind, "_is_protocol", False)


def _checked(kind: Any) -> Any:
    """Return the class that is accepted for a type."""
    if kind is dict or is_typeddict(kind):
        return Mapping
    return list if kind is Sequence else kind


def follows(rule: Rule, value: object) -> bool:
    """Whether a value follows a rule."""
    try:
        rule("", value)
    except UserError:
        return False
    return True


_WORDS: Final[dict[Any, str]] = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "a string",
    Mapping: "a dict",
    dict: "a dict",
    list: "a list",
    timedelta: "a timedelta",
}


def of_kinds(*kinds: Any) -> Rule:
    """Return the rule of a value of one of these types; no flag is a number."""
    accepted = (
        *kinds,
        *(int for one in kinds if one is float),
        *(tuple for one in kinds if one is list),
    )
    expected = " or ".join(_WORDS.get(one) or str(one.__name__) for one in kinds)

    def rule(place: str, value: object) -> None:
        if not isinstance(value, accepted) or (isinstance(value, bool) and bool not in kinds):
            raise InvalidType(f"{place} must be {expected}, not {value!r}.")

    return rule


def check_options(maker: str, options: Mapping[str, Any], kind: type) -> None:
    """Refuse keyword options that a `TypedDict` does not have.

    `maker` ends with the name of the callable that has them, such as `Tool 'x': function_tool`.
    """
    if unknown := sorted(options.keys() - kind.__annotations__.keys()):
        where = maker.rpartition(" ")[2]
        advice = "".join(advice_on(where, name, kind.__annotations__) for name in unknown)
        raise InvalidType(
            f"{maker} has no option {', '.join(unknown)}.{advice} "
            f"Its options are {', '.join(kind.__annotations__)}."
        )


def check_argument_names(where: str, given: Iterable[str], allowed: Iterable[str]) -> None:
    """Refuse unknown keyword arguments, as Python does; the message says what to use instead."""
    for name in given:
        if name not in allowed:
            advice = advice_on(where, name, allowed)
            raise InvalidType(f"{where}() got an unexpected keyword argument {name!r}.{advice}")


def with_checked_fields(kind: type[Any]) -> None:
    """Let a dataclass refuse unknown arguments with `check_argument_names`."""
    init: Callable[..., None] = kind.__init__
    names = [field.name for field in fields(kind) if field.init]

    @wraps(init)
    def checked(self: object, *arguments: Any, **named: Any) -> None:
        check_argument_names(kind.__name__, named, names)
        init(self, *arguments, **named)

    setattr(kind, "__init__", checked)  # noqa: B010  a type checker refuses the assignment


def with_checked_arguments(function: Method) -> Method:
    """Let a function, or a method of a class, refuse unknown arguments with advice.

    Put it under `@classmethod`. The options of a `TypedDict` (`**options: Unpack[...]`) are known.
    """
    names = _argument_names(function)

    def where(arguments: tuple[Any, ...]) -> str:
        owner = arguments[0] if arguments and "." in function.__qualname__ else None
        prefix = f"{owner.__name__}." if isinstance(owner, type) else ""
        return prefix + function.__name__

    @wraps(function)
    def checked(*arguments: Any, **named: Any) -> Any:
        check_argument_names(where(arguments), named, names)
        return function(*arguments, **named)

    @wraps(function)
    async def checked_async(*arguments: Any, **named: Any) -> Any:
        check_argument_names(where(arguments), named, names)
        return await function(*arguments, **named)

    return cast("Method", checked_async if inspect.iscoroutinefunction(function) else checked)


def _argument_names(function: Callable[..., Any]) -> list[str]:
    names: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            (options,) = get_args(parameter.annotation)  # of Unpack[...]
            names += [*options.__optional_keys__, *options.__required_keys__]
        else:
            names.append(name)
    return names


def json_problem(value: object) -> Exception | None:
    """Return why a value cannot be written as JSON, or None."""
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        return error
    return None


def optional(rule: Rule) -> Rule:
    """Return a rule that also accepts None."""
    return lambda place, value: None if value is None else rule(place, value)


def one_of(*choices: object) -> Rule:
    """Return the rule of a field with few values."""
    return lambda place, value: check_choice(place, value, choices)


def duration_of(text: str, what: str = "") -> timedelta:
    """Return the duration that somebody wrote.

    Args:
        text: what they wrote.
        what: where they wrote it, such as `--return-after`.

    Raises:
        UserError: the text is no duration.
    """
    length = parse_duration(text)
    if length is None:
        found = f"{what} {text!r:.80}".lstrip()
        raise UserError(f"{found} is no length of time. Write such as 30min, 2h or 3d.")
    return length


def duration(place: str, value: object) -> None:
    """Refuse a value that is not a positive `timedelta`."""
    if not is_positive(value):
        raise InvalidValue(f"{place} must be a positive timedelta or seconds, not {value!r}.")


def check_choice(place: str, value: object, choices: Iterable[object]) -> None:
    """Refuse a value that is none of the choices."""
    choices = tuple(choices)
    if not any(value is choice or value == choice for choice in choices):
        expected = ", ".join(repr(choice) for choice in choices)
        raise InvalidValue(f"{place} must be one of {expected}, not {value!r}.")


def check_name(place: str, value: object) -> None:
    """Refuse a name that is not a string, or is empty."""
    if not isinstance(value, str):
        raise InvalidType(f"{place} must be a string, got {type(value).__name__}.")
    if not value.strip():
        raise InvalidValue(f"{place} must be a non-empty string, not {value!r}.")


def check_printable(place: str, value: str, *, is_name: bool = False) -> None:
    """Refuse a text with characters that nobody sees, such as a line break: an id, or a name.

    A name may have what joins letters, as in Persian, and signs, as in many emoji.
    """
    text = value.translate(_JOINERS) if is_name else value
    if not text.isprintable():
        raise InvalidValue(
            f"{place}{'' if place.endswith('=') else ' '}{value!r:.200} holds a character that cannot be printed, such as a line break. "
            "Remove it."
        )


_JOINERS: Final = {0x200C: None, 0x200D: None}


def check_count(place: str, value: object, *, least: int = 1, expected: str = "") -> None:
    """Refuse a value that is not an integer from `least` on."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        expected = expected or f"a whole number from {least}"
        raise InvalidValue(f"{place} must be {expected}, not {value!r}.")


def check_seconds(place: str, value: object, *, positive: bool = False) -> None:
    """Refuse a value that is neither None nor a duration in seconds."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidType(f"{place} must be a number of seconds or None, not {value!r}.")
    try:
        duration = timedelta(seconds=value)
    except (OverflowError, ValueError):  # too large, infinite, or no number
        duration = timedelta(-1)
    if duration < timedelta(0) or (not duration and (positive or value)):
        expected = "positive and finite" if positive else "a non-negative finite number of seconds"
        raise InvalidValue(f"{place} must be {expected}, not {value!r:.40}; None means no limit.")


def check_list(place: str, value: object) -> Sequence[Any]:
    """Return a list or tuple, and refuse any other value."""
    if not isinstance(value, list | tuple):
        raise InvalidType(f"{place} must be a list, not {type(value).__name__}.")
    return cast("Sequence[Any]", value)
