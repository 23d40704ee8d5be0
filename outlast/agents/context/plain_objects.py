"""Contexts of plain classes, neither models nor dataclasses, as JSON and back.

Attributes of a plain class have no declared types, so only values that are JSON already count as
data: texts, numbers, lists, dicts, None.
"""

import dataclasses
import math
import sys
from collections.abc import Container
from copy import deepcopy
from enum import Enum
from typing import Any, cast, is_typeddict

from outlast.agents.errors import UserError
from outlast.loop.values import Json, JsonObject

_HOOKS = ("__pydantic_core_schema__", "__get_pydantic_core_schema__", "__slots__")


def is_plain_class(kind: Any) -> bool:
    """Return whether the attributes of a type's objects are their whole state."""
    if not isinstance(kind, type):
        return False
    kind = cast("type[Any]", kind)
    if kind.__module__.partition(".")[0] in sys.stdlib_module_names:
        return False  # a lock, a thread: its attributes are not its whole state
    if dataclasses.is_dataclass(kind) or is_typeddict(kind) or issubclass(kind, Enum):
        return False
    if any(hasattr(kind, name) for name in _HOOKS):
        return False
    # A subclass of a container, date or number has state besides its attributes.
    return kind.__new__ is object.__new__ and "__dict__" in dir(kind)


def write_attributes(owner: object, besides: Container[str] = ()) -> JsonObject:
    """Return the attributes of an object as JSON, without its live values.

    Raises:
        UserError: an attribute is not JSON. The message names the attribute.
    """
    kind = type(owner).__name__
    data = {name: value for name, value in vars(owner).items() if name not in besides}
    for name, value in data.items():
        if not _is_json(value):
            raise UserError(
                f"The context is a {kind} whose attribute {name!r}, a {type(value).__name__}, "
                "cannot travel with the run: a plain class carries texts, numbers, lists, dicts "
                f"and None. Make {kind} a dataclass or a pydantic model, which know the types of "
                "their fields, and keep connections and clients out of it."
            )
    return deepcopy(data)


def read_attributes(value: Json, kind: type[Any]) -> Any:
    """Return an object with these attributes, without calling its `__init__`.

    Raises:
        UserError: the value is not a JSON object.
    """
    if type(value) is not dict:
        raise UserError(
            f"The run's context does not fit {kind.__name__}: it is {type(value).__name__}. Start "
            "the run with a context of that type, or annotate the callable with the type it gets."
        )
    made: Any = object.__new__(kind)
    made.__dict__.update(deepcopy(cast("JsonObject", value)))
    return made


def _is_json(value: object) -> bool:
    kind: type = type(value)
    if kind is dict:
        entries = cast("dict[object, object]", value)
        return all(type(name) is str and _is_json(one) for name, one in entries.items())
    if kind is list:
        return all(_is_json(one) for one in cast("list[object]", value))
    if kind is float:
        return math.isfinite(cast("float", value))
    return value is None or kind in {str, int, bool}
