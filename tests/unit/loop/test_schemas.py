"""Which values fit a JSON Schema, and what people read about those that do not."""

from typing import Any

import pytest

from outlast.loop.schemas import problem_of
from outlast.loop.values import Json

TREE: dict[str, Any] = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"left": {"$ref": "#/$defs/node"}, "n": {"type": "integer"}},
            "required": ["n"],
        },
        "a/b~c": {"type": "string"},
    },
}
ADDRESS: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "lines": {"items": {"type": "string"}}},
    "required": ["city"],
    "additionalProperties": False,
}

FITS: list[tuple[Json, Any]] = [
    ("anything", {}),
    (None, {"type": "null"}),
    (True, {"type": "boolean"}),
    (3, {"type": "integer"}),
    (3.0, {"type": "integer"}),
    (3, {"type": "number"}),
    ("x", {"type": ["null", "string"]}),
    ([], {"type": "array"}),
    ({}, {"type": "object"}),
    ("x", {"type": "unheard of"}),
    ("b", {"enum": ["a", "b"]}),
    (1, {"const": 1}),
    (1, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
    (1, {"oneOf": [{"type": "string"}, {"type": "integer"}]}),
    (1, {"allOf": [{"type": "integer"}, {"minimum": 1}]}),
    (1, {"anyOf": []}),
    (True, {"minimum": 7}),
    (5, {"minimum": 5, "maximum": 5}),
    (5, {"exclusiveMinimum": 4, "exclusiveMaximum": 6}),
    (5, {"minimum": "five", "maximum": True}),
    ("abc", {"minLength": 3, "maxLength": 3}),
    ("abc", {"minLength": None, "maxLength": "2"}),
    ([1, 2], {"minItems": 2, "maxItems": 2}),
    ([1, 2], {"minItems": "3", "items": True}),
    ({"city": "Ulm"}, ADDRESS),
    ({"city": "Ulm", "lines": ["a"]}, ADDRESS),
    ({"more": 1}, {"additionalProperties": {"type": "integer"}}),
    ({"more": 1}, {"properties": {}}),
    ({"n": 1, "left": {"n": 2}}, TREE),
    ("x", {"$ref": "#/$defs/a~1b~0c", "$defs": TREE["$defs"]}),
    (3, {"$ref": "https://example.com/schema"}),
    (3, {"$ref": "#/$defs/missing", "$defs": {}}),
    (3, {"$ref": "#/$defs/x/y", "$defs": {"x": True}}),
    (3, {"$ref": "#"}),
    (1, {"format": "email", "pattern": "^a$"}),
]

FITS_NOT: list[tuple[Json, Any, str]] = [
    (1, {"type": "string"}, "The value must be of type string."),
    (True, {"type": "integer"}, "The value must be of type integer."),
    (3.5, {"type": "integer"}, "The value must be of type integer."),
    ("3", {"type": "number"}, "The value must be of type number."),
    (True, {"type": "number"}, "The value must be of type number."),
    (1, {"type": ["null", "string"]}, "The value must be of type null or string."),
    (0, {"type": "boolean"}, "The value must be of type boolean."),
    (0, {"type": "null"}, "The value must be of type null."),
    ({}, {"type": "array"}, "The value must be of type array."),
    ([], {"type": "object"}, "The value must be of type object."),
    (True, {"enum": [1]}, "The value must be one of [1]."),
    (True, {"const": 1}, "The value must be 1."),
    (
        1.5,
        {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "The value fits none of the allowed forms: The value must be of type string.",
    ),
    (1, {"oneOf": [False]}, "The value fits none of the allowed forms: The value is not allowed."),
    (1, {"allOf": [{"type": "integer"}, {"minimum": 2}]}, "The value must be at least 2."),
    (4, {"minimum": 5}, "The value must be at least 5."),
    (6, {"maximum": 5}, "The value must be at most 5."),
    (5, {"exclusiveMinimum": 5}, "The value must be more than 5."),
    (5, {"exclusiveMaximum": 5}, "The value must be less than 5."),
    ("ab", {"minLength": 3}, "The value must have at least 3 characters."),
    ("abcd", {"maxLength": 3}, "The value must have at most 3 characters."),
    ([1], {"minItems": 2}, "The value must have at least 2 entries."),
    ([1, 2], {"maxItems": 1}, "The value must have at most 1 entries."),
    ({}, ADDRESS, "city is missing."),
    ({"city": "Ulm", "zip": 1}, ADDRESS, "zip is not a field of it."),
    ({"city": "Ulm", "lines": ["a", 2]}, ADDRESS, "lines[1] must be of type string."),
    ({"n": 1, "left": {"n": 1, "left": {}}}, TREE, "left.left.n is missing."),
    ({"a": 1}, {"properties": {"a": False}}, "a is not allowed."),
    (
        {"more": "x"},
        {"additionalProperties": {"type": "integer"}},
        "more must be of type integer.",
    ),
    ({"n" * 200: 1}, {"additionalProperties": False}, f"{'n' * 80} is not a field of it."),
    (1, False, "The value is not allowed."),
]


@pytest.mark.parametrize(("value", "schema"), FITS)
def test_a_value_that_fits_has_no_problem(value: Json, schema: Any) -> None:
    assert problem_of(value, schema) is None


@pytest.mark.parametrize(("value", "schema", "problem"), FITS_NOT)
def test_a_value_that_does_not_fit_is_explained(value: Json, schema: Any, problem: str) -> None:
    assert problem_of(value, schema) == problem


def test_a_schema_that_refers_to_itself_for_ever_ends() -> None:
    assert problem_of(1, {"$ref": "#"}) is None
    loop = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    assert problem_of(1, loop) is None


LOOP: dict[str, Any] = {"$ref": "#"}


ENDLESS: list[tuple[Json, dict[str, Any]]] = [
    (1, {"anyOf": [LOOP, LOOP]}),
    (1, {"oneOf": [LOOP, LOOP], "type": "string"}),
    (1, {"allOf": [LOOP, LOOP, LOOP]}),
    ({"a": {"a": {}}}, {"additionalProperties": LOOP, "allOf": [LOOP, LOOP]}),
    ([[]] * 1_000, {"items": {"anyOf": [LOOP] * 1_000}}),
    ([{}] * 30_000, {"items": {"required": [f"{number}" for number in range(30_000)]}}),
    ([1] * 30_000, {"items": {"enum": list(range(2, 30_000))}}),
    ([1] * 30_000, {"items": {"type": ["string"] * 30_000}}),
    ([1] * 30_000, {"items": {"$ref": "#" + "/a" * 100_000}}),
]


@pytest.mark.parametrize(("value", "schema"), ENDLESS)
def test_a_schema_with_more_branches_than_anybody_can_visit_costs_little(
    value: Json, schema: dict[str, Any]
) -> None:
    """Each would take hours, and stall every run of its process."""
    problem_of(value, schema)


def test_a_value_with_more_entries_than_steps_is_accepted_beyond_them() -> None:
    rule = {"items": {"type": "integer"}}
    assert problem_of([1] * 20_000 + ["x"], rule) == "[20000] must be of type integer."
    assert problem_of([1] * 60_000 + ["x"], rule) is None


@pytest.mark.parametrize("word", ["properties", "required", "type", "anyOf", "items", "enum"])
@pytest.mark.parametrize("nonsense", [5, "x", [5, None], {"a": 5}, [[]], None])
def test_a_keyword_of_any_shape_raises_nothing(word: str, nonsense: Any) -> None:
    for value in ({"a": 1}, [1], 1, "x"):
        problem_of(value, {word: nonsense})


def test_a_value_deeper_than_the_bound_is_accepted_below_it() -> None:
    value: Json = {"n": "not a number"}
    for _ in range(60):
        value = {"n": 1, "left": value}
    assert problem_of(value, TREE) is None
