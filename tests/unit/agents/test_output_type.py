"""Types as output types: their names, what pydantic makes of them, and its objections in words."""

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from pydantic import BaseModel, RootModel, ValidationError
from typing_extensions import TypedDict

from outlast.agents.errors import UserError
from outlast.agents.schemas.output_type import (
    adapter_of,
    is_object_type,
    json_schema_of,
    source_name,
    wrapper_of,
)
from outlast.agents.user_types import output_problems


class Weather(BaseModel):
    city: str


class Order(TypedDict):
    number: int


@dataclass
class Point:
    x: int


class Cities(RootModel[list[str]]):
    pass


class Socket:
    pass


class Unfinished(BaseModel):
    part: "NowhereDefined"  # pyright: ignore[reportUndefinedVariable]  # the mistake  # noqa: F821


@pytest.mark.parametrize(
    ("output_type", "name"),
    [
        (Weather, "Weather"),
        (list[Weather], "list[Weather]"),
        (dict[str, list[Any]], "dict[str, list[Any]]"),
        (int | None, "int | None"),
        (Literal["a.b", "c"], "Literal['a.b', 'c']"),
        (list[Literal["a.b"]], "list[Literal['a.b']]"),
        (Any, "Any"),
    ],
)
def test_a_type_is_named_as_a_program_writes_it(output_type: Any, name: str) -> None:
    assert source_name(output_type) == name


@pytest.mark.parametrize(
    ("output_type", "is_object"),
    [
        (Weather, True),
        (Order, True),
        (dict, True),
        (dict[str, int], True),
        (Point, False),
        (Cities, False),
        (list[Weather], False),
        (Weather | None, False),
        (int, False),
    ],
    ids=str,
)
def test_models_and_dicts_are_objects_and_everything_else_is_wrapped(
    output_type: Any, is_object: bool
) -> None:
    assert is_object_type(output_type) is is_object


def test_a_wrapper_is_an_object_with_one_key() -> None:
    schema = json_schema_of(wrapper_of(list[int]), "list[int]", strict=True)
    assert schema == {
        "type": "object",
        "properties": {"response": {"type": "array", "items": {"type": "integer"}}},
        "required": ["response"],
        "additionalProperties": False,
    }


def test_a_schema_that_is_not_strict_is_pydantics() -> None:
    adapter = adapter_of(dict[str, int])
    assert json_schema_of(adapter, "dict", strict=False) == adapter.json_schema()
    with pytest.raises(UserError, match=r"=AgentOutputSchema\(dict, strict_json_schema=False\)\.$"):
        json_schema_of(adapter, "dict", strict=True)


@pytest.mark.parametrize(
    ("output_type", "message"),
    [
        (Socket, r"^Output type Socket cannot be an agent's output: .*Socket.*\. Use a pydantic"),
        (Unfinished, r"^Output type Unfinished cannot be an agent's output: .*not fully defined"),
        (
            Iterable[int],
            r"^Output type Iterable\[int\] is an iterator, which can be read only once: use a list",
        ),
        (Generator[int, None, None], r"can be read only once"),
        ("Weather", r"^output_type='Weather' is a value of type str: pass the type itself\.$"),
        ([int], r"is a value of type list"),
    ],
)
def test_what_no_value_can_be_rebuilt_of_is_refused(output_type: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        adapter_of(output_type)


def test_problems_are_told_with_their_places_and_without_values() -> None:
    with pytest.raises(ValidationError) as caught:
        adapter_of(list[Weather]).validate_python([{"city": "Bonn"}, {"city": 7}, {}])
    told = output_problems(caught.value)
    assert told == "[1].city: Input should be a valid string; [2].city is missing"


def test_of_many_problems_some_are_told() -> None:
    with pytest.raises(ValidationError) as caught:
        adapter_of(list[int]).validate_python(["x"] * 12)
    told = output_problems(caught.value)
    assert told.count("[") == 5
    assert told.endswith("; and 7 more")
