"""Conversion to strict JSON Schema, the part that a provider can enforce.

In a strict schema, every object at every depth has only named keys, all keys are required, there
are no defaults, and all keywords are ones that the Responses API accepts. Nullable keys stay
nullable. Defaults and unsupported keywords that only narrow a value move into the description for
the model; the validation of the arguments still enforces them.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

from outlast.agents.checks import of_kinds
from outlast.agents.errors import UserError, as_user_error
from outlast.loop.values import JsonObject

# Keywords that hold no schemas and are kept unchanged.
_PLAIN = frozenset({
    "type", "enum", "const", "description", "pattern", "format", "multipleOf", "minimum", "maximum",
    "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems", "minLength", "maxLength",
})  # fmt: skip
# Keywords that move into the description.
_NOTED = ("default", "uniqueItems", "minProperties", "maxProperties")
_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)
_LOOKAROUND = re.compile(r"(?:^|[^\\])(?:\\\\)*\(\?<?[=!]")
_DICT = "accepts any keys (a dict): use a model, dataclass or TypedDict with named fields"
_REFUSED = {
    "prefixItems": "is a tuple with a type for each place: use a list or a model",
    "patternProperties": _DICT,
    "not": "uses 'not'",
    "if": "uses 'if'",
    "dependentRequired": "uses 'dependentRequired'",
    "dependentSchemas": "uses 'dependentSchemas'",
    "contains": "uses 'contains'",
}
_TYPES: dict[type, str] = {
    str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null",
}  # fmt: skip


class NoStrictForm(Exception):
    """A valid schema that strict mode cannot express.

    A tool with such a schema is offered without strict mode. A schema with free keys raises
    `UserError` instead, so that programs learn to name the keys.
    """


_OF_TOOL = "switch strict mode off (strict_mode=False)"


def strict_schema(schema: JsonObject, *, owner: str, way_out: str = _OF_TOOL) -> JsonObject:
    """Return the strict form of an object's schema, without changing the argument.

    The conversion is idempotent. An empty schema becomes the schema of an object without keys.
    `way_out` says in errors how to do without strict mode.
    """
    with as_user_error(NoStrictForm):
        return strict_form(schema, owner=owner, way_out=way_out)


def ensure_strict_json_schema(schema: JsonObject) -> JsonObject:
    """Return the strict form of a schema, for tools that are made by hand.

    Raises:
        UserError: a part of the schema cannot be strict.
        TypeError: the schema is not a dict.
    """
    of_kinds(dict)("The schema", schema)
    if schema.get("type", "object") in _TYPES.values() or schema.get("type") == "array":
        return _Strictness("The schema").node(schema, "")
    return strict_schema(schema, owner="The schema")


def strict_form(schema: JsonObject, *, owner: str, way_out: str = _OF_TOOL) -> JsonObject:
    """Return the strict form of a schema, as `strict_schema` does; raise `NoStrictForm` if none."""
    try:
        return _strict_form(schema, _Strictness(owner, way_out))
    except RecursionError:
        raise UserError(
            f"{owner}: the schema is too deeply nested. Use a model that refers to itself "
            f"($ref), or {way_out}."
        ) from None


def _strict_form(schema: JsonObject, strict: "_Strictness") -> JsonObject:
    root = dict(schema) or {"type": "object"}
    definitions = {key: root.pop(key) for key in ("$defs", "definitions") if key in root}
    root = _root(root, definitions)
    if root.get("type") != "object":
        strict.refuse("", "is not an object, as the root of a strict JSON schema must be")
    root.setdefault("properties", {})
    defined = [(name, entry) for entries in definitions.values() for name, entry in entries.items()]
    result, *forms = strict.nodes([("", root), *defined])
    for key, entries in definitions.items():
        kept = {name: forms.pop(0) for name in entries}
        if kept := _reachable(kept, result, f"#/{key}/"):
            result[key] = kept
    return result


@dataclass(frozen=True, slots=True)
class _Strictness:
    owner: str
    way_out: str = _OF_TOOL

    def refuse(self, path: str, why: str) -> None:
        place = repr(path) if path else "the schema"
        kind = NoStrictForm if path and why is not _DICT else UserError
        raise kind(
            f"{self.owner}: {place} {why}. Strict mode cannot express that; "
            f"change it, or {self.way_out}."
        )

    def nodes(self, places: Iterable[tuple[str, object]]) -> list[JsonObject]:
        """Return the strict forms of several schemas, each passed with its path.

        A `UserError` in any of the schemas takes precedence over `NoStrictForm` in an earlier one.
        """
        forms: list[JsonObject] = []
        formless: NoStrictForm | None = None
        for path, schema in places:
            try:
                forms.append(self.node(schema, path))
            except NoStrictForm as error:
                formless = formless or error
        if formless is not None:
            raise formless
        return forms

    def node(self, schema: object, path: str) -> JsonObject:
        if not isinstance(schema, dict):
            self.refuse(path, "accepts any value: give it a type")
        source = _plain_object(_single_branch(cast(JsonObject, schema)))
        if "$ref" in source:  # the reference implies the type
            source = {key: value for key, value in source.items() if key != "type"}
        for keyword, why in _REFUSED.items():
            if keyword in source:
                self.refuse(path, why)
        if len(source.get("allOf", ())) > 0:
            self.refuse(path, "uses 'allOf' with several schemas")

        result = {key: value for key, value in source.items() if key in _PLAIN}
        branches = source.get("anyOf", source.get("oneOf"))
        if "$ref" in source:
            result["$ref"] = source["$ref"]
        elif branches is not None:
            result["anyOf"] = self.nodes([(path, branch) for branch in branches])
        elif "enum" in source or "const" in source:
            result.setdefault("type", _type_of(source.get("enum", [source.get("const")])))
        elif "type" not in source:
            self.refuse(path, "accepts any value: give it a type")
        self._describe(result, source)
        kinds = source.get("type", ())
        if "object" in kinds:  # `kinds` is one type or a list of types
            self._object(result, source, path)
        if "array" in kinds and "enum" not in source:
            result["items"] = self.node(source.get("items"), f"{path}[]")
        return _apart(result)

    def _object(self, result: JsonObject, source: JsonObject, path: str) -> None:
        if source.get("additionalProperties", False) is not False:
            self.refuse(path, _DICT)
        if "properties" not in source and "additionalProperties" not in source:
            self.refuse(path, _DICT)
        properties: JsonObject = source.get("properties", {})
        prefix = f"{path}." if path else ""
        forms = self.nodes([(f"{prefix}{name}", schema) for name, schema in properties.items()])
        result["properties"] = dict(zip(properties, forms, strict=True))
        result["required"] = list(properties)
        result["additionalProperties"] = False

    @staticmethod
    def _describe(result: JsonObject, source: JsonObject) -> None:
        """Move keywords that strict mode does not support into the description."""
        notes = {key: source[key] for key in _NOTED if source.get(key) is not None}
        if result.get("format", "date") not in _FORMATS:
            notes["format"] = result.pop("format")
        if _LOOKAROUND.search(result.get("pattern", "")):
            notes["pattern"] = result.pop("pattern")
        if notes:
            words = "; ".join(
                f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in notes.items()
            )
            description = result.get("description")
            result["description"] = f"{description} ({words})" if description else f"({words})"


def _root(schema: JsonObject, definitions: dict[str, JsonObject]) -> JsonObject:
    """Return the root schema with its references and single `allOf` resolved."""
    schema = _single_branch(schema)
    seen: set[str] = set()
    while (target := _definition(schema.get("$ref"), definitions)) is not None:
        if schema["$ref"] in seen:  # a cycle of references
            break
        seen.add(schema["$ref"])
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        schema = _single_branch(_merge(target, rest))
    return _plain_object(schema)


def _plain_object(schema: JsonObject) -> JsonObject:
    if "properties" not in schema or not schema.keys().isdisjoint({"type", "$ref", "anyOf"}):
        return schema
    return {"type": "object", **schema}


def _single_branch(schema: JsonObject) -> JsonObject:
    while True:
        branches = schema.get("allOf")
        if not isinstance(branches, list) or len(cast("list[Any]", branches)) != 1:
            return schema
        rest = {key: value for key, value in schema.items() if key != "allOf"}
        schema = _merge(cast("list[JsonObject]", branches)[0], rest)


def _merge(inner: JsonObject, outer: JsonObject) -> JsonObject:
    merged = {**inner, **outer}
    if "properties" in inner and "properties" in outer:
        merged["properties"] = {**inner["properties"], **outer["properties"]}
    return merged


def _apart(schema: JsonObject) -> JsonObject:
    """Return the schema; move a `$ref` with sibling keywords into an `anyOf`."""
    if "$ref" not in schema or len(schema) == 1:
        return schema
    rest = {key: value for key, value in schema.items() if key != "$ref"}
    return {"anyOf": [{"$ref": schema["$ref"]}], **rest}


def _type_of(values: Iterable[object]) -> str | list[str]:
    types = list(dict.fromkeys(_TYPES.get(type(value), "object") for value in values))
    return types[0] if len(types) == 1 else types


def _definition(reference: object, definitions: dict[str, JsonObject]) -> JsonObject | None:
    if not isinstance(reference, str):
        return None
    _, _, path = reference.partition("#/")
    key, _, name = path.partition("/")
    return definitions.get(key, {}).get(_decoded(name))


def _decoded(token: str) -> str:
    """Return the name that a part of a JSON pointer stands for."""
    return token.replace("~1", "/").replace("~0", "~")


def _reachable(entries: dict[str, JsonObject], root: JsonObject, prefix: str) -> JsonObject:
    """Return the definitions that the root refers to; merging may orphan others."""
    found: dict[str, JsonObject] = {}
    waiting: list[Any] = [root]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting.extend(cast("list[Any]", value))
        elif isinstance(value, dict):
            reference = cast(JsonObject, value).get("$ref")
            if isinstance(reference, str):
                name = _decoded(reference.removeprefix(prefix))
                if name in entries and name not in found:
                    found[name] = entries[name]
                    waiting.append(entries[name])
            waiting.extend(cast(JsonObject, value).values())
    return {name: entries[name] for name in entries if name in found}
