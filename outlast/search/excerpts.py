"""The pieces of a conversation in which the words of a query occur."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from outlast.search.documents import Part, PartBy
from outlast.search.letters import folded, places_of

MOST_EXCERPTS: Final = 3
BEFORE: Final = 60
"""How many characters an excerpt shows before the first word that was found."""

LONGEST: Final = 220
"""The most characters of an excerpt."""

CUT: Final = "…"


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of an excerpt.

    Attributes:
        text: the text, as it was written.
        is_match: whether it is a word of the query.
    """

    text: str
    is_match: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """Where in a conversation a query was found.

    Attributes:
        by: whose words they are.
        message: the id of the message, as the customer's view has it; empty for none.
        pieces: the text in order; a piece `…` stands where it is cut.
    """

    by: PartBy
    message: str
    pieces: tuple[Piece, ...]

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(one.text for one in self.pieces)


def excerpts_of(parts: Sequence[Part], terms: Sequence[str]) -> tuple[Excerpt, ...]:
    """Return the excerpts of a conversation: those with most of the terms first, then the newest."""
    found = list[tuple[int, int, str]]()
    for at, part in enumerate(parts):
        letters = folded(part.text)
        count = sum(term in letters for term in terms)
        if count:
            found.append((-count, -at, letters))
    found.sort()
    best = [(parts[-at], letters) for _, at, letters in found[:MOST_EXCERPTS]]
    return tuple(
        Excerpt(by=one.by, message=one.message, pieces=(*_pieces(one.text, letters, terms),))
        for one, letters in best
    )


def _pieces(text: str, letters: str, terms: Sequence[str]) -> Iterator[Piece]:
    places = places_of(text)
    first = min(at for at in map(letters.find, terms) if at >= 0)
    start = max(0, first - BEFORE)
    stop = min(len(letters), max(start + LONGEST, first + max(map(len, terms))))
    matches = set[int]()
    for term in terms:
        found = letters.find(term, start, stop)
        while found >= 0:
            over = found + len(term)
            matches.update(range(places[found], places[over - 1] + 1))
            found = letters.find(term, over, stop)
    at, end = places[start], max(places[stop], max(matches) + 1)
    if at > 0:
        yield Piece(CUT)
    for is_match, some in groupby(range(at, end), matches.__contains__):
        yield Piece("".join(text[one] for one in some), is_match)
    if end < len(text):
        yield Piece(CUT)
