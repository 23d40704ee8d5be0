"""Schemas of arguments without the validators of users' types.

Validators are user code, which may have effects. So a call's arguments are checked without them
when it is planned, before a person decides about it.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

from pydantic_core import SchemaError, SchemaSerializer, SchemaValidator

from outlast.agents.logs import get_logger

logger: Final = get_logger(__name__)

_KEPT: Final = frozenset(
    {"cls", "config", "default", "expected", "function", "members", "ref", "serialization"}
)
"""The keys of a schema whose values hold no schemas."""

_DROPPED: Final = frozenset({"computed_fields", "metadata", "serialization"})
"""The keys of a schema that check nothing, and may hold user code; older versions need the rest."""

_OF_FIELD: Final = frozenset({"schema", "validation_alias", "serialization_alias"})
"""The keys of a field that a key of a dict has, too."""


def _unchanged(value: Any) -> Any:
    return value


def _inner(value: Any, handler: Callable[[Any], Any]) -> Any:
    return handler(value)


_INSTEAD: Final[dict[str, Callable[..., Any]]] = {
    "function-after": _unchanged,
    "function-before": _unchanged,
    "function-plain": _unchanged,
    "function-wrap": _inner,
}
"""What takes the place of a validator, by the type of its schema."""


class Shape:
    """A schema without user code, in which classes are dicts."""

    def __init__(self, schema: Any) -> None:
        self.validator: SchemaValidator = SchemaValidator(schema)
        self.serializer: SchemaSerializer = SchemaSerializer(schema)


def shape_of(schema: Any, owner: str) -> Shape | None:
    """Return a schema without user code; None if it has none, or if it cannot do without."""
    copier = _Copier()
    copied = copier.copy(schema)
    if not copier.has_found:
        return None
    try:
        return Shape(copied)
    except SchemaError as error:
        logger.warning("%s: its validators run before a person decides: %s", owner, error)
        return None


class _Copier:
    """Copies a schema without user code, and notes whether there was any."""

    has_found = False

    def copy(self, node: Any) -> Any:
        if isinstance(node, list | tuple):
            return type(cast("Any", node))(self.copy(one) for one in cast("list[Any]", node))
        if not isinstance(node, dict):
            return node
        fields = cast("dict[str, Any]", node)
        if not isinstance(fields.get("type"), str):  # a schema for each name
            return {name: self.copy(one) for name, one in fields.items()}
        copied = {
            key: value if key in _KEPT else self.copy(value)
            for key, value in fields.items()
            if key not in _DROPPED or (key == "serialization" and _is_pydantics(value))
        }
        if copied["type"] in {"model", "dataclass"}:
            self.has_found |= bool(fields.get("custom_init") or fields.get("post_init"))
            return _without_class(copied)
        if copied["type"] in {"model-fields", "dataclass-args"}:
            return _as_dict(copied)
        return self._without_code(copied)

    def _without_code(self, copied: dict[str, Any]) -> dict[str, Any]:
        kind = copied["type"]
        if kind in _INSTEAD and _is_users(copied["function"]["function"]):
            copied["function"] = {"type": "no-info", "function": _INSTEAD[kind]}
        elif kind == "default" and _is_users(copied.get("default_factory")):
            del copied["default_factory"]
            copied |= {"default": None, "validate_default": False}
        else:
            return copied
        self.has_found = True
        return copied


def _without_class(copied: dict[str, Any]) -> dict[str, Any]:
    inner: dict[str, Any] = copied["schema"]
    whole = inner
    while "schema" in inner and inner["type"] != "typed-dict":  # the validators of the class
        inner = inner["schema"]
    config = copied.get("config")
    if inner["type"] == "typed-dict" and config is not None:
        inner["config"] = config
        if "extra_fields_behavior" in config:  # only the validator reads the configuration
            inner.setdefault("extra_behavior", config["extra_fields_behavior"])
    return {**whole, "ref": copied["ref"]} if "ref" in copied else whole


def _as_dict(copied: dict[str, Any]) -> dict[str, Any]:
    found: Any = copied["fields"]
    if copied["type"] == "dataclass-args":
        found = {one["name"]: one for one in found}
    fields: dict[str, Any] = found
    kept = {key: copied[key] for key in ("extra_behavior", "extras_schema") if key in copied}
    return {
        "type": "typed-dict",
        "fields": {name: _key(one) for name, one in fields.items()},
        **kept,
    }


def _key(field: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in field.items() if key in _OF_FIELD}
    required = field["schema"]["type"] != "default"
    return {"type": "typed-dict-field", "required": required, **kept}


def _is_pydantics(serialization: dict[str, Any]) -> bool:
    holds_schemas = {"schema", "return_schema"} & serialization.keys()
    return not holds_schemas and not _is_users(serialization.get("function"))


def _is_users(function: Any) -> bool:
    while isinstance(function, partial):
        function = cast("Any", function.func)
    if function is None:
        return False
    module: object = getattr(function, "__module__", None) or type(function).__module__
    package = str(module).partition(".")[0]
    return package not in {"pydantic", "pydantic_core"} and package not in sys.stdlib_module_names
