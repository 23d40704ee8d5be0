"""Excerpts show where words occur, as they were written."""

from hypothesis import given
from hypothesis import strategies as st

from outlast.search.documents import Part
from outlast.search.excerpts import CUT, LONGEST, MOST_EXCERPTS, Piece, excerpts_of
from outlast.search.letters import composed, folded, terms_of


def pieces(text: str, query: str) -> tuple[Piece, ...]:
    [found] = excerpts_of([Part("customer", text, "i1")], terms_of(query))
    return found.pieces


def test_words_are_marked_as_they_were_written() -> None:
    assert pieces("Die RückERSTATTUNG ist da", "erstatt da") == (
        Piece("Die Rück"),
        Piece("ERSTATT", is_match=True),
        Piece("UNG ist "),
        Piece("da", is_match=True),
    )
    assert pieces("Stra\u00dfe", "strasse") == (Piece("Stra\u00dfe", is_match=True),)
    assert pieces("Rück\u00aderstattung", "rückerst") == (
        Piece("Rück\u00aderst", is_match=True),
        Piece("attung"),
    )
    assert pieces("aaab", "aa ab a") == (Piece("aaab", is_match=True),)


def test_a_long_text_is_cut_around_the_first_word() -> None:
    found = pieces(f"{'x' * 500} promise {'y' * 500}", "promise")
    assert [found[0], found[-1]] == [Piece(CUT), Piece(CUT)]
    assert found[2] == Piece("promise", is_match=True)
    assert sum(len(one.text) for one in found) == LONGEST + 2


def test_parts_with_most_words_come_first_and_then_the_newest() -> None:
    parts = [
        Part("customer", "a refund", "i0"),
        Part("assistant", "a refund, we promise", "i1"),
        Part("comment", "nothing here"),
        Part("customer", "refund!", "i3"),
        Part("name", "Refund Smith"),
    ]
    found = excerpts_of(parts, ("refund", "promise"))
    assert [one.message for one in found] == ["i1", "", "i3"]
    assert len(found) == MOST_EXCERPTS
    assert found[0].text == "a refund, we promise"


@given(st.text(max_size=300), st.text(min_size=1, max_size=5))
def test_an_excerpt_is_part_of_the_text_and_marks_only_what_was_found(text: str, word: str) -> None:
    whole, terms = composed(text), terms_of(word)[:3]
    found = excerpts_of([Part("customer", whole)], terms) if terms else ()
    assert bool(found) == any(one in folded(whole) for one in terms)
    for one in found:
        middle = [piece for piece in one.pieces if piece != Piece(CUT) or CUT in whole]
        assert "".join(piece.text for piece in middle).strip(CUT) in whole
        marked = [folded(piece.text) for piece in middle if piece.is_match]
        assert marked
        assert all(any(term in letters for term in terms) for letters in marked)
