"""Whether a JSON value fits a JSON Schema, as far as tools' schemas go.

The workflow checks what people enter before it takes it, and a workflow runs no user code and loads
no library; the tool's own check follows when the call runs. What this module does not check, such as
`format` and `pattern`, it accepts.
"""

import operator
from collections.abc import Callable, Iterator
from typing import Any, Final, cast

from outlast.loop.values import Json, JsonObject

_DEEPEST: Final = 40
"""A schema that refers to itself ends here."""

_BOUNDS: Final[tuple[tuple[str, Callable[[Any, Any], bool], str], ...]] = (
    ("minimum", operator.ge, "at least"),
    ("maximum", operator.le, "at most"),
    ("exclusiveMinimum", operator.gt, "more than"),
    ("exclusiveMaximum", operator.lt, "less than"),
)


def problem_of(value: Json, schema: JsonObject) -> str | None:
    """Return a sentence that says where a value does not fit a schema, or None if it fits."""
    return next(_problems(value, schema, schema, "", 0), None)


def _problems(value: Json, schema: Any, root: JsonObject, path: str, depth: int) -> Iterator[str]:
    if schema is False:
        yield f"{path or 'The value'} is not allowed."
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return
    rules = cast("JsonObject", schema)
    where = path or "The value"
    if "$ref" in rules:
        yield from _problems(value, _referred(str(rules["$ref"]), root), root, path, depth + 1)
    kinds = rules.get("type")
    if kinds is not None and not any(_is_a(value, kind) for kind in _as_list(kinds)):
        yield f"{where} must be of type {' or '.join(map(str, _as_list(kinds)))}."
    if "enum" in rules and not any(_equal(value, one) for one in _as_list(rules["enum"])):
        yield f"{where} must be one of {_shown(rules['enum'])}."
    if "const" in rules and not _equal(value, rules["const"]):
        yield f"{where} must be {_shown(rules['const'])}."
    for word, needed in (("anyOf", 1), ("oneOf", 1), ("allOf", 0)):
        yield from _combined(value, rules.get(word), needed, root, path, depth)
    yield from _of_number(value, rules, where)
    yield from _of_text(value, rules, where)
    yield from _of_list(value, rules, root, path, depth)
    yield from _of_object(value, rules, root, path, depth)


def _combined(
    value: Json, options: Any, needed: int, root: JsonObject, path: str, depth: int
) -> Iterator[str]:
    """Yield the problems of `anyOf` and `oneOf` (one has to fit) or `allOf` (all have to)."""
    found = [
        next(_problems(value, option, root, path, depth + 1), None) for option in _as_list(options)
    ]
    if needed and found and None not in found:
        yield f"{path or 'The value'} fits none of the allowed forms: {found[0]}"
    if not needed:
        yield from (one for one in found if one is not None)


def _of_number(value: Json, rules: JsonObject, where: str) -> Iterator[str]:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return
    for word, holds, says in _BOUNDS:
        limit: Any = rules.get(word)
        if _is_a(limit, "number") and not holds(value, limit):
            yield f"{where} must be {says} {limit}."


def _of_text(value: Json, rules: JsonObject, where: str) -> Iterator[str]:
    if not isinstance(value, str):
        return
    least, most = rules.get("minLength"), rules.get("maxLength")
    if isinstance(least, int) and len(value) < least:
        yield f"{where} must have at least {least} characters."
    if isinstance(most, int) and len(value) > most:
        yield f"{where} must have at most {most} characters."


def _of_list(
    value: Json, rules: JsonObject, root: JsonObject, path: str, depth: int
) -> Iterator[str]:
    if not isinstance(value, list):
        return
    entries = cast("list[Any]", value)
    least, most = rules.get("minItems"), rules.get("maxItems")
    if isinstance(least, int) and len(entries) < least:
        yield f"{path or 'The value'} must have at least {least} entries."
    if isinstance(most, int) and len(entries) > most:
        yield f"{path or 'The value'} must have at most {most} entries."
    for at, entry in enumerate(entries):
        yield from _problems(entry, rules.get("items"), root, f"{path}[{at}]", depth + 1)


def _of_object(
    value: Json, rules: JsonObject, root: JsonObject, path: str, depth: int
) -> Iterator[str]:
    if not isinstance(value, dict):
        return
    fields = cast("JsonObject", value)
    properties = cast("JsonObject", rules.get("properties") or {})
    for name in _as_list(rules.get("required")):
        if name not in fields:
            yield f"{_under(path, str(name))} is missing."
    others = rules.get("additionalProperties")
    for name, field in fields.items():
        rule = properties.get(name, others)
        if name not in properties and others is False:
            yield f"{_under(path, name)} is not a field of it."
        else:
            yield from _problems(field, rule, root, _under(path, name), depth + 1)


def _under(path: str, name: str) -> str:
    return f"{path}.{name[:80]}" if path else name[:80]


def _referred(reference: str, root: JsonObject) -> Any:
    """Return the part of a schema that `#/$defs/Name` names; a foreign reference accepts all."""
    found: Any = root if reference.startswith("#") else True
    for step in reference.removeprefix("#").strip("/").split("/"):
        if step and isinstance(found, dict):
            found = cast("JsonObject", found).get(step.replace("~1", "/").replace("~0", "~"), True)
    return found


def _is_a(value: Any, kind: object) -> bool:
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            return is_number and value == value // 1
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case _:
            return True


def _equal(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON; in Python, `True == 1`."""
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _shown(value: Any) -> str:
    return str(value)[:200]
