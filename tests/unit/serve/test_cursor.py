"""Cursors: their texts and numbers, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.serve.cursor import (
    CHECK_BITS,
    EVENT_BITS,
    OFFSET_BITS,
    Cursor,
    InvalidCursor,
    checksum,
    cursor_at,
)

CHECKS = st.integers(0, (1 << CHECK_BITS) - 1)
ANY = st.builds(Cursor, st.integers(0, 10**9), st.integers(0, 10**9), CHECKS)
PACKABLE = st.builds(
    Cursor,
    st.integers(0, (1 << EVENT_BITS) - 1),
    st.integers(0, (1 << OFFSET_BITS) - 1),
    CHECKS,
)


@given(ANY)
def test_a_cursor_is_read_from_its_text(cursor: Cursor) -> None:
    assert Cursor.parse(str(cursor)) == cursor


@given(PACKABLE, PACKABLE)
def test_a_cursor_is_read_from_its_number_which_has_the_same_order(
    one: Cursor, other: Cursor
) -> None:
    assert Cursor.unpack(one.packed) == one
    assert (one.packed < other.packed) == (one < other)


@given(st.integers(0, 2**53 - 1))
def test_every_number_in_range_is_one_cursor(number: int) -> None:
    assert Cursor.unpack(number).packed == number


def test_the_largest_packed_cursor_is_the_largest_whole_number_of_javascript() -> None:
    last = Cursor((1 << EVENT_BITS) - 1, (1 << OFFSET_BITS) - 1, (1 << CHECK_BITS) - 1)
    assert last.packed == 2**53 - 1
    assert Cursor().packed == 0


@given(st.text() | st.from_regex(r"\d+-\d+-[0-9a-fA-F]{4}", fullmatch=True))
def test_a_text_is_a_cursor_in_one_spelling_or_refused(text: str) -> None:
    try:
        cursor = Cursor.parse(text)
    except InvalidCursor:
        return
    assert str(cursor) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "5-10",
        "5-10-9F3C",
        "05-10-9f3c",
        "5-10-9f3c\n",
        "-5-10-9f3c",
        "\N{ARABIC-INDIC DIGIT FIVE}-0-0000",
        "9" * 99,
    ],
)
def test_what_only_looks_like_a_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidCursor, match="is no cursor"):
        Cursor.parse(text)


@pytest.mark.parametrize("number", [-1, 2**53])
def test_a_number_out_of_range_is_refused(number: int) -> None:
    with pytest.raises(InvalidCursor, match=r"from 0 to 2\*\*53 - 1"):
        Cursor.unpack(number)


@pytest.mark.parametrize(
    ("cursor", "words"),
    [
        (Cursor(131_072), "The event 131072 does not fit .* less than 131072"),
        (Cursor(0, 1_048_576), "The offset 1048576 does not fit .* less than 1048576"),
    ],
)
def test_a_cursor_that_is_too_large_for_a_number_still_has_a_text(
    cursor: Cursor, words: str
) -> None:
    with pytest.raises(InvalidCursor, match=words):
        assert cursor.packed
    assert Cursor.parse(str(cursor)) == cursor


@pytest.mark.parametrize("parts", [(-1, 0, 0), (0, -1, 0), (0, 0, -1), (0, 0, 1 << CHECK_BITS)])
def test_no_cursor_is_made_of_parts_out_of_range(parts: tuple[int, int, int]) -> None:
    with pytest.raises(InvalidCursor, match="is no position"):
        Cursor(*parts)


@given(st.text(), st.text())
def test_a_checksum_does_not_depend_on_the_pieces(begin: str, rest: str) -> None:
    assert checksum(rest, checksum(begin)) == checksum(begin + rest)


def test_half_of_a_character_has_a_checksum() -> None:
    assert checksum("\ud83d") != checksum("")


def test_the_start_is_the_same_cursor_for_every_run() -> None:
    assert cursor_at(0, 0, checksum(""), checksum("")) == Cursor()


def test_another_past_or_another_text_is_another_cursor() -> None:
    found = {
        cursor_at(3, 5, checksum(events), checksum(text))
        for events in ("a", "b")
        for text in ("Hello", "Holla")
    }
    assert len(found) == 4
