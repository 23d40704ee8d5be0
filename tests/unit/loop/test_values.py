"""Plain values: usage adds up, failures compare by value."""

import dataclasses

import pytest

from outlast.loop.values import (
    BLOB,
    NO_USAGE,
    Failure,
    Json,
    JsonObject,
    Usage,
    is_reference,
    reference,
)

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
    assert total.minus(only) == ONE
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


DIGITS = "0123456789abcdef" * 4
REFERENCE: JsonObject = {BLOB: f"sha256:{DIGITS}", "bytes": 300}


@pytest.mark.parametrize("fields", [{}, {"part": 0}, {"part": 3}])
def test_a_reference_names_a_blob_and_a_place_in_it(fields: JsonObject) -> None:
    assert is_reference({**REFERENCE, **fields})


@pytest.mark.parametrize(
    "value",
    [
        None,
        "text",
        [BLOB],
        {"bytes": 300},
        {**REFERENCE, "more": 1},
        {**REFERENCE, "part": "0"},
        {**REFERENCE, "part": True},
        {**REFERENCE, "part": None},
        {**REFERENCE, "bytes": 3.5},
        {BLOB: REFERENCE[BLOB]},
        {**REFERENCE, BLOB: 7},
        {**REFERENCE, BLOB: list(REFERENCE[BLOB])},
        {**REFERENCE, BLOB: f"sha256:{DIGITS}0"},
        {**REFERENCE, BLOB: f"sha256:{DIGITS[1:]}"},
        {**REFERENCE, BLOB: f"sha512:{DIGITS}"},
        {**REFERENCE, BLOB: f"sha256:g{DIGITS[1:]}"},
        {**REFERENCE, BLOB: f"sha256:{DIGITS[1:]}g"},
        {**REFERENCE, BLOB: f"sha256:{DIGITS[1:]}_"},
    ],
)
def test_what_only_looks_like_a_reference_is_content(value: Json) -> None:
    assert not is_reference(value)


def test_the_names_in_recorded_references_never_change() -> None:
    assert reference("k", 3, 1) == {"$outlast.blob": "k", "bytes": 3, "part": 1}
