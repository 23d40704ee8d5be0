"""Ratings in words."""

from outlast.contract.ratings import RANGES, SCORES, rated_as


def test_a_score_is_good_or_bad_or_neither() -> None:
    words = [rated_as(one) for one in (None, 1, 2, 3, 4, 5)]
    assert words == ["", "bad", "bad", "fair", "good", "good"]


def test_a_button_gives_a_score_that_counts_as_what_it_says() -> None:
    assert {word: rated_as(one) for word, one in SCORES.items()} == {one: one for one in RANGES}
