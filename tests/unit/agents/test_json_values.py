"""Reading JSON that somebody else wrote: the wanted shape, or nothing."""

from typing import Any

import pytest

from outlast.agents.json_values import as_count, as_object, as_objects, as_text

OTHERS: list[Any] = [None, True, 5, 1.5, "", "x", [], {}, [1], [{}, None]]


def test_an_object_is_itself_and_anything_else_is_nothing() -> None:
    value = {"a": 1}
    assert as_object(value) is value
    assert [as_object(other) for other in OTHERS] == [{} if one == {} else None for one in OTHERS]


def test_a_list_of_objects_is_itself_and_anything_else_is_nothing() -> None:
    value = [{"a": 1}, {}]
    assert as_objects(value) is value
    assert as_objects([]) == []
    assert [as_objects(other) for other in OTHERS if other != []] == [None] * (len(OTHERS) - 1)


def test_text_is_a_string_with_something_in_it() -> None:
    assert [as_text(other) for other in OTHERS if as_text(other) is not None] == ["x"]


@pytest.mark.parametrize(
    ("value", "count"),
    [(5, 5), (0, 0), (-5, 0), (True, 0), (1.5, 0), ("5", 0), (None, 0), ([5], 0)],
)
def test_a_count_is_a_whole_number_above_zero(value: Any, count: int) -> None:
    assert as_count(value) == count
    assert type(as_count(value)) is int
