"""How a tool's arguments are filled from what the customer said and what tools have answered.

Owns: which words belong to a parameter of which name and type. Must not know: which tool is
called when.
"""

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import cast

from outlast.dev.offline_language import Goal
from outlast.dev.offline_phrases import money, read_output
from outlast.dev.offline_request import Call, Tool
from outlast.loop.values import Json, JsonObject

_MAX_WORDS = 300
_TOTALS = ("refundable", "total", "amount", "total_amount", "price")
_TEXTS = {
    *("reason", "note", "comment", "message", "description", "summary", "details"),
    *("question", "topic", "query", "request", "text", "input"),
}


def fill(tool: Tool, goal: Goal, calls: Sequence[Call]) -> tuple[JsonObject, list[str]]:
    """Return arguments for a tool, and the names of required parameters nobody has named.

    A parameter that may be null is null when nothing is known; one with a default is left out.
    """
    arguments: JsonObject = {}
    missing: list[str] = []
    required = set(cast("list[str]", tool.parameters.get("required") or []))
    properties = cast("dict[str, JsonObject]", tool.parameters.get("properties") or {})
    for name, schema in properties.items():
        types, variant, nullable = _types(schema, tool.parameters)
        must = name in required and not nullable and "default" not in schema
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
        value = _value(words, goal, calls, must=must)
        value = None if value is None else _typed(value, types, variant, words)
        if value is not None:
            arguments[name] = value
        elif name in required and nullable:
            arguments[name] = None
        elif name in required and "default" in schema:
            arguments[name] = schema["default"]
        elif must:
            missing.append(name)
    return arguments, missing


def _value(name: str, goal: Goal, calls: Sequence[Call], *, must: bool) -> Json:
    """Return what is known for a parameter of this name, before its type is looked at."""
    parts = set(name.split("_"))
    if parts & {"address", "destination"}:
        return goal.address
    if parts & {"amount", "sum", "price", "value"}:
        return goal.amount if goal.amount is not None or not must else _total(goal, calls)
    if parts & _TEXTS:
        words = " ".join(goal.words.split())[:_MAX_WORDS]
        return goal.reason or (words if must else None)
    if known := _known(name, goal, calls):
        return known
    if parts & {"order", "orders", "invoice"} or name in ("id", "number", "reference"):
        return goal.order
    return None


def _known(name: str, goal: Goal, calls: Sequence[Call]) -> Json:
    """Return a field of this very name from what tools have answered about the order."""
    if "order" in name:
        return None
    for fields in _answers(goal, calls):
        if fields.get(name) is not None:
            return fields[name]
    return None


def _total(goal: Goal, calls: Sequence[Call]) -> Decimal | None:
    amounts = (money(fields, _TOTALS) for fields in _answers(goal, calls))
    return next((amount for amount in amounts if amount is not None), None)


def _answers(goal: Goal, calls: Sequence[Call]) -> list[JsonObject]:
    """Return the fields of what was answered about the goal's order, the newest first."""
    if goal.order is None:
        return []
    about = [
        call
        for call in calls
        if goal.order in [str(value).lstrip("#").upper() for value in call.arguments.values()]
    ]
    return [read_output(call.output, of_action=False).fields for call in reversed(about)]


def _types(schema: JsonObject, root: JsonObject) -> tuple[list[str], JsonObject, bool]:
    """Return a schema's type names, the variant that is not null, and whether null is allowed."""
    reference = schema.get("$ref")
    if isinstance(reference, str):
        found: Json = root
        for part in reference.removeprefix("#/").split("/"):
            found = cast("JsonObject", found).get(part, {})
        schema = {**cast("JsonObject", found), **{k: v for k, v in schema.items() if k != "$ref"}}
    variants = cast("list[JsonObject]", schema.get("anyOf") or schema.get("oneOf") or [])
    if variants:
        read = [_types(variant, root) for variant in variants]
        types = [name for names, _, _ in read for name in names]
        not_null = [variant for names, variant, _ in read if names]
        return types, not_null[0] if not_null else schema, any(nullable for _, _, nullable in read)
    kind = schema.get("type", "string")
    names = [kind] if isinstance(kind, str) else cast("list[str]", kind)
    return [name for name in names if name != "null"], schema, "null" in names


def _typed(value: Json, types: Sequence[str], schema: JsonObject, name: str) -> Json:
    """Return a value in one of a parameter's types, or None where it fits none."""
    if isinstance(value, Decimal):
        value = value * 100 if "cents" in name or "minor" in name else value
        if "number" in types:
            return int(value) if value == value.to_integral_value() else float(value)
        if "integer" in types:
            return int(value)
        return f"{value:.2f}" if "string" in types else None
    if "integer" in types and "string" not in types:
        digits = re.sub(r"\D", "", str(value))
        return int(digits) if digits else None
    choices = cast("list[Json]", schema.get("enum") or [])
    if choices:
        said = str(value).lower()
        return next((c for c in choices if str(c).lower().replace("_", " ") in said), None)
    if "array" in types and "string" not in types:
        return cast("list[Json]", value) if isinstance(value, list) else [value]
    return value if "string" in types or not isinstance(value, str) else None
