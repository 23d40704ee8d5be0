"""Plain values: usage adds up, failures compare by value."""

import dataclasses

import pytest

from outlast.loop.values import NO_USAGE, Failure, Usage

ONE = Usage(
    requests=1,
    input_tokens=10,
    output_tokens=5,
    total_tokens=15,
    cached_tokens=3,
    reasoning_tokens=2,
)


def test_no_usage_is_the_neutral_element() -> None:
    assert NO_USAGE.plus(ONE) == ONE == ONE.plus(NO_USAGE)


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Usage)])
def test_every_field_of_usage_adds_up_by_itself(field: str) -> None:
    only = dataclasses.replace(NO_USAGE, **{field: 4})
    total = ONE.plus(only)
    assert getattr(total, field) == getattr(ONE, field) + 4
    assert dataclasses.replace(total, **{field: getattr(ONE, field)}) == ONE


def test_adding_usage_leaves_both_sides_alone() -> None:
    ONE.plus(ONE)
    assert ONE.requests == 1


def test_failures_are_the_same_when_they_say_the_same() -> None:
    assert Failure(code="a", message="b") == Failure(code="a", message="b", details=None)
    assert Failure(code="a", message="b") != Failure(code="a", message="b", details={"k": 1})


def test_the_details_of_usage_are_found_where_programs_look() -> None:
    usage = Usage(cached_tokens=3, reasoning_tokens=2)
    assert usage.input_tokens_details.cached_tokens == 3
    assert usage.output_tokens_details.reasoning_tokens == 2
