"""Signatures become JSON Schemas, and arguments are held to them."""

import dataclasses
import datetime as dt
import decimal
import enum
import functools
import json
import logging
import sqlite3
import uuid
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field, PositiveInt
from typing_extensions import TypedDict

from outlast.agents.context.wrapper import ToolContext
from outlast.agents.errors import ModelBehaviorError, UserError
from outlast.agents.schemas.function_schema import FunctionSchema, function_schema
from outlast.agents.schemas.strict_schema import strict_schema


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Item(BaseModel):
    sku: str
    quantity: PositiveInt = 1


class Node(BaseModel):
    name: str
    children: "list[Node]" = []


@dataclasses.dataclass
class Address:
    street: str
    postcode: str | None = None


class Filters(TypedDict, total=False):
    since: dt.date


def schema_of(function: Callable[..., Any], **options: Any) -> FunctionSchema:
    return function_schema(function, name="t", **options)


STRING = {"type": "string"}
NULL = {"type": "null"}


def required(a: str) -> None: ...
def with_default(a: int = 5) -> None: ...
def optional(a: str | None = None) -> None: ...
def literal(a: Literal["x", "y"]) -> None: ...
def enumeration(a: Colour = Colour.RED) -> None: ...
def listing(a: list[str]) -> None: ...
def date(a: dt.datetime) -> None: ...
def constrained(a: Annotated[int, Field(ge=1, le=9)]) -> None: ...
def described(a: Annotated[str, "The text."]) -> None: ...
def described_by_field(a: Annotated[str, "Unused.", Field(description="The text.")]) -> None: ...
def field_default(a: int = Field(5, ge=1, description="The text.")) -> None: ...
def variadic(*a: int) -> None: ...
def union(a: int | str) -> None: ...


@pytest.mark.parametrize(
    ("function", "expected", "needed"),
    [
        (required, STRING, True),
        (with_default, {"type": "integer", "default": 5}, False),
        (optional, {"anyOf": [STRING, NULL], "default": None}, False),
        (literal, {"type": "string", "enum": ["x", "y"]}, True),
        (enumeration, {"$ref": "#/$defs/Colour", "default": "red"}, False),
        (listing, {"type": "array", "items": STRING}, True),
        (date, {"type": "string", "format": "date-time"}, True),
        (constrained, {"type": "integer", "minimum": 1, "maximum": 9}, True),
        (described, {"type": "string", "description": "The text."}, True),
        (described_by_field, {"type": "string", "description": "The text."}, True),
        (
            field_default,
            {"type": "integer", "minimum": 1, "default": 5, "description": "The text."},
            False,
        ),
        (variadic, {"type": "array", "items": {"type": "integer"}}, False),
        (union, {"anyOf": [{"type": "integer"}, STRING]}, True),
    ],
)
def test_a_parameter_has_the_schema_of_its_annotation(
    function: Callable[..., Any], expected: dict[str, Any], needed: bool
) -> None:
    schema = schema_of(function).params_json_schema

    assert schema["properties"] == {"a": expected}
    assert schema.get("required", []) == (["a"] if needed else [])
    assert schema["additionalProperties"] is False
    assert "title" not in schema


def nested(item: Item, address: Address, filters: Filters, tree: Node) -> None: ...


def test_models_dataclasses_and_typed_dicts_are_objects() -> None:
    schema = schema_of(nested).params_json_schema

    assert set(schema["$defs"]) == {"Item", "Address", "Filters", "Node"}
    assert schema["$defs"]["Address"]["properties"]["street"] == STRING
    assert schema["$defs"]["Filters"]["properties"] == {
        "since": {"type": "string", "format": "date"}
    }
    strict = strict_schema(schema, owner="Tool 't'")
    assert all(entry["additionalProperties"] is False for entry in strict["$defs"].values())


def find(
    customer: str,
    limit: Annotated[int, "Not this one."] = 3,
    page: Annotated[int, Field(description="Nor this.")] = 1,
    size: int = Field(10, description="A page's."),
    *args: str,
) -> None:
    """Find orders.

    Args:
        customer: Whose orders.
        limit: At most.
        page: Which part.
        args: The words.
    """


def test_descriptions_come_from_the_docstring_before_those_that_a_parameter_has() -> None:
    schema = schema_of(find)

    assert schema.description == "Find orders."
    assert {
        name: entry["description"]
        for name, entry in schema.params_json_schema["properties"].items()
    } == {
        "customer": "Whose orders.",
        "limit": "At most.",
        "page": "Which part.",
        "size": "A page's.",
        "args": "The words.",
    }


def test_the_docstring_may_be_left_unread() -> None:
    schema = schema_of(find, use_docstring_info=False)

    assert schema.description == ""
    properties = schema.params_json_schema["properties"]
    assert "description" not in properties["customer"]
    assert properties["limit"]["description"] == "Not this one."


def awkward(schema: str, copy: str, model_config: str, _hidden: str, arg_0: str = "x") -> str:
    return schema + copy + model_config + _hidden + arg_0


def test_names_that_pydantic_keeps_for_itself_are_fine() -> None:
    schema = schema_of(awkward)

    assert list(schema.params_json_schema["properties"]) == [
        "schema",
        "copy",
        "model_config",
        "_hidden",
        "arg_0",
    ]
    given = {"schema": "a", "copy": "b", "model_config": "c", "_hidden": "d"}
    positional, named = schema.arguments(None, json.dumps(given))
    assert awkward(*positional, **named) == "abcdx"


def test_a_field_may_give_the_argument_another_name() -> None:
    def between(from_: Annotated[str, Field(alias="from")]) -> None: ...

    schema = schema_of(between)

    assert list(schema.params_json_schema["properties"]) == ["from"]
    assert schema.arguments(None, '{"from": "x"}') == (("x",), {})


def test_defaults_that_json_cannot_express_are_left_out_and_used_all_the_same() -> None:
    sentinel = object()

    def function(limit: float = float("inf"), marker: object = sentinel) -> None: ...

    schema = schema_of(function, strict=False)

    assert schema.params_json_schema["properties"] == {"limit": {"type": "number"}, "marker": {}}
    assert schema.arguments(None, "{}") == ((float("inf"), sentinel), {})


def typed(
    ctx: ToolContext[Any],
    day: dt.date,
    price: decimal.Decimal,
    key: uuid.UUID,
    colour: Colour,
    item: Item,
    address: Address,
    filters: Filters,
    *rest: int,
    note: str | None = None,
    **more: float,
) -> None: ...


def test_arguments_arrive_as_the_annotated_types() -> None:
    schema = schema_of(typed, strict=False)

    positional, named = schema.arguments(
        "context",
        """{"day": "2026-01-02", "price": "1.50", "key": "00000000-0000-0000-0000-000000000001",
        "colour": "blue", "item": {"sku": "s"}, "address": {"street": "x"},
        "filters": {"since": "2026-01-01"}, "rest": [1, 2], "more": {"x": 1}}""",
    )

    assert positional == (
        "context",
        dt.date(2026, 1, 2),
        decimal.Decimal("1.50"),
        uuid.UUID(int=1),
        Colour.BLUE,
        Item(sku="s", quantity=1),
        Address("x"),
        {"since": dt.date(2026, 1, 1)},
        1,
        2,
    )
    assert named == {"note": None, "x": 1.0}


def order(
    order_id: str, items: list[Item], address: Address | None = None, amount: float = 1.0
) -> None: ...


FITTING = [
    '{"order_id": "a", "items": []}',
    '{"order_id": "a", "items": [{"sku": "s", "quantity": 2}], "address": null, "amount": 3}',
    ' {"order_id": "a", "items": [], "address": {"street": "x", "postcode": null}} ',
]


@pytest.mark.parametrize("arguments", FITTING)
def test_arguments_that_fit_are_let_through_also_without_those_that_have_a_default(
    arguments: str,
) -> None:
    assert schema_of(order).check(arguments) is None


PREFIX = "Invalid JSON input for tool t: "
UNFIT = [
    ("{", PREFIX + "EOF while parsing an object at line 1 column 1."),
    ("order_id=a", PREFIX + "expected value at line 1 column 1."),
    ('{"order_id": "\\ud800", "items": []}', PREFIX + ""),
    ("\ud800", PREFIX + ""),
    ("[" * 10_000, PREFIX + "recursion limit exceeded"),
    ('{"order_id": "a", "items": [], "amount": NaN}', PREFIX + ""),
    ('{"order_id": "a", "items": [], "amount": "NaN"}', "amount: Input should be a finite number"),
    ('{"order_id": "a", "items": [], "amount": 1e999}', "amount: Input should be a finite number"),
    ("[]", PREFIX + "expected a JSON object."),
    ("null", PREFIX + "expected a JSON object."),
    ('"text"', PREFIX + "expected a JSON object."),
    (
        "",
        PREFIX + "order_id is required; items is required.",
    ),
    (
        '{"order_id": 7, "items": [{"quantity": 0}, 3], "address": {"town": "x"}, "colour": "red"}',
        PREFIX + "order_id: Input should be a valid string; "
        "items[0].sku is required; items[0].quantity: Input should be greater than 0; "
        "items[1]: Input should be an object; "
        "address.street is required; address.town is not allowed; colour is not allowed.",
    ),
    ('{"order_id": "a", "items": [], "ctx": {}}', "ctx is not allowed."),
    ('{"order_id": "a", "items": [], "arg_2": {}}', "arg_2 is not allowed."),
]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_json_is_refused_where_any_value_would_do(number: str) -> None:
    def keep(note: dict[str, Any]) -> None: ...

    schema = schema_of(keep)
    arguments = f'{{"note": {{"deep": [{number}]}}}}'
    assert str(schema.check(arguments)).startswith(PREFIX)
    with pytest.raises(ModelBehaviorError, match="Invalid JSON input"):
        schema.read(arguments)
    assert schema.check(f'{{"note": {{"deep": ["{number}"]}}}}') is None


@pytest.mark.parametrize(
    ("arguments", "expected"), UNFIT, ids=[f"unfit {index}" for index in range(len(UNFIT))]
)
def test_arguments_that_do_not_fit_are_answered_with_what_is_wrong(
    arguments: str, expected: str
) -> None:
    schema = schema_of(order)

    sentence = schema.check(arguments)

    assert sentence is not None
    assert expected in sentence
    with pytest.raises(ModelBehaviorError) as caught:
        schema.arguments(None, arguments)
    assert caught.value.message == sentence


def test_a_sentence_is_never_long_and_never_repeats_a_value() -> None:
    secret = "s3cr3t" * 1000
    arguments = json.dumps({f"{index}": secret for index in range(500)})

    sentence = schema_of(order).check(arguments)

    assert sentence is not None
    assert "s3cr3t" not in sentence
    assert sentence.endswith("and 492 more.")
    assert len(sentence) < 1000


def breaks(value: str) -> str:
    raise RuntimeError(value)


def test_a_validator_that_breaks_is_logged_and_refuses_the_arguments(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def function(a: Annotated[str, AfterValidator(breaks)]) -> None: ...

    with (
        caplog.at_level(logging.ERROR),
        pytest.raises(ModelBehaviorError, match=r"of t could not be checked\. Try other"),
    ):
        schema_of(function).read('{"a": "xyz"}')
    assert "could not be checked" in caplog.text


def tenant_scoped(tenant: str, query: str, **filters: str) -> None: ...


@pytest.mark.parametrize(
    ("arguments", "altered"),
    [
        ({"flag": True, "amount": 5, "price": 1.5, "items": [{"sku": "a", "quantity": 2}]}, ""),
        ({"colour": "red", "note": "short"}, ""),
        ({}, ""),
        ({"flag": 1}, "flag"),
        ({"flag": "yes", "amount": "5", "colour": "red"}, "flag, amount"),
        ({"price": "1.50"}, ""),
        ({"items": [{"sku": "a"}]}, "items"),
        ({"items": [{"sku": "a", "quantity": True}]}, "items"),
        ({"note": " padded "}, "note"),
        ({"at": "2026-01-31T09:30+00:00"}, ""),
        ({"at": "2026-01-31T09:30:00.000Z"}, ""),
        ({"at": "2026-01-31 09:30:00"}, "at"),
        ({"at": "1769851800"}, "at"),
        ({"tags": ["c", "b", "a", "d", "f", "e"]}, ""),
        ({"tags": ["a", "a"]}, "tags"),
    ],
)
def test_arguments_that_arrive_otherwise_than_they_are_written_are_known(
    arguments: Any, altered: str
) -> None:
    def act(
        flag: bool = False,
        amount: float = 0,
        price: decimal.Decimal | None = None,
        items: list[Item] = [],  # noqa: B006  nothing changes it
        colour: Colour = Colour.BLUE,
        note: Annotated[str, AfterValidator(str.strip)] = "",
        at: dt.datetime | None = None,
        tags: frozenset[str] = frozenset(),
    ) -> None:
        """Take whatever there is."""

    schema = function_schema(act, name="act")
    assert schema.altered(json.dumps(arguments)) == altered
    assert schema.read(json.dumps(arguments)).find_altered() == altered


def test_without_strict_mode_arguments_that_a_model_makes_up_are_left_out() -> None:
    def function(query: str) -> None: ...

    loose, strict = schema_of(function, strict=False), schema_of(function)

    assert "additionalProperties" not in loose.params_json_schema
    assert loose.arguments(None, '{"query": "q", "page": 2}') == (("q",), {})
    assert strict.check('{"query": "q", "page": 2}') is not None


def test_what_may_have_been_meant_for_free_keywords_is_not_left_out() -> None:
    schema = schema_of(tenant_scoped, strict=False)

    arguments = '{"tenant": "t", "query": "q", "page": "2"}'
    assert schema.check(arguments) == "Invalid JSON input for tool t: page is not allowed."


@pytest.mark.parametrize("taken", ["tenant", "query"])
def test_free_keywords_cannot_take_the_place_of_a_parameter(taken: str) -> None:
    schema = schema_of(functools.partial(tenant_scoped, tenant="mine"), strict=False)
    arguments = json.dumps({"query": "q", "filters": {taken: "theirs"}})

    assert schema.check(arguments) == (
        f"Invalid JSON input for tool t: filters must not hold {taken}."
    )


def free(**a: int) -> None: ...


def test_strict_mode_needs_to_know_the_keys() -> None:
    with pytest.raises(UserError, match=r"^Tool 't': '\*\*a' accepts any keys.*strict_mode=False"):
        schema_of(free)
    assert schema_of(free, strict=False).check('{"a": {"x": 1}}') is None


def connection(db: sqlite3.Connection) -> None: ...
def callback(db: Callable[[int], int]) -> None: ...


@pytest.mark.parametrize(
    ("function", "shown"), [(connection, "Connection"), (callback, "Callable[[int], int]")]
)
def test_a_type_that_a_model_cannot_give_is_refused_with_the_parameter(
    function: Callable[..., Any], shown: str
) -> None:
    with pytest.raises(UserError) as caught:
        schema_of(function)

    assert caught.value.message.startswith(
        f"Tool 't': a model cannot supply parameter 'db' ({shown}"
    )
    assert caught.value.message.endswith("take the value from the context or a functools.partial.")


def test_an_unannotated_neighbour_does_not_hide_the_parameter_at_fault() -> None:
    def function(db: Any, cursor: sqlite3.Cursor) -> None: ...

    del function.__annotations__["db"]

    with pytest.raises(UserError, match="cannot supply parameter 'cursor'"):
        schema_of(function, strict=False)


def test_a_field_that_does_not_fit_its_annotation_is_refused() -> None:
    def function(a: int = Field(1, discriminator="kind")) -> None: ...

    with pytest.raises(UserError, match=r"^Tool 't': its parameters have no JSON Schema: .*union"):
        schema_of(function)
