"""The pieces of a conversation in which the words of a query occur."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
    at, end = places[start], places[stop]
    if at > 0:
        yield Piece(CUT)
    for begin, over in _spans(letters, start, stop, terms):
        where, until = places[begin], places[over - 1] + 1
        if where > at:
            yield Piece(text[at:where])
        at = max(at, where)
        if until > at:
            yield Piece(text[at:until], is_match=True)
        at = max(at, until)
    if end > at:
        yield Piece(text[at:end])
    if max(at, end) < len(text):
        yield Piece(CUT)


def _spans(letters: str, start: int, stop: int, terms: Sequence[str]) -> list[tuple[int, int]]:
    """Return where terms occur, in order; those that touch are one."""
    found = list[tuple[int, int]]()
    for term in terms:
        at = letters.find(term, start, stop)
        while at >= 0:
            found.append((at, at + len(term)))
            at = letters.find(term, at + len(term), stop)
    merged = list[tuple[int, int]]()
    for begin, over in sorted(found):
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(over, merged[-1][1])
        else:
            merged.append((begin, over))
    return merged
