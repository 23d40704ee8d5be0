"""A strict schema is closed, complete, and holds only what the Responses API accepts."""

import copy
import json
from typing import Any

import pytest

from outlast.agents.errors import UserError
from outlast.agents.schemas.strict_schema import ensure_strict_json_schema, strict_schema

JsonObject = dict[str, Any]


def strict_property(schema: JsonObject) -> JsonObject:
    """Return the strict form of one property's schema."""
    whole = {"type": "object", "properties": {"p": schema}}
    return strict_schema(whole, owner="Tool 't'")["properties"]["p"]


@pytest.mark.parametrize(
    ("loose", "strict"),
    [
        pytest.param({"type": "string", "title": "P"}, {"type": "string"}, id="title goes"),
        pytest.param(
            {"type": "string", "description": "d", "pattern": "^a", "format": "date"},
            {"type": "string", "description": "d", "pattern": "^a", "format": "date"},
            id="known keywords stay",
        ),
        pytest.param(
            {"type": "integer", "minimum": 1, "exclusiveMaximum": 9, "multipleOf": 2},
            {"type": "integer", "minimum": 1, "exclusiveMaximum": 9, "multipleOf": 2},
            id="bounds stay",
        ),
        pytest.param(
            {"type": "integer", "default": 5, "description": "How many."},
            {"type": "integer", "description": "How many. (default: 5)"},
            id="a default is told",
        ),
        pytest.param(
            {"type": "boolean", "default": False},
            {"type": "boolean", "description": "(default: false)"},
            id="a false default is told",
        ),
        pytest.param(
            {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
            id="null stays possible and is no news",
        ),
        pytest.param(
            {"type": "string", "minLength": 1, "maxLength": 9, "format": "uri"},
            {"type": "string", "minLength": 1, "maxLength": 9, "description": '(format: "uri")'},
            id="refused narrowing is told, and limits of length stay",
        ),
        pytest.param(
            {"type": "string", "pattern": "^(?!-)a"},
            {"type": "string", "description": '(pattern: "^(?!-)a")'},
            id="a pattern that looks around is told",
        ),
        pytest.param(
            {"type": "string", "pattern": r"^\(?=a"},
            {"type": "string", "pattern": r"^\(?=a"},
            id="a pattern with an escaped parenthesis stays",
        ),
        pytest.param(
            {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "maxItems": 3},
            {
                "type": "array",
                "items": {"type": "string"},
                "maxItems": 3,
                "description": "(uniqueItems: true)",
            },
            id="a set is an array",
        ),
        pytest.param(
            {"enum": ["a", None, 1, True, 1.5]},
            {
                "enum": ["a", None, 1, True, 1.5],
                "type": ["string", "null", "integer", "boolean", "number"],
            },
            id="a mixed enum gets its types",
        ),
        pytest.param({"const": "a"}, {"const": "a", "type": "string"}, id="const gets its type"),
        pytest.param(
            {"oneOf": [{"type": "string"}, {"type": "integer"}], "discriminator": {"x": "y"}},
            {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            id="oneOf becomes anyOf",
        ),
        pytest.param(
            {"allOf": [{"type": "string", "description": "a"}], "description": "b"},
            {"type": "string", "description": "b"},
            id="allOf of one is merged",
        ),
        pytest.param(
            {
                "type": "object",
                "properties": {},
                "allOf": [{"type": "object", "properties": {"a": {"type": "string"}}}],
            },
            {
                "type": "object",
                "properties": {"a": {"type": "string"}},
                "required": ["a"],
                "additionalProperties": False,
            },
            id="allOf of one keeps its properties",
        ),
        pytest.param(
            {"type": "object", "allOf": [{"$ref": "#/properties/q"}]},
            {"$ref": "#/properties/q"},
            id="a reference says the type",
        ),
        pytest.param(
            {"properties": {"a": {"type": "string"}}},
            {
                "type": "object",
                "properties": {"a": {"type": "string"}},
                "required": ["a"],
                "additionalProperties": False,
            },
            id="what has properties is an object",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": False},
            {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
            id="a closed object may have no keys",
        ),
        pytest.param(
            {"type": ["string", "null"], "examples": ["x"], "deprecated": True},
            {"type": ["string", "null"]},
            id="annotations go",
        ),
        pytest.param(
            {"type": "object", "properties": {"title": {"type": "string", "title": "Title"}}},
            {
                "type": "object",
                "properties": {"title": {"type": "string"}},
                "required": ["title"],
                "additionalProperties": False,
            },
            id="a property may be called like a keyword",
        ),
        pytest.param(
            {
                "type": ["object", "null"],
                "properties": {
                    "a": {"type": "array", "items": {"type": "object", "properties": {}}}
                },
                "required": [],
            },
            {
                "type": ["object", "null"],
                "properties": {
                    "a": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {},
                            "required": [],
                            "additionalProperties": False,
                        },
                    }
                },
                "required": ["a"],
                "additionalProperties": False,
            },
            id="objects inside arrays inside objects are closed",
        ),
    ],
)
def test_every_kind_of_schema_has_its_strict_form(loose: JsonObject, strict: JsonObject) -> None:
    assert strict_property(loose) == strict


TREE: JsonObject = {
    "$defs": {
        "Node": {
            "type": "object",
            "title": "Node",
            "properties": {
                "name": {"type": "string", "default": "x"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
                "colour": {"$ref": "#/$defs/Colour", "default": "red"},
            },
        },
        "Colour": {"enum": ["red", "blue"], "type": "string"},
        "Unused": {"type": "string"},
    },
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/Node", "description": "The tree."}},
}


def test_definitions_are_strict_too_and_references_stand_alone() -> None:
    strict = strict_schema(TREE, owner="Tool 't'")

    assert strict == {
        "type": "object",
        "properties": {"root": {"anyOf": [{"$ref": "#/$defs/Node"}], "description": "The tree."}},
        "required": ["root"],
        "additionalProperties": False,
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": '(default: "x")'},
                    "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
                    "colour": {
                        "anyOf": [{"$ref": "#/$defs/Colour"}],
                        "description": '(default: "red")',
                    },
                },
                "required": ["name", "children", "colour"],
                "additionalProperties": False,
            },
            "Colour": {"enum": ["red", "blue"], "type": "string"},
        },
    }


def test_doing_it_twice_changes_nothing_and_the_argument_is_left_alone() -> None:
    before = copy.deepcopy(TREE)

    once = strict_schema(TREE, owner="Tool 't'")

    assert before == TREE
    assert strict_schema(once, owner="Tool 't'") == once


def test_an_older_schema_with_definitions_is_taken() -> None:
    older = json.loads(json.dumps(TREE).replace("$defs", "definitions"))

    strict = strict_schema(older, owner="Tool 't'")

    assert set(strict["definitions"]) == {"Node", "Colour"}


def test_a_root_that_is_a_reference_is_replaced_by_what_it_names() -> None:
    strict = strict_schema(
        {"$ref": "#/$defs/Node", "$defs": TREE["$defs"]}, owner="Output type 'Node'"
    )

    assert strict["type"] == "object"
    assert list(strict["properties"]) == ["name", "children", "colour"]
    assert set(strict["$defs"]) == {"Node", "Colour"}


@pytest.mark.parametrize(
    "root",
    [
        pytest.param({"properties": {"a": {"type": "string"}}}, id="says no type"),
        pytest.param(
            {
                "type": "object",
                "properties": {},
                "allOf": [{"properties": {"a": {"type": "string"}}}],
            },
            id="wraps one schema",
        ),
        pytest.param(
            {
                "allOf": [{"$ref": "#/$defs/Outer"}],
                "$defs": {
                    "Outer": {"type": "object", "allOf": [{"$ref": "#/$defs/Inner"}]},
                    "Inner": {"type": "object", "properties": {"a": {"type": "string"}}},
                },
            },
            id="wraps references",
        ),
    ],
)
def test_a_root_in_other_words_keeps_its_properties(root: JsonObject) -> None:
    strict = strict_schema(root, owner="Tool 't'")

    assert strict == {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": False,
    }


def test_definitions_that_nothing_leads_to_are_left_out() -> None:
    schema: JsonObject = {"type": "object", "properties": {}, "$defs": TREE["$defs"]}

    assert "$defs" not in strict_schema(schema, owner="Tool 't'")


@pytest.mark.parametrize("empty", [{}, {"type": "object"}, {"type": "object", "properties": {}}])
def test_an_empty_root_is_an_object_without_keys(empty: JsonObject) -> None:
    assert strict_schema(empty, owner="Tool 't'") == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        pytest.param({}, "'p' accepts any value", id="Any"),
        pytest.param({"description": "d"}, "'p' accepts any value", id="described Any"),
        pytest.param(True, "'p' accepts any value", id="true"),
        pytest.param({"type": "array"}, r"'p\[\]' accepts any value", id="bare list"),
        pytest.param({"type": "array", "items": {}}, r"'p\[\]' accepts any value", id="list[Any]"),
        pytest.param({"type": "object"}, "'p' accepts any keys", id="bare object"),
        pytest.param(
            {"type": "object", "additionalProperties": True}, "'p' accepts any keys", id="dict"
        ),
        pytest.param(
            {"type": "object", "additionalProperties": {"type": "string"}},
            "'p' accepts any keys",
            id="dict[str, str]",
        ),
        pytest.param(
            {"type": "object", "properties": {}, "additionalProperties": True},
            "'p' accepts any keys",
            id="model that allows extra keys",
        ),
        pytest.param(
            {"type": "object", "patternProperties": {"^x": {"type": "string"}}},
            "'p' accepts any keys",
            id="patternProperties",
        ),
        pytest.param(
            {"type": "array", "prefixItems": [{"type": "string"}]}, "'p' is a tuple", id="tuple"
        ),
        pytest.param(
            {"allOf": [{"type": "string"}, {"type": "integer"}]}, "'p' uses 'allOf'", id="allOf"
        ),
        pytest.param({"not": {"type": "string"}}, "'p' uses 'not'", id="not"),
        pytest.param({"type": "string", "if": {}}, "'p' uses 'if'", id="if"),
        pytest.param(
            {"anyOf": [{"type": "string"}, {"type": "object", "additionalProperties": True}]},
            "'p' accepts any keys",
            id="in a union",
        ),
        pytest.param(
            {
                "type": "object",
                "properties": {"q": {"type": "array", "items": {"type": "object"}}},
            },
            r"'p\.q\[\]' accepts any keys",
            id="deep inside",
        ),
    ],
)
def test_what_cannot_be_strict_is_refused_with_the_place_and_the_fix(
    schema: JsonObject, why: str
) -> None:
    with pytest.raises(UserError, match=rf"^Tool 't': {why}.*strict_mode=False"):
        strict_property(schema)


def test_what_cannot_be_strict_in_a_definition_is_named_by_the_definition() -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {"f": {"$ref": "#/$defs/Filter"}},
        "$defs": {"Filter": {"type": "object", "properties": {"by": {}}}},
    }

    with pytest.raises(UserError, match=r"'Filter\.by' accepts any value"):
        strict_schema(schema, owner="Tool 't'")


@pytest.mark.parametrize(
    "root",
    [
        {"type": "array"},
        {"anyOf": []},
        {"$ref": "#/$defs/Gone"},
        {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}},
    ],
)
def test_a_root_that_is_no_object_is_refused(root: JsonObject) -> None:
    with pytest.raises(UserError, match="the schema is not an object"):
        strict_schema(root, owner="Tool 't'")


def test_a_schema_that_was_made_by_hand_becomes_strict() -> None:
    made = ensure_strict_json_schema({"type": "object", "properties": {"a": {"type": "string"}}})
    assert (made["required"], made["additionalProperties"]) == (["a"], False)
    with pytest.raises(UserError, match=r"^The schema"):
        ensure_strict_json_schema({"type": "object", "additionalProperties": {"type": "string"}})


def test_a_schema_that_is_nested_too_deeply_is_a_user_error() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(20_000):
        schema = {"type": "object", "properties": {"inner": schema}}

    with pytest.raises(UserError, match="Tool 'dig': the schema is too deeply nested") as caught:
        strict_schema(schema, owner="Tool 'dig'")

    assert caught.value.__suppress_context__


def test_a_schema_by_hand_may_be_of_any_type_and_must_be_a_dict() -> None:
    names = {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}}
    assert ensure_strict_json_schema(names)["items"]["required"] == ["a"]
    schema: Any = []
    with pytest.raises(TypeError, match="The schema must be a dict"):
        ensure_strict_json_schema(schema)


def test_a_reference_may_name_a_definition_with_a_slash() -> None:
    leaf = {"type": "object", "properties": {"a": {"type": "string"}}}
    root = {"allOf": [{"$ref": "#/$defs/a~1b~0c"}], "$defs": {"a/b~c": leaf}}
    assert ensure_strict_json_schema(root)["required"] == ["a"]
    nested = {"type": "object", "properties": {"x": {"$ref": "#/$defs/a~1b~0c"}}}
    strict = ensure_strict_json_schema({**nested, "$defs": {"a/b~c": leaf}})
    assert list(strict["$defs"]) == ["a/b~c"]
