"""Classes of records, and plain classes."""

from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Any, NamedTuple, TypedDict

import pytest
from pydantic import BaseModel

from outlast.agents.context.record_classes import (
    fields_of,
    is_named_by,
    is_plain_class,
    type_hints,
)


class Customer:
    def __init__(self, name: str) -> None:
        self.name = name
        self.notes: list[str] = []

    def add(self, note: str) -> None:
        self.notes.append(note)


class Slotted:
    __slots__ = ("name",)


class Model(BaseModel):
    name: str


@dataclass
class Record:
    name: str


class Typed(TypedDict):
    name: str


class Colour(Enum):
    RED = 1


class Pair(NamedTuple):
    a: int


class Bag(dict[str, int]):
    pass


def test_a_class_of_attributes_is_plain() -> None:
    assert is_plain_class(Customer)


@pytest.mark.parametrize(
    "kind", [Slotted, Model, Record, Typed, Colour, Pair, Bag, date, dict, str, object, None, Any]
)
def test_what_is_more_than_its_attributes_is_not(kind: object) -> None:
    assert not is_plain_class(kind)


def test_the_fields_of_a_record_are_those_that_its_objects_have() -> None:
    assert [(one.name, one.is_required) for one in fields_of(Model)] == [("name", True)]
    assert [(one.name, one.is_required) for one in fields_of(Record)] == [("name", True)]
    assert [one.name for one in fields_of(Pair)] == ["a"]
    assert fields_of(Customer) == ()


def test_a_hint_names_one_class_or_none() -> None:
    hints: list[Any] = [Customer, Customer | None, "Customer", Customer | Record, list[Customer]]
    assert [is_named_by(hint, Customer) for hint in hints] == [True, True, False, False, False]


def test_a_hint_with_a_name_that_does_not_exist_says_nothing() -> None:
    class Odd:
        it: "Missing"  # noqa: F821  # pyright: ignore[reportUndefinedVariable]

    assert type_hints(Odd) == {}
