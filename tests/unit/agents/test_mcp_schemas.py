"""Input schemas in the form that providers accept."""

from copy import deepcopy
from typing import Any

import pytest

from outlast.agents.mcp.schemas import root_object

X: dict[str, Any] = {"x": {"type": "string"}}
Y: dict[str, Any] = {"y": {"type": "string"}}


CASES: list[tuple[Any, Any, Any]] = [
    ({}, {}, None),
    ({"type": "object", "properties": X, "required": ["x"]}, X, ["x"]),
    ({"anyOf": [{"properties": X, "required": ["x"]}, {"properties": Y}]}, X | Y, []),
    (
        {
            "oneOf": [
                {"properties": X | Y, "required": ["x", "y"]},
                {"properties": X, "required": ["x"]},
            ]
        },
        X | Y,
        ["x"],
    ),
    (
        {"allOf": [{"properties": X, "required": ["x"]}, {"properties": Y, "required": ["y"]}]},
        X | Y,
        ["x", "y"],
    ),
    (
        {"properties": X, "required": ["x"], "anyOf": [{"required": ["x"]}, {"required": []}]},
        X,
        ["x"],
    ),
    ({"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/no"}, 3]}, X, []),
    ({"anyOf": "none", "properties": 3, "not": {}, "enum": [1]}, {}, None),
    ({"type": "object", "properties": {**X, "required": ["x"]}}, X, None),
    ({"properties": X, "required": True}, X, None),
    ({"$ref": "#/$defs/a", "allOf": [{"properties": Y, "required": ["y"]}]}, Y | X, ["y"]),
]


@pytest.mark.parametrize(("schema", "properties", "required"), CASES)
def test_the_root_is_an_object_with_the_properties_of_all_forms(
    schema: Any, properties: Any, required: Any
) -> None:
    given = {"$defs": {"a": {"properties": X}}, **schema}
    before = deepcopy(given)
    made = root_object(given)
    assert given == before
    assert (made["type"], made["properties"], made.get("required")) == (
        "object",
        properties,
        required,
    )
    assert not made.keys() & {"anyOf", "oneOf", "allOf", "not", "enum"}


def test_what_no_schema_may_have_is_left_out_at_any_depth() -> None:
    inner = {
        "type": "object",
        "properties": {"a": {"type": "string", "required": True}, "b": {"type": "text"}},
    }
    schema: dict[str, Any] = {
        "properties": {
            "list": {"type": "array", "items": {**inner, "enum": []}},
            "either": {"anyOf": [inner, "none"]},
            "neither": {"oneOf": ["none"]},
            "any": True,
            "type": {"type": ["string", "null"], "enum": ["required"]},
        }
    }
    clean = {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}}
    assert root_object(schema)["properties"] == {
        "list": {"type": "array", "items": clean},
        "either": {"anyOf": [clean]},
        "neither": {},
        "any": True,
        "type": {"type": ["string", "null"], "enum": ["required"]},
    }


def test_an_endless_schema_ends() -> None:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(200):
        schema = {"type": "object", "properties": {"x": schema}}
    assert root_object(schema)["type"] == "object"


def test_a_form_may_have_what_the_root_forbids() -> None:
    made = root_object({"additionalProperties": False, "anyOf": [{"properties": X}]})
    assert "additionalProperties" not in made
