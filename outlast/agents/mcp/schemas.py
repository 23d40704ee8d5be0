"""Input schemas of MCP tools in the form that providers accept.

A provider refuses the whole request for one schema that it cannot read, so each question would fail.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, Final, cast

from outlast.agents.json_values import is_list, is_object
from outlast.loop.values import JsonObject

_CHOICES: Final = ("anyOf", "oneOf")
_REFUSED: Final = (*_CHOICES, "allOf", "not", "enum", "const", "if", "then", "else")
"""What providers refuse at the root of a tool's parameters, with the whole request."""

_REFERENCE: Final = "#/"


def root_object(schema: JsonObject) -> JsonObject:
    """Return a schema whose root is an object with properties, and nothing that is refused.

    The properties of all forms are offered, and those are required that all forms require. Keywords
    whose values cannot be read are left out. The server checks the arguments in any case. The schema
    itself does not change.
    """
    made = _readable(deepcopy(schema))
    made["type"] = "object"
    forms = {key: made.pop(key) for key in _REFUSED if key in made}
    if "$ref" in made:
        forms["allOf"] = [*_listed(forms.get("allOf")), {"$ref": made.pop("$ref")}]
    properties = made.get("properties")
    made["properties"] = (
        dict(cast("JsonObject", properties)) if isinstance(properties, dict) else {}
    )
    required = _names(made.get("required"))
    for key in (*_CHOICES, "allOf"):
        branches = [_resolved(one, made) for one in _listed(forms.get(key))]
        for branch in branches:
            own = branch.get("properties")
            for name, value in cast("JsonObject", own).items() if isinstance(own, dict) else ():
                made["properties"].setdefault(name, value)
        needed = [_names(branch.get("required")) for branch in branches]
        if key == "allOf":
            required += [name for names in needed for name in names]
        elif needed:
            required += [name for name in needed[0] if all(name in one for one in needed)]
    if forms and any(_listed(forms.get(key)) for key in (*_CHOICES, "allOf")):
        if made.get("additionalProperties") is False:
            del made["additionalProperties"]
        made["required"] = list(dict.fromkeys(required))
    return made


def _readable(schema: JsonObject, depth: int = 0) -> JsonObject:
    """Return a schema without keywords that have values which no schema may have."""
    made: JsonObject = {}
    for key, value in schema.items():
        fits = _FITS.get(key)
        if fits is not None and not fits(value):
            continue
        made[key] = value
        if depth >= MOST_LEVELS:
            continue
        if key in _OF_SCHEMAS:
            fields = cast("JsonObject", value).items()
            made[key] = {
                name: _readable_form(one, depth) for name, one in fields if _is_schema(one)
            }
        elif key in _ONE_SCHEMA:
            made[key] = _readable_form(value, depth)
        elif key in _LISTS:
            made[key] = [_readable_form(one, depth) for one in _listed(value) if _is_schema(one)]
            if not made[key]:
                del made[key]
    return made


def _readable_form(form: Any, depth: int) -> Any:
    return _readable(cast("JsonObject", form), depth + 1) if isinstance(form, dict) else form


def _is_schema(value: Any) -> bool:
    return isinstance(value, dict | bool)


def _is_type(value: Any) -> bool:
    listed = _listed(value) if isinstance(value, list) else [value]
    return bool(listed) and all(one in _TYPES for one in listed)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in _listed(value))


def _is_full_list(value: Any) -> bool:
    return bool(_listed(value))


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


MOST_LEVELS: Final = 50
"""How deep a schema is looked at."""

_TYPES: Final = ("object", "array", "string", "number", "integer", "boolean", "null")
_OF_SCHEMAS: Final = ("properties", "$defs", "definitions", "patternProperties")
_ONE_SCHEMA: Final = ("items", "additionalProperties", "not")
_LISTS: Final = ("anyOf", "oneOf", "allOf")
_FITS: Final[dict[str, Callable[[Any], bool]]] = {
    "type": _is_type,
    "required": _is_names,
    "enum": _is_full_list,
    **dict.fromkeys(_LISTS, _is_full_list),
    **dict.fromkeys(_OF_SCHEMAS, _is_object),
}
"""The keywords whose values are looked at."""


def _resolved(branch: Any, root: JsonObject) -> JsonObject:
    """Return a form, or the definition that it refers to."""
    found: Any = branch
    reference = found.get("$ref") if is_object(found) else None
    if isinstance(reference, str) and reference.startswith(_REFERENCE):
        found = root
        for part in reference.removeprefix(_REFERENCE).split("/"):
            found = found.get(part) if is_object(found) else None
    return found if is_object(found) else {}


def _listed(value: Any) -> Sequence[Any]:
    return value if is_list(value) else []


def _names(value: Any) -> list[str]:
    return [one for one in _listed(value) if isinstance(one, str)]
