"""Differences of texts, word by word."""

import time

import pytest

from outlast.serve.pages.word_changes import MOST_WORDS, word_changes


def marked(before: str, after: str) -> str:
    marks = {"same": "{}", "del": "[-{}-]", "ins": "[+{}+]"}
    return "".join(marks[one.kind].format(one.text) for one in word_changes(before, after))


def test_words_that_go_and_come_are_marked() -> None:
    assert marked("We refund 389 EUR today.", "We refund 300 EUR today.") == (
        "We refund [-389 -][+300 +]EUR today."
    )
    assert marked("one two", "one two") == "one two"
    assert marked("", "new words") == "[+new words+]"
    assert marked("old", "") == "[-old-]"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a b c d e", "e d c b a"),
        ("שלום עולם", "שלום לך עולם"),
        ("e\u0301 x", "e\u0301 y \u202e z"),
        ("line\n\n  two", "line\n three\t"),
        ("<b>x</b> y", "<script>x</script> y"),
        ("a " * 9_000, "b " + "a " * 9_000),
    ],
)
def test_both_texts_are_whole_in_the_pieces(before: str, after: str) -> None:
    pieces = word_changes(before, after)
    assert "".join(one.text for one in pieces if one.kind != "ins") == before
    assert "".join(one.text for one in pieces if one.kind != "del") == after


def test_texts_that_are_made_to_be_slow_are_not() -> None:
    before, after = ("a b " * MOST_WORDS)[: MOST_WORDS * 2], ("b a " * MOST_WORDS)[: MOST_WORDS * 2]
    begun = time.process_time()
    word_changes(f"x {before}", f"y {after}")
    assert time.process_time() - begun < 5
