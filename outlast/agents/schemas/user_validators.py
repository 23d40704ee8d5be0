"""Whether types of arguments run code of users, and how their arguments are checked without it.

Validators are user code, which may have effects. So where types have some, the arguments of a call
are checked by their JSON Schema when the call is planned, before a person decides about it.
"""

import sys
from functools import partial
from typing import Any, Final, cast

from outlast.agents.json_values import is_object
from outlast.loop.values import JsonObject

_NO_SCHEMAS: Final = frozenset({
    "cls", "computed_fields", "config", "default", "expected", "function", "members", "metadata",
    "ref", "serialization",
})  # fmt: skip
"""The keys of pydantic's core schemas whose values hold no schemas that check anything."""


def runs_user_code(node: Any) -> bool:
    """Whether validating by a core schema of pydantic calls functions of users."""
    if isinstance(node, list | tuple):
        return any(runs_user_code(one) for one in cast("list[Any]", node))
    if not is_object(node):
        return False
    kind = node.get("type")
    if not isinstance(kind, str):  # a schema for each name
        return any(runs_user_code(one) for one in node.values())
    own = node["function"]["function"] if kind.startswith("function-") else None
    has_init = kind in {"model", "dataclass"} and (node.get("custom_init") or node.get("post_init"))
    if has_init or _is_users(own) or _is_users(node.get("default_factory")):
        return True
    return any(runs_user_code(one) for key, one in node.items() if key not in _NO_SCHEMAS)


def _is_users(function: Any) -> bool:
    while isinstance(function, partial):
        function = cast("Any", function.func)
    if function is None:
        return False
    module: object = getattr(function, "__module__", None) or type(function).__module__
    package = str(module).partition(".")[0]
    return package not in {"pydantic", "pydantic_core"} and package not in sys.stdlib_module_names


def lenient(schema: JsonObject) -> JsonObject:
    """Return a schema that also takes numbers and flags as texts, which pydantic converts."""
    kind = schema.get("type")
    return {**schema, "type": [kind, "string"]} if kind in _CONVERTED else schema


_CONVERTED: Final = ("integer", "number", "boolean")
