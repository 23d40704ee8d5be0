"""The subset of JSON Schema that strict tools and answers can have."""

from collections.abc import Iterator
from typing import Any, cast

from tests.wire_rules.found import Found, objects

_UNSUPPORTED = (
    "allOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas",
    "patternProperties", "unevaluatedProperties", "propertyNames", "contains", "prefixItems",
)  # fmt: skip
_MOST = {"properties": 5_000, "levels": 10, "enum values": 1_000, "characters": 120_000}


def check_strict(found: Found, schema: object, where: str) -> None:
    """Check a schema that is sent with `strict: true`."""
    if not isinstance(schema, dict):
        found.add("strict-schema", where, "no object")
        return
    root = cast("dict[str, Any]", schema)
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
        properties = cast("dict[str, Any]", part.get("properties") or {})
        if set(part.get("required") or ()) != set(properties):
            yield "does not require each property"
    if _is_type(part, "array") and not isinstance(part.get("items"), dict):
        yield "has no items"


def _is_type(part: dict[str, Any], name: str) -> bool:
    kind = part.get("type")
    return kind == name or (isinstance(kind, list) and name in cast("list[object]", kind))


def _resolved(part: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    for _ in range(10):
        if "$ref" not in part:
            return part
        target: Any = root
        for name in str(part["$ref"]).removeprefix("#").strip("/").split("/"):
            if name:
                target = (
                    cast("dict[str, Any]", target).get(name) if isinstance(target, dict) else None
                )
        part = cast("dict[str, Any]", target) if isinstance(target, dict) else {}
    return {}


def _parts(
    part: dict[str, Any], path: tuple[str, ...], level: int
) -> Iterator[tuple[tuple[str, ...], dict[str, Any], int]]:
    yield path, part, level
    for name in ("properties", "$defs", "definitions"):
        members = part.get(name)
        if isinstance(members, dict):
            deeper = level + 1 if name == "properties" else level
            for key, member in cast("dict[str, Any]", members).items():
                if isinstance(member, dict):
                    yield from _parts(cast("dict[str, Any]", member), (*path, name, key), deeper)
    if isinstance(part.get("items"), dict):
        yield from _parts(part["items"], (*path, "items"), level)
    for position, member in enumerate(objects(part.get("anyOf"))):
        yield from _parts(member, (*path, "anyOf", str(position)), level)


def _count(part: dict[str, Any], level: int, sizes: dict[str, int]) -> None:
    names = [*(part.get("properties") or ()), *(part.get("$defs") or ())]
    values = [*(part.get("enum") or ()), *([part["const"]] if "const" in part else ())]
    sizes["properties"] += len(part.get("properties") or ())
    sizes["enum values"] += len(part.get("enum") or ())
    sizes["characters"] += sum(len(str(one)) for one in (*names, *values))
    if part.get("properties"):
        sizes["levels"] = max(sizes["levels"], level)
