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

MOST_STEPS: Final = 50_000
"""How many comparisons one check makes, which takes about 0.1 s. Recorded histories depend on this
number."""

_BOUNDS: Final[tuple[tuple[str, Callable[[Any, Any], bool], str], ...]] = (
    ("minimum", operator.ge, "at least"),
    ("maximum", operator.le, "at most"),
    ("exclusiveMinimum", operator.gt, "more than"),
    ("exclusiveMaximum", operator.lt, "less than"),
)


def problem_of(value: Json, schema: JsonObject) -> str | None:
    """Return a sentence that says where a value does not fit a schema, or None if it fits.

    What is left to check after `MOST_STEPS` is accepted.
    """
    try:
        return next(_Check(schema).problems(value, schema, "", 0), None)
    except _Spent:
        return None


class _Spent(Exception):
    """The check has taken all its steps."""


class _Check:
    """One check: the whole schema, and the steps that are left.

    A tool's server writes the schema. One that refers to itself twice has more branches than any
    check can visit.
    """

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._left = MOST_STEPS

    def _spend(self, steps: int = 1) -> None:
        self._left -= steps
        if self._left < 0:
            raise _Spent

    def _listed(self, value: Any) -> list[Any]:
        """Return a keyword's values; each of them is a step."""
        values = _as_list(value)
        self._spend(len(values))
        return values

    def problems(self, value: Json, schema: Any, path: str, depth: int) -> Iterator[str]:
        """Yield the problems of a value, from the first on."""
        self._spend()
        if schema is False:
            yield f"{path or 'The value'} is not allowed."
        if not isinstance(schema, dict) or depth > _DEEPEST:
            return
        rules = cast("JsonObject", schema)
        where = path or "The value"
        if "$ref" in rules:
            yield from self.problems(value, self._referred(str(rules["$ref"])), path, depth + 1)
        kinds = self._listed(rules.get("type"))
        if rules.get("type") is not None and not any(_is_a(value, kind) for kind in kinds):
            yield f"{where} must be of type {' or '.join(map(str, kinds))[:200]}."
        if "enum" in rules and not any(_equal(value, one) for one in self._listed(rules["enum"])):
            yield f"{where} must be one of {_shown(rules['enum'])}."
        if "const" in rules and not _equal(value, rules["const"]):
            yield f"{where} must be {_shown(rules['const'])}."
        for word, needed in (("anyOf", 1), ("oneOf", 1), ("allOf", 0)):
            yield from self._combined(value, rules.get(word), needed, path, depth)
        yield from _of_number(value, rules, where)
        yield from _of_text(value, rules, where)
        yield from self._of_list(value, rules, path, depth)
        yield from self._of_object(value, rules, path, depth)

    def _combined(
        self, value: Json, options: Any, needed: int, path: str, depth: int
    ) -> Iterator[str]:
        """Yield the problems of `anyOf` and `oneOf` (one has to fit) or `allOf` (all have to)."""
        found = [
            next(self.problems(value, option, path, depth + 1), None)
            for option in self._listed(options)
        ]
        if needed and found and None not in found:
            yield f"{path or 'The value'} fits none of the allowed forms: {found[0]}"
        if not needed:
            yield from (one for one in found if one is not None)

    def _of_list(self, value: Json, rules: JsonObject, path: str, depth: int) -> Iterator[str]:
        if not isinstance(value, list):
            return
        entries = cast("list[Any]", value)
        least, most = rules.get("minItems"), rules.get("maxItems")
        if isinstance(least, int) and len(entries) < least:
            yield f"{path or 'The value'} must have at least {least} entries."
        if isinstance(most, int) and len(entries) > most:
            yield f"{path or 'The value'} must have at most {most} entries."
        for at, entry in enumerate(entries):
            yield from self.problems(entry, rules.get("items"), f"{path}[{at}]", depth + 1)

    def _of_object(self, value: Json, rules: JsonObject, path: str, depth: int) -> Iterator[str]:
        if not isinstance(value, dict):
            return
        fields = cast("JsonObject", value)
        listed: Any = rules.get("properties")
        properties = cast("JsonObject", listed) if isinstance(listed, dict) else {}
        for name in self._listed(rules.get("required")):
            if str(name) not in fields:
                yield f"{_under(path, str(name))} is missing."
        others = rules.get("additionalProperties")
        for name, field in fields.items():
            rule = properties.get(name, others)
            if name not in properties and others is False:
                yield f"{_under(path, name)} is not a field of it."
            else:
                yield from self.problems(field, rule, _under(path, name), depth + 1)

    def _referred(self, reference: str) -> Any:
        """Return the part that `#/$defs/Name` names; a foreign reference accepts all."""
        self._spend(len(reference) // 100)
        found: Any = self._root if reference.startswith("#") else True
        for step in reference.removeprefix("#").strip("/").split("/"):
            if step and isinstance(found, dict):
                name = step.replace("~1", "/").replace("~0", "~")
                found = cast("JsonObject", found).get(name, True)
        return found


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


def _under(path: str, name: str) -> str:
    return f"{path}.{name[:80]}" if path else name[:80]


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
