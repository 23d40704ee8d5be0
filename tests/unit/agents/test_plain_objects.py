"""Contexts that are objects of plain classes."""

from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Any, NamedTuple, TypedDict

import pytest
from pydantic import BaseModel

from outlast.agents.context.plain_objects import is_plain_class, read_attributes, write_attributes
from outlast.agents.errors import UserError


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


def test_an_object_travels_as_its_attributes() -> None:
    given = Customer("Ann")
    given.add("polite")
    written = write_attributes(given)
    assert written == {"name": "Ann", "notes": ["polite"]}
    read = read_attributes(written, Customer)
    read.add("late")
    assert (type(read), read.name, read.notes) == (Customer, "Ann", ["polite", "late"])
    assert (written["notes"], given.notes) == (["polite"], ["polite"])


@pytest.mark.parametrize(
    "value", [date(2026, 1, 1), (1, 2), {1: 2}, [Customer("B")], float("nan"), b"x", {"a": {1}}]
)
def test_an_attribute_that_would_come_back_as_something_else_is_refused(value: object) -> None:
    given = Customer("Ann")
    given.notes = value  # pyright: ignore[reportAttributeAccessIssue]  as programs do
    with pytest.raises(UserError, match=r"attribute 'notes', a .*Make Customer a dataclass"):
        write_attributes(given)


def test_data_that_is_no_attributes_is_refused() -> None:
    with pytest.raises(UserError, match="does not fit Customer: it is list"):
        read_attributes([], Customer)
