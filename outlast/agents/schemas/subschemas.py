"""Changes of all schemas in a JSON Schema."""

from collections.abc import Callable
from typing import Any

from outlast.agents.json_values import is_list, is_object
from outlast.loop.values import JsonObject

_BY_NAME = frozenset({
    "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies",
})  # fmt: skip
_SUBSCHEMAS = frozenset({
    "items", "prefixItems", "additionalItems", "contains", "unevaluatedItems",
    "additionalProperties", "propertyNames", "unevaluatedProperties", "allOf", "anyOf", "oneOf",
    "not", "if", "then", "else", "contentSchema",
})  # fmt: skip


def with_subschemas(schema: Any, change: Callable[[JsonObject], JsonObject]) -> Any:
    """Return a JSON Schema in which each schema is changed, the inner ones first.

    Values stay as they are: defaults, constants, choices. So do properties and definitions that
    are called like a keyword.
    """
    if is_list(schema):
        return [with_subschemas(one, change) for one in schema]
    if not is_object(schema):
        return schema
    inner: JsonObject = {}
    for keyword, value in schema.items():
        if keyword in _BY_NAME and is_object(value):
            inner[keyword] = {name: with_subschemas(one, change) for name, one in value.items()}
        else:
            inner[keyword] = with_subschemas(value, change) if keyword in _SUBSCHEMAS else value
    return change(inner)
