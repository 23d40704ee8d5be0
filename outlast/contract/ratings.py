"""Ratings in words: the scores of two buttons, and the scores that count as good or as bad."""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

Rated: TypeAlias = Literal["good", "bad"]
"""What a customer says by a button."""

SCORES: Final[Mapping[Rated, int]] = {"good": 5, "bad": 1}
"""The score that a button gives."""

RANGES: Final[Mapping[Rated, tuple[int, int]]] = {"good": (4, 5), "bad": (1, 2)}
"""The lowest and the highest score that count as good, or as bad; 3 is neither."""


def rated_as(score: int | None) -> Rated | Literal["fair", ""]:
    """Return a score in a word; empty without one."""
    if score is None:
        return ""
    for word, (lowest, highest) in RANGES.items():
        if lowest <= score <= highest:
            return word
    return "fair"
