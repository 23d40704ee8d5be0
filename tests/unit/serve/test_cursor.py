"""Cursors: their texts, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.serve.cursor import CHECK_BITS, Cursor, InvalidCursor, checksum, cursor_at

CHECKS = st.integers(0, (1 << CHECK_BITS) - 1)
ANY = st.builds(Cursor, st.integers(0, 10**9), st.integers(0, 10**9), CHECKS)


@given(ANY)
def test_a_cursor_is_read_from_its_text(cursor: Cursor) -> None:
    assert Cursor.parse(str(cursor)) == cursor


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
