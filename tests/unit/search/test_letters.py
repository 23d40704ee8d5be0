"""The form in which texts are compared."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.agents.errors import UserError
from outlast.search.letters import LONGEST_QUERY, composed, folded, places_of, terms_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Straße", "strasse"),
        ("STRASSE", "strasse"),
        ("Rück\u00aderstattung", "rückerstattung"),
        ("a\u200bb\u202ec", "abc"),
        ("a\0b\tc\u00a0d\u3000e", "a b c d e"),
        ("\uff26\uff49\uff4e ﬁn", "fin fin"),
        ("\u03a3\u0391\u03a3", "\u03c3\u03b1\u03c3"),
        ("e\u0301", "\u00e9"),
        ("\ud83d\ude00 \ud83d", "\U0001f600 \ufffd"),
    ],
)
def test_what_does_not_count_is_folded(text: str, expected: str) -> None:
    assert folded(composed(text)) == expected


@given(st.text(max_size=60))
def test_each_folded_character_has_its_place(text: str) -> None:
    whole = composed(text)
    places = places_of(whole)
    letters = folded(whole)
    assert len(places) == len(letters) + 1
    assert list(places) == sorted(places)
    assert places[-1] == len(whole)
    assert "\n" not in letters
    assert folded("".join(whole[at] for at in dict.fromkeys(places[:-1]))) == letters


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("", ()),
        ("  \0 \n", ()),
        ("Refund refund  ORDER", ("refund", "order")),
        ('"it is paid" now', ("it is paid", "now")),
        ('now "it is', ("now", "it", "is")),
        ('""', ()),
        ("\uff02a b\uff02", ("a b",)),
        ("OR NOT * % _ ^", ("or", "not", "*", "%", "_", "^")),
    ],
)
def test_a_query_is_words_and_phrases(query: str, terms: tuple[str, ...]) -> None:
    assert terms_of(query) == terms


def test_a_query_that_is_too_long_is_refused_in_words() -> None:
    assert terms_of("a" * LONGEST_QUERY)
    with pytest.raises(UserError, match="at most 200 characters, and this one has 201"):
        terms_of("a" * (LONGEST_QUERY + 1))
