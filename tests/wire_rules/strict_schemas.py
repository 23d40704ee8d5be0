"""The subset of JSON Schema that strict tools and answers can have."""

from collections.abc import Iterator
from typing import Any

from tests.wire_rules.found import Found, fields_of, list_of, objects, text_of

_UNSUPPORTED = (
    "allOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas",
    "patternProperties", "unevaluatedProperties", "propertyNames", "contains", "prefixItems",
)  # fmt: skip
_MOST = {"properties": 5_000, "levels": 10, "enum values": 1_000, "characters": 120_000}


def check_strict(found: Found, schema: object, where: str) -> None:
    """Check a schema that is sent with `strict: true`."""
    root = fields_of(schema)
    resolved = _resolved(root, root)
    is_object = resolved.get("type") == "object" and "anyOf" not in resolved
    found.check(is_object, "strict-schema", where, "the root is no object")
    sizes = dict.fromkeys(_MOST, 0)
    for path, part, level in _parts(root, (), 1):
        for fault in _faults(part, root):
            found.add("strict-schema", where, f"{'/'.join(path)} {fault}".strip())
        _count(part, level, sizes)
    for name, most in _MOST.items():
        found.check(sizes[name] <= most, "strict-schema-size", where, f"{sizes[name]} {name}")


def _faults(part: dict[str, Any], root: dict[str, Any]) -> Iterator[str]:
    for name in _UNSUPPORTED:
        if name in part:
            yield f"has {name!r}"
    if "$ref" in part:
        if not _resolved(part, root):
            yield f"refers to {part['$ref']!r}, which is not there"
        return
    if not part.keys() & {"type", "anyOf", "enum", "const", *_UNSUPPORTED}:
        yield "has no type"
    if _is_type(part, "object") or "properties" in part:
        if part.get("additionalProperties") is not False:
            yield "does not set additionalProperties to false"
        if set(map(text_of, list_of(part.get("required")))) != set(
            fields_of(part.get("properties"))
        ):
            yield "does not require each property"
    if _is_type(part, "array") and not isinstance(part.get("items"), dict):
        yield "has no items"


def _is_type(part: dict[str, Any], name: str) -> bool:
    return part.get("type") == name or name in list_of(part.get("type"))


def _resolved(part: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    for _ in range(10):
        if "$ref" not in part:
            return part
        target: object = root
        for name in text_of(part["$ref"]).removeprefix("#").strip("/").split("/"):
            if name:
                target = fields_of(target).get(name)
        part = fields_of(target)
    return {}


def _parts(
    part: dict[str, Any], path: tuple[str, ...], level: int
) -> Iterator[tuple[tuple[str, ...], dict[str, Any], int]]:
    yield path, part, level
    for name in ("properties", "$defs", "definitions"):
        deeper = level + 1 if name == "properties" else level
        for key, member in fields_of(part.get(name)).items():
            for inner in objects([member]):
                yield from _parts(inner, (*path, name, key), deeper)
    for inner in objects([part.get("items")]):
        yield from _parts(inner, (*path, "items"), level)
    for position, member in enumerate(objects(part.get("anyOf"))):
        yield from _parts(member, (*path, "anyOf", str(position)), level)


def _count(part: dict[str, Any], level: int, sizes: dict[str, int]) -> None:
    properties, values = fields_of(part.get("properties")), list_of(part.get("enum"))
    named = [
        *properties,
        *fields_of(part.get("$defs")),
        *values,
        *([part["const"]] if "const" in part else []),
    ]
    sizes["properties"] += len(properties)
    sizes["enum values"] += len(values)
    sizes["characters"] += sum(len(text_of(one)) for one in named)
    if properties:
        sizes["levels"] = max(sizes["levels"], level)
