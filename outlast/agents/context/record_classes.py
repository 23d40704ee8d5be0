"""Record classes, their fields, and the classes in type hints."""

import dataclasses
import sys
import types
import typing
from collections.abc import Callable
from enum import Enum
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, cast


def is_record_class(kind: Any) -> bool:
    """Whether a class is a dataclass, pydantic model, attrs class or named tuple."""
    named: Any = kind if isinstance(kind, type) else object
    return (
        named is SimpleNamespace
        or dataclasses.is_dataclass(named)
        or isinstance(getattr(named, "model_fields", None), dict)
        or hasattr(named, "__attrs_attrs__")
        or hasattr(named, "_field_defaults")  # a named tuple
    )


def is_plain_class(kind: Any) -> bool:
    """Return whether the attributes of a class's objects are their whole state."""
    if not isinstance(kind, type):
        return False
    kind = cast("type[Any]", kind)
    if kind.__module__.partition(".")[0] in sys.stdlib_module_names - {"__main__"}:
        return False  # a lock, a thread: its attributes are not its whole state
    if is_record_class(kind) or typing.is_typeddict(kind) or issubclass(kind, Enum):
        return False
    if any(hasattr(kind, name) for name in ("__get_pydantic_core_schema__", "__slots__")):
        return False
    # A subclass of a container, date or number has state besides its attributes.
    return kind.__new__ is object.__new__ and "__dict__" in dir(kind)


class Field(NamedTuple):
    """A field of a record class.

    Attributes:
        default: makes its default value; None for none.
        is_excluded: whether it is left out of JSON, as `Field(exclude=True)` of pydantic says.
    """

    name: str
    default: Callable[[], Any] | None
    is_required: bool
    is_excluded: bool = False


@cache
def fields_of(kind: Any) -> tuple[Field, ...]:
    """Return the fields of a record class; none for a plain class."""
    if dataclasses.is_dataclass(kind):
        return tuple(_dataclass_field(field) for field in dataclasses.fields(kind))
    if isinstance(models := getattr(kind, "model_fields", None), dict):
        named = cast("dict[str, Any]", models)
        return tuple(_model_field(name, field) for name, field in named.items())
    if hasattr(kind, "__attrs_attrs__"):
        return tuple(_attrs_field(attribute) for attribute in kind.__attrs_attrs__)
    defaults: dict[str, Any] = getattr(kind, "_field_defaults", {})
    return tuple(
        Field(name, partial(defaults.get, name) if name in defaults else None, name not in defaults)
        for name in getattr(kind, "_fields", ())
    )


def _dataclass_field(field: dataclasses.Field[Any]) -> Field:
    if field.default is not dataclasses.MISSING:
        return Field(field.name, lambda: field.default, is_required=False)
    if field.default_factory is not dataclasses.MISSING:
        return Field(field.name, field.default_factory, is_required=False)
    return Field(field.name, None, is_required=field.init)


def _model_field(name: str, field: Any) -> Field:
    default = partial(field.get_default, call_default_factory=True)
    is_required: bool = field.is_required()
    return Field(name, None if is_required else default, is_required, bool(field.exclude))


def _attrs_field(field: Any) -> Field:
    factory = getattr(field.default, "factory", None)
    if factory is not None:
        return Field(field.name, None if field.default.takes_self else factory, is_required=False)
    has_default = type(field.default).__name__ != "_Nothing"
    return Field(
        field.name,
        (lambda: field.default) if has_default else None,
        is_required=not has_default and field.init,
    )


@cache
def type_hints(kind: type[Any]) -> dict[str, Any]:
    """Return the types of a class's fields, if its annotations can be evaluated."""
    try:
        return typing.get_type_hints(kind)
    except Exception:  # noqa: BLE001  an annotation for type checkers only
        return {}


def named_type(hint: Any) -> Any:
    """Return the type in a hint such as `Customer | None`; None for other unions."""
    if typing.get_origin(hint) not in {typing.Union, types.UnionType}:
        return hint
    kinds = [argument for argument in typing.get_args(hint) if argument is not type(None)]
    return kinds[0] if len(kinds) == 1 else None


def origin_of(hint: Any) -> Any:
    """Return the class that a hint names, such as `list` for `list[str]`."""
    named = named_type(hint)
    return typing.get_origin(named) or named


def item_hint(hint: Any, kind: Any) -> Any:
    """Return the type of a hint's items or dict values, or None."""
    named = named_type(hint)
    if typing.get_origin(named) is not kind:
        return None
    arguments = typing.get_args(named)
    if kind is dict:
        return arguments[1]
    return arguments[0] if len(arguments) == 1 or arguments[1:] == (...,) else None


_JSON_HINTS: Final = {None, Any, object, dict, list, str, int, float, bool, type(None)}


def is_json_hint(hint: Any) -> bool:
    """Return whether a hint names nothing but JSON, such as `dict[str, Any]` or None."""
    try:
        if hint in _JSON_HINTS:
            return True
    except TypeError:  # not hashable
        return False
    is_union = typing.get_origin(hint) in {typing.Union, types.UnionType}
    if not is_union and typing.get_origin(hint) not in {dict, list}:
        return False
    return all(map(is_json_hint, typing.get_args(hint)))


def is_named_by(hint: Any, kind: type[Any]) -> bool:
    """Return whether a hint, such as `Customer | None`, names this class."""
    return origin_of(hint) is kind
