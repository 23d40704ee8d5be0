"""Output types become schemas, read what models write, and travel as JSON."""

import enum
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from operator import itemgetter
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, field_serializer, field_validator
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from outlast.agents.errors import ModelBehaviorError, UserError
from outlast.agents.schemas.agent_output import (
    AgentOutputSchema,
    AgentOutputSchemaBase,
    check_output_schema,
    check_output_type,
    output_schema_of,
    read_output,
    write_output,
)
from outlast.loop.values import Json, JsonObject


class Kind(enum.Enum):
    RAIN = "rain"
    SUN = "sun"


class Weather(BaseModel):
    city: str
    degrees: int
    kind: Kind = Kind.SUN


class Order(TypedDict):
    number: int
    lines: list[str]


@dataclass
class Point:
    x: int
    day: date


class Row(BaseModel):
    model_config = ConfigDict(serialize_by_alias=True)

    row_id: int = Field(validation_alias="rowId", serialization_alias="ROW")


class Cities(RootModel[list[str]]):
    pass


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Tree(BaseModel):
    name: str
    parts: "list[Tree]" = []


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]
DAY = date(2026, 5, 12)

VALUES: list[tuple[Any, str, Any]] = [
    # what the agent declares; what the model writes; the value
    (
        Weather,
        '{"city": "Bonn", "degrees": 9, "kind": "rain"}',
        Weather(city="Bonn", degrees=9, kind=Kind.RAIN),
    ),
    (Order, '{"number": 1, "lines": ["a"]}', {"number": 1, "lines": ["a"]}),
    (Row, '{"rowId": 3}', Row.model_validate({"rowId": 3})),
    (
        Tree,
        '{"name": "a", "parts": [{"name": "b", "parts": []}]}',
        Tree(name="a", parts=[Tree(name="b")]),
    ),
    (
        list[Weather],
        '{"response": [{"city": "Ulm", "degrees": 1}]}',
        [Weather(city="Ulm", degrees=1)],
    ),
    (Point, '{"response": {"x": 1, "day": "2026-05-12"}}', Point(x=1, day=DAY)),
    (int, '{"response": 7}', 7),
    (bool, '{"response": true}', True),
    (float, '{"response": 7}', 7.0),
    (Decimal, '{"response": "1.50"}', Decimal("1.50")),
    (int | None, '{"response": null}', None),
    (str | int, '{"response": "7"}', "7"),
    (Literal["a", "b"], '{"response": "b"}', "b"),
    (Kind, '{"response": "rain"}', Kind.RAIN),
    (Pet, '{"response": {"kind": "dog"}}', Dog(kind="dog")),
    (Cities, '{"response": ["Ulm"]}', Cities(["Ulm"])),
    (set[int], '{"response": [1, 2]}', {1, 2}),
    (Annotated[list[int], ["unhashable"]], '{"response": [1]}', [1]),
]
values = pytest.mark.parametrize(
    ("output_type", "written", "value"), VALUES, ids=[str(row[0]) for row in VALUES]
)


def schema_of(output_type: Any) -> AgentOutputSchemaBase:
    schema = output_schema_of(output_type)
    assert schema is not None
    return schema


@values
def test_what_a_model_writes_becomes_a_value_of_the_type(
    output_type: Any, written: str, value: Any
) -> None:
    read = schema_of(output_type).validate_json(written)
    assert read == value
    assert type(read) is type(value)


@values
def test_a_value_is_the_same_after_it_travelled_as_json(
    output_type: Any, written: str, value: Any
) -> None:
    schema = schema_of(output_type)
    travelled = json.loads(json.dumps(write_output(schema, value)))
    rebuilt = read_output(schema, travelled)
    assert rebuilt == value
    assert type(rebuilt) is type(value)


@values
def test_what_is_no_object_is_wrapped_in_one_and_the_schema_is_strict(
    output_type: Any, written: str, value: Any
) -> None:
    schema = schema_of(output_type)
    described = schema.json_schema()
    assert schema.is_strict_json_schema()
    assert not schema.is_plain_text()
    assert described["type"] == "object"
    assert described["additionalProperties"] is False
    assert described["required"] == list(described["properties"])
    wrapped = list(json.loads(written)) == ["response"]
    assert (list(described["properties"]) == ["response"]) is wrapped


def test_the_schema_is_what_the_type_says() -> None:
    assert schema_of(Order).json_schema() == {
        "type": "object",
        "properties": {
            "number": {"type": "integer"},
            "lines": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["number", "lines"],
        "additionalProperties": False,
    }
    assert schema_of(list[int]).json_schema()["properties"] == {
        "response": {"type": "array", "items": {"type": "integer"}}
    }


def test_a_schema_has_the_types_name() -> None:
    assert schema_of(list[Weather]).name() == "list[Weather]"


def test_text_has_no_schema() -> None:
    assert output_schema_of(None) is None
    assert output_schema_of(str) is None
    assert output_schema_of(AgentOutputSchema(str)) is None
    text = AgentOutputSchema(str)
    assert text.is_plain_text()
    for ask in (text.json_schema, lambda: text.validate_json("hi")):
        with pytest.raises(UserError, match="plain text"):
            ask()
    assert text.read_value(text.write_value("hi")) == "hi"


def test_a_type_gives_the_same_schema_each_time() -> None:
    assert output_schema_of(list[Weather]) is output_schema_of(list[Weather])


def test_strict_takes_no_other_type_and_non_strict_coerces() -> None:
    with pytest.raises(ModelBehaviorError, match=r"does not fit int: response: .*integer"):
        schema_of(int).validate_json('{"response": "1"}')
    with pytest.raises(ModelBehaviorError, match="degrees"):
        schema_of(Weather).validate_json('{"city": "Bonn", "degrees": "9"}')

    relaxed = AgentOutputSchema(int, strict_json_schema=False)
    assert relaxed.validate_json('{"response": "1"}') == 1
    assert not relaxed.is_strict_json_schema()
    assert output_schema_of(relaxed) is relaxed


class Secretive(BaseModel):
    code: str

    @field_validator("code")
    @classmethod
    def check(cls, code: str) -> str:
        if code.startswith("x"):
            raise PydanticCustomError("bad_code", "code {code} is bad", {"code": code})
        if code.startswith("y"):
            raise ValueError(f"{code} is bad")
        return code


@pytest.mark.parametrize(
    ("output_type", "written", "message"),
    [
        (Weather, "hunter2", r"does not fit Weather: it is not JSON\.$"),
        (Weather, "", r"it is not JSON"),
        (Weather, "[]", r"fit Weather: the whole value: "),
        (Weather, '{"degrees": "hunter2"}', r"city is missing; degrees: .*integer"),
        (int, '{"answer": 1}', r"fit int: response is missing"),
        (Secretive, '{"code": "x hunter2"}', r"code does not pass a validator"),
        (Secretive, '{"code": "y hunter2"}', r"code does not pass a validator"),
        (Pet, '{"response": {"kind": "hunter2"}}', r"response has an unknown tag"),
        (Kind, '{"response": "hunter2"}', r"response: .*'rain' or 'sun'"),
        (list[int], json.dumps({"response": ["hunter2"] * 9}), r"response\[0\].*; and 4 more\.$"),
    ],
)
def test_an_answer_that_does_not_fit_is_told_in_a_sentence_without_its_values(
    output_type: Any, written: str, message: str
) -> None:
    with pytest.raises(ModelBehaviorError, match=message) as caught:
        schema_of(output_type).validate_json(written)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("output_type", "message"),
    [
        (
            dict[str, int],
            r"^Output type dict\[str, int\]: the schema accepts any keys .* or give the agent output_type"
            + re.escape("=AgentOutputSchema(dict[str, int], strict_json_schema=False)."),
        ),
        (list[dict[str, Any]], r"'response\[\]' accepts any keys"),
        (tuple[int, str], r"'response' is a tuple"),
        (Any, r"Output type Any: 'response' accepts any value"),
    ],
)
def test_a_type_that_cannot_be_strict_is_refused_with_the_fix(
    output_type: Any, message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        output_schema_of(output_type)
    assert "strict_mode" not in str(caught.value)

    relaxed = AgentOutputSchema(output_type, strict_json_schema=False)
    assert relaxed.json_schema()["type"] == "object"


def test_a_dict_is_what_the_model_writes() -> None:
    relaxed = AgentOutputSchema(dict[str, int], strict_json_schema=False)
    assert relaxed.validate_json('{"a": 1}') == {"a": 1}
    assert read_output(relaxed, write_output(relaxed, {"a": 1})) == {"a": 1}


class Socket:
    pass


class Connection(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    socket: Socket


class Unfinished(BaseModel):
    part: "NowhereDefined"  # pyright: ignore[reportUndefinedVariable]  # the mistake  # noqa: F821


@pytest.mark.parametrize(
    ("output_type", "message"),
    [
        (Socket, r"^Agent 'A': Output type Socket cannot be an agent's output: .*Socket"),
        (list[Socket], r"Output type list\[Socket\] cannot be an agent's output"),
        (Iterator[int], r"cannot be an agent's output"),
        (
            Iterable[int],
            r"Output type Iterable\[int\] is an iterator, which can be read only once: use a list",
        ),
        (Connection, r"Output type Connection cannot be an agent's output"),
        (Unfinished, r"Output type Unfinished cannot be an agent's output: .*Unfinished"),
        ("Weather", r"^Agent 'A': output_type='Weather' is a value of type str: pass the type"),
        ({"city": str}, r"is a value of type dict"),
        (getattr, r"^Agent 'A': output_type=getattr is a function: pass the type itself"),
        (AgentOutputSchema, r"AgentOutputSchema is the class of a schema: pass an instance"),
    ],
)
def test_a_type_that_no_value_can_be_rebuilt_of_is_refused_where_it_is_given(
    output_type: Any, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        check_output_type("Agent 'A'", output_type)


def test_a_type_that_only_cannot_be_strict_may_be_replaced_until_it_is_used() -> None:
    check_output_type("Agent 'A'", dict[str, int])
    message = r"^Agent 'A': Output type dict\[str, int\]: .*strict_json_schema=False"
    with pytest.raises(UserError, match=message):
        check_output_schema("Agent 'A'", dict[str, int])


def test_types_that_fit_are_let_through() -> None:
    for output_type in (
        None,
        str,
        Weather,
        list[int],
        AgentOutputSchema(dict, strict_json_schema=False),
    ):
        check_output_type("Agent 'A'", output_type)


@pytest.mark.parametrize(
    ("output_type", "given", "written"),
    [
        (Weather, {"city": "Bonn", "degrees": 9}, {"city": "Bonn", "degrees": 9, "kind": "sun"}),
        (Row, {"rowId": 1}, {"row_id": 1}),
        (Row, {"row_id": 1}, {"row_id": 1}),
        (Point, {"x": 1, "day": "2026-05-12"}, {"x": 1, "day": "2026-05-12"}),
        (Point, Point(x=1, day=DAY), {"x": 1, "day": "2026-05-12"}),
        (list[Point], [{"x": 1, "day": DAY}], [{"x": 1, "day": "2026-05-12"}]),
    ],
)
def test_a_handler_or_a_tool_may_answer_with_the_json_of_the_type(
    output_type: Any, given: Any, written: Json
) -> None:
    assert write_output(schema_of(output_type), given) == written


@pytest.mark.parametrize(
    ("output_type", "given", "message"),
    [
        (Weather, "Sorry.", r"final output of type str does not fit the output type Weather: the"),
        (Weather, {"city": "Bonn", "degrees": "9"}, r"type dict does not fit .*degrees"),
        (int, None, r"type NoneType does not fit"),
        (Weather, Socket(), r"output of type Weather cannot be written as JSON: .*Socket"),
    ],
)
def test_a_value_that_is_not_of_the_type_is_refused(
    output_type: Any, given: Any, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        write_output(schema_of(output_type), given)


class OneWay(BaseModel):
    day: date

    @field_serializer("day")
    def show(self, day: date) -> str:
        return day.strftime("%d %B")


def test_json_that_is_not_of_the_type_is_refused_when_it_is_read() -> None:
    schema = schema_of(OneWay)
    written = write_output(schema, OneWay(day=DAY))
    assert written == {"day": "12 May"}
    with pytest.raises(UserError, match=r"cannot be rebuilt as OneWay: day: .*version of the type"):
        read_output(schema, written)
    with pytest.raises(UserError, match=r"degrees is missing"):
        read_output(schema_of(Weather), {"city": "Bonn"})


def test_plain_answers_travel_as_they_are_where_there_is_no_output_type() -> None:
    for value in ("hi", "", 7, None, True, 1.5, {"a": [1]}):
        assert read_output(None, write_output(None, value)) == value
    assert write_output(None, Weather(city="Bonn", degrees=9)) == {
        "city": "Bonn",
        "degrees": 9,
        "kind": "sun",
    }
    with pytest.raises(UserError, match=r"type Socket \(output type: text\) cannot be written"):
        write_output(None, Socket())


class Own(AgentOutputSchemaBase):
    """A user's schema; what it makes of an answer is given."""

    def __init__(self, make: Any) -> None:
        self.make = make

    def is_plain_text(self) -> bool:
        return False

    def name(self) -> str:
        return "Own"

    def json_schema(self) -> JsonObject:
        return {"type": "object"}

    def is_strict_json_schema(self) -> bool:
        return False

    def validate_json(self, json_str: str) -> Any:
        return self.make(json.loads(json_str))


@pytest.mark.parametrize(
    ("make", "answer", "value"),
    [
        (Weather.model_validate, {"city": "Bonn", "degrees": 9}, Weather(city="Bonn", degrees=9)),
        (itemgetter("jokes"), {"jokes": ["a"]}, ["a"]),
        (itemgetter(0), [["a"]], ["a"]),
        (dict, {"a": 1}, {"a": 1}),
    ],
    ids=["a model", "a part of the answer", "a part that could be parted again", "the answer"],
)
def test_a_schema_of_the_users_own_gives_the_same_value_after_it_travelled(
    make: Callable[[Any], Any], answer: Json, value: Any
) -> None:
    schema = Own(make)
    assert output_schema_of(schema) is schema
    answered = schema.validate_json(json.dumps(answer))
    rebuilt = read_output(schema, write_output(schema, answered))
    assert rebuilt == value
    assert type(rebuilt) is type(value)


NOTHING: Any = None


class Grade(BaseModel):
    """Its defaults are not of their types, which pydantic does not check."""

    name: str = "?"
    score: int = Field(NOTHING)
    weight: int | float = Field(NOTHING, alias="w")
    parts: "list[Grade]" = []
    by_name: "dict[str, Grade]" = {}


@pytest.mark.parametrize(
    ("output_type", "text"),
    [
        (Grade, '{"name": "Ann"}'),
        (Grade, '{"w": 2, "parts": [{"score": 1}, {}], "by_name": {"score": {}}}'),
        (list[Grade], '{"response": [{"name": "Ann"}, {"score": 3}]}'),
        (Grade | int, '{"response": {}}'),
    ],
)
@pytest.mark.filterwarnings("error")
def test_defaults_that_are_not_of_their_type_survive_the_way(output_type: Any, text: str) -> None:
    schema = AgentOutputSchema(output_type, strict_json_schema=False)
    value = schema.validate_json(text)
    assert schema.read_value(schema.write_value(value)) == value


@pytest.mark.parametrize(
    "written",
    [{"name": None}, {"score": "many"}, {"parts": [{"score": "many"}]}, {"parts": [None]}],
)
def test_other_values_that_do_not_fit_are_still_refused(written: Json) -> None:
    schema = AgentOutputSchema(Grade, strict_json_schema=False)
    with pytest.raises(UserError, match="cannot be rebuilt as Grade"):
        schema.read_value(written)
