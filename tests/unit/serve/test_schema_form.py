"""Forms made from JSON Schemas: every value can be shown, and nothing changes by itself."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.agents.errors import UserError
from outlast.loop.approvals import REDACTED
from outlast.serve.pages.page import Form
from outlast.serve.pages.schema_form import (
    ABSENT,
    Field,
    changes,
    form_field,
    parse_json,
    read_form,
)
from tests.hostile_text import JSON_VALUES

ORDER: dict[str, Any] = {
    "type": "object",
    "$defs": {
        "Line": {
            "type": "object",
            "properties": {"sku": {"type": "string"}, "count": {"type": "integer", "minimum": 1}},
            "required": ["sku", "count"],
        }
    },
    "properties": {
        "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "For people."},
        "speed": {"enum": ["slow", "fast"]},
        "gift": {"type": "boolean"},
        "price": {"type": "number"},
        "rest": {},
    },
    "required": ["lines", "note", "speed"],
}
VALUE: dict[str, Any] = {
    "lines": [{"sku": "A", "count": 1}, {"sku": "B", "count": 2}],
    "note": "Two\nlines",
    "speed": "slow",
    "gift": True,
    "price": 1.50,
    "rest": {"deep": [1, None]},
    "unknown": "kept",
}


def sent(made: Field, **changed: str) -> Form:
    """Return what a browser sends of a form, with other values for some of its fields."""
    pairs: list[tuple[str, str]] = []

    def add(one: Field) -> None:
        if one.kind == "array":
            pairs.append((f"{one.name}.count", str(len(one.children))))
        elif one.kind != "object":
            pairs.append((one.name, one.shown.replace("\n", "\r\n")))
        if one.is_nothing:
            pairs.append((f"{one.name}.nothing", "on"))
        for child in one.children:
            add(child)

    add(made)
    named = {name.replace("_", "."): value for name, value in changed.items()}
    return Form([pair for pair in pairs if pair[0] not in named] + list(named.items()))


def entered(schema: Any, value: Any, **changed: str) -> Any:
    return read_form(schema, value, "f", sent(form_field(schema, value, "f"), **changed))


def kinds(made: Field) -> dict[str, str]:
    return {one.label: one.kind for one in made.children}


def test_a_form_has_a_field_for_each_value() -> None:
    made = form_field(ORDER, VALUE, "f")
    assert kinds(made) == {
        "lines": "array",
        "note": "long_text",
        "speed": "choice",
        "gift": "boolean",
        "price": "number",
        "rest": "json",
        "unknown": "json",
    }
    assert [kinds(one) for one in made.children[0].children] == [
        {"sku": "text", "count": "integer"}
    ] * 2
    assert made.children[1].description == "For people."


def test_a_form_that_nobody_touches_changes_nothing() -> None:
    found = entered(ORDER, VALUE)
    assert (found.value, found.problems) == (VALUE, {})
    assert json.dumps(found.value) == json.dumps(VALUE)


@given(
    JSON_VALUES, st.sampled_from([None, ORDER, {"type": "object"}, {"type": ["string", "null"]}])
)
def test_whatever_a_model_wrote_stays_as_it_is(value: Any, schema: Any) -> None:
    found = read_form(schema, value, "f", sent(form_field(schema, value, "f")))
    assert json.dumps(found.value) == json.dumps(value)


def test_fields_are_read_by_their_types() -> None:
    found = entered(
        ORDER,
        VALUE,
        f_0_0_0="C",
        f_0_1_1="7",
        f_1="\\u202e",
        f_2="1",
        f_3="false",
        f_4="2",
        f_5="[1.0]",
    )
    assert found.problems == {}
    assert found.value == {
        "lines": [{"sku": "C", "count": 1}, {"sku": "B", "count": 7}],
        "note": "\u202e",
        "speed": "fast",
        "gift": False,
        "price": 2,
        "rest": [1.0],
        "unknown": "kept",
    }
    assert found.field.children[2].is_changed
    assert not found.field.children[6].is_changed


def test_items_are_added_and_removed() -> None:
    assert entered(ORDER, VALUE, f_0_0_remove="on").value["lines"] == VALUE["lines"][1:]
    form = sent(form_field(ORDER, VALUE, "f"))
    more = read_form(ORDER, VALUE, "f", form, add="f.0")
    assert more.value["lines"] == [*VALUE["lines"], {}]
    assert len(more.field.children[0].children) == 3
    filled = entered(ORDER, VALUE, f_0_count="3", f_0_2_0="C", f_0_2_1="3")
    assert filled.value["lines"][2] == {"sku": "C", "count": 3}
    for count in ("-1", "x", "999999999999", "9999"):
        assert entered(ORDER, VALUE, f_0_count=count).value["lines"] == VALUE["lines"]


def test_a_value_can_be_null_or_left_out() -> None:
    assert entered(ORDER, VALUE, f_1_nothing="on").value["note"] is None
    assert "gift" not in entered(ORDER, VALUE, f_3_nothing="on").value
    empty = {**VALUE, "note": None}
    assert entered(ORDER, empty).value["note"] is None
    assert entered(ORDER, empty, f_1="Hi").value["note"] == "Hi"


def test_what_does_not_fit_is_said_at_its_field() -> None:
    for name, value in (
        ("f_0_0_1", "1.5"),
        ("f_4", "NaN"),
        ("f_4", "much"),
        ("f_2", "7"),
        ("f_5", "{"),
    ):
        found = entered(ORDER, VALUE, **{name: value})
        assert list(found.problems) == [name.replace("_", ".")]
    missing = entered(ORDER, {**VALUE, "lines": [{"sku": "A", "count": 0}]})
    assert list(missing.problems) == ["f"]
    assert "at least" in missing.problems["f"]


def test_hidden_values_stay_hidden_and_can_be_replaced() -> None:
    value = {**VALUE, "price": REDACTED, "note": REDACTED}
    assert entered(None, value).value == value
    found = entered(ORDER, value, f_4="3.5", f_1="new")
    assert (found.value["price"], found.value["note"]) == (3.5, "new")


def test_schemas_of_strangers_end() -> None:
    tree: dict[str, Any] = {
        "type": "object",
        "properties": {f"p{at}": {"$ref": "#"} for at in range(30)},
    }
    made = form_field(tree, ABSENT, "f")
    assert _count(made) < 40_000
    loop: dict[str, Any] = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    assert form_field(loop, {"x": 1}, "f").kind == "json"
    odd: Any = {"type": 5, "properties": [], "enum": {}, "anyOf": "x", "$ref": 3, "required": 1}
    assert form_field(odd, "text", "f").kind == "json"


def _count(one: Field) -> int:
    return 1 + sum(map(_count, one.children))


@pytest.mark.parametrize(
    "text", ["", "{", "NaN", "Infinity", '{"a": }', "[" * 100_000, "[" * 500 + "]" * 500]
)
def test_what_is_no_json_says_so(text: str) -> None:
    with pytest.raises(UserError, match="JSON"):
        parse_json(text)


@pytest.mark.parametrize(
    ("before", "after", "paths"),
    [
        ({"a": 1, "b": [1, {"c": 2}]}, {"a": 1, "b": [1, {"c": 3}]}, ["b[2].c"]),
        ({"a": 1}, {"b": 1}, ["a", "b"]),
        ([1], [1, 2], ["value"]),
        (1, True, ["value"]),
        (1, 1.0, ["value"]),
        (None, {"a": 1}, ["value"]),
        ({"a": [1, 2]}, {"a": [1, 2]}, []),
    ],
)
def test_differences_are_named_by_their_place(before: Any, after: Any, paths: list[str]) -> None:
    assert [one.path for one in changes(before, after)] == paths
