"""Arguments are checked without users' code, and read with it once."""

import dataclasses
import datetime as dt
import decimal
import functools
import ipaddress
import json
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple, Required

import pytest
from pydantic import (
    AfterValidator,
    AnyUrl,
    BaseModel,
    BeforeValidator,
    Field,
    PlainValidator,
    RootModel,
    SecretStr,
    WrapValidator,
    field_serializer,
    field_validator,
    model_validator,
)
from typing_extensions import TypedDict

from outlast.agents.context.wrapper import ToolContext
from outlast.agents.errors import ModelBehaviorError
from outlast.agents.schemas.function_schema import FunctionSchema, function_schema

RUN: list[str] = []
"""The names of the user code that ran."""


def ran(name: str, value: Any) -> Any:
    RUN.append(name)
    return value


def around(value: Any, handler: Callable[[Any], Any], _info: Any) -> Any:
    return ran("wrap", handler(value))


class Line(BaseModel):
    type: Literal["line"] = "line"
    default: int = Field(ge=1)
    metadata: str = "none"

    @field_validator("default", "metadata")
    @classmethod
    def of_field(cls, value: Any) -> Any:
        return ran("field", value)

    @model_validator(mode="before")
    @classmethod
    def before(cls, value: Any) -> Any:
        return ran("before the model", value)

    @model_validator(mode="after")
    def after(self) -> "Line":
        return ran("after the model", self)

    def model_post_init(self, context: Any, /) -> None:
        del context
        ran("post init", None)

    @field_serializer("metadata")
    def written(self, value: str) -> str:
        return ran("serializer", value)


class Gift(BaseModel):
    type: Literal["gift"] = "gift"
    inside: "list[Gift]" = []

    def __init__(self, **values: Any) -> None:
        super().__init__(**ran("init", values))


@dataclasses.dataclass
class Address:
    street: str

    def __post_init__(self) -> None:
        ran("dataclass", None)


class Spot(NamedTuple):
    x: Annotated[int, AfterValidator(functools.partial(ran, "tuple"))]


Kind = Annotated[Line | Gift, Field(discriminator="type")]


def order(  # noqa: PLR0917  a parameter for each kind of user code
    after: Annotated[int, AfterValidator(functools.partial(ran, "after")), Field(le=9)],
    plain: Annotated[int, PlainValidator(functools.partial(ran, "plain"))],
    before: Annotated[int, BeforeValidator(functools.partial(ran, "before"))],
    wrapped: Annotated[int, WrapValidator(around)],
    line: Line,
    kinds: list[Kind],
    address: Address,
    spot: Spot,
    roots: RootModel[list[Line]],
    made: int = Field(default_factory=lambda: ran("factory", 1)),
) -> None:
    """Order."""


ARGUMENTS: dict[str, Any] = {
    "after": 1,
    "plain": 2,
    "before": 3,
    "wrapped": 4,
    "line": {"default": 1},
    "kinds": [{"type": "line", "default": 1}, {"type": "gift", "inside": [{"inside": []}]}],
    "address": {"street": "High Street"},
    "spot": [1],
    "roots": [{"default": 1}],
}
ALL = {
    *("after", "plain", "before", "wrap", "field", "before the model", "after the model"),
    *("post init", "init", "dataclass", "tuple", "factory"),
}


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    RUN.clear()


def schema_of(function: Callable[..., Any]) -> FunctionSchema:
    schema = function_schema(function, name="t", strict=False)
    RUN.clear()
    return schema


def test_a_check_and_a_comparison_run_no_user_code() -> None:
    schema = schema_of(order)
    assert schema.check(json.dumps(ARGUMENTS)) is None
    assert schema.altered(json.dumps(ARGUMENTS)) == ""  # what `read` changed is compared
    assert RUN == []


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"before": [5]}, "before must be of type integer or string"),
        ({"wrapped": None}, "wrapped must be of type integer or string"),
        ({"line": {"default": 0}}, "line.default must be at least 1"),
        ({"line": {}}, "line.default is missing"),
        ({"kinds": [{"type": "card"}]}, "kinds[0]"),
        ({"kinds": [{"type": "gift", "inside": [{"inside": 5}]}]}, "kinds[0] fits none"),
        ({"address": {}}, "address.street is missing"),
        ({"roots": [{"default": 0}]}, "roots[0].default"),
    ],
)
def test_types_names_and_limits_are_checked_without_user_code(
    wrong: dict[str, Any], problem: str
) -> None:
    sentence = schema_of(order).check(json.dumps({**ARGUMENTS, **wrong}))
    assert sentence is not None
    assert problem in sentence
    assert RUN == []


def test_a_call_runs_each_validator_once() -> None:
    schema, text = schema_of(order), json.dumps(ARGUMENTS)
    context = ToolContext[Any](None, tool_name="t", tool_call_id="c", tool_arguments=text)
    context.arguments_read = schema.read(text)
    assert set(RUN) == ALL
    assert RUN.count("after") == RUN.count("plain") == RUN.count("dataclass") == 1
    before = list(RUN)
    positional, _ = schema.arguments(context, text)
    assert (positional[0], positional[4].default) == (1, 1)
    assert before == RUN


def test_other_arguments_than_those_that_were_read_are_read() -> None:
    def double(
        amount: Annotated[int, AfterValidator(lambda value: ran("double", 2 * value))],
    ) -> None:
        """Double."""

    schema = schema_of(double)
    context = ToolContext[Any](None, tool_name="t", tool_call_id="c", tool_arguments="")
    context.arguments_read = schema.read('{"amount": 1}')
    assert schema.arguments(context, '{"amount": 1}') == ((2,), {})
    assert schema.arguments(context, '{"amount": 5}') == ((10,), {})
    assert schema_of(double).arguments(context, '{"amount": 1}') == ((2,), {})
    assert context.arguments_read.find_altered() == "amount"
    assert schema.altered('{"amount": 1}') == ""


class Extra(BaseModel, extra="allow", str_strip_whitespace=True):
    name: str


class Named(BaseModel):
    long_name: int = Field(alias="longName")


class Branch(TypedDict, total=False):
    leaf: Required[int]
    next: "Branch"


SAME: list[tuple[Any, Any]] = [
    (Extra, {"name": "a", "more": 2}),
    (Extra, {"name": " a "}),
    (Named, {"longName": 3}),
    (Branch, {"leaf": 1, "next": {"leaf": 2}}),
    (decimal.Decimal, "1.50"),
    (dt.datetime, "2026-01-01T00:00:00Z"),
    (frozenset[str], ["b", "a"]),
    (dict[str, list[int | None]], {"a": [1, None]}),
    (ipaddress.IPv4Address, "192.0.2.1"),
    (AnyUrl, "https://example.com/"),
    (SecretStr, "hidden"),
    (int, "500"),
    (Any, {"a": [1]}),
]


@pytest.mark.parametrize(("kind", "value"), SAME, ids=str)
def test_what_validators_may_read_passes_the_check(kind: Any, value: Any) -> None:
    def function(a: Any, own: Annotated[int, AfterValidator(lambda value: value)] = 0) -> None: ...

    function.__annotations__["a"] = kind
    schema, text = schema_of(function), json.dumps({"a": value})
    assert schema.checked_by is not None
    assert schema.check(text) is None
    assert schema.read(text).values["own"] == 0


@pytest.mark.parametrize("text", ["[1]", "{", '{"a": NaN}'])
def test_what_is_no_json_object_is_refused_without_user_code(text: str) -> None:
    sentence = schema_of(order).check(text)
    assert sentence is not None
    assert sentence.startswith("Invalid JSON input for tool t")


def test_arguments_of_types_without_user_code_are_checked_by_their_model() -> None:
    def plain(
        name: str,
        price: Annotated[int, Field(ge=1)],
        note: Annotated[str, AfterValidator(str.strip)],
    ) -> None:
        """Take what Python and pydantic know."""

    schema = schema_of(plain)
    assert schema.checked_by is None
    assert schema.check('{"name": "a", "price": 0, "note": ""}') == (
        "Invalid JSON input for tool t: price: Input should be greater than or equal to 1."
    )


def test_what_validators_refuse_is_told_when_the_call_runs() -> None:
    def refuse(value: str) -> str:
        raise ValueError(f"unknown: {len(value)}")

    def function(a: Annotated[str, AfterValidator(refuse)]) -> None: ...

    schema = schema_of(function)
    assert schema.check('{"a": "xyz"}') is None
    with pytest.raises(ModelBehaviorError) as caught:
        schema.read('{"a": "xyz"}')
    assert caught.value.message == ("Invalid JSON input for tool t: a: Value error, unknown: 3.")
