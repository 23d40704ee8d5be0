"""How one text becomes another one, word by word."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final, Literal, TypeAlias

MOST_WORDS: Final = 4_000
"""The most words that are compared one by one: what lies between them is shown as replaced."""

_WORDS: Final = re.compile(r"\S+\s*|\s+")

Kind: TypeAlias = Literal["same", "del", "ins"]


@dataclass(frozen=True, slots=True)
class Piece:
    """Words of a text that stay, go or come."""

    kind: Kind
    text: str


def word_changes(before: str, after: str) -> tuple[Piece, ...]:
    """Return how one text becomes another one, word by word."""
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    start = next((at for at, (one, two) in enumerate(zip(old, new, strict=False)) if one != two), 0)
    if old == new:
        start = len(old)
    found = [Piece("same", "".join(old[:start])), *_pieces(old[start:], new[start:])]
    return tuple(one for one in found if one.text)


def _pieces(old: list[str], new: list[str]) -> Iterator[Piece]:
    if max(len(old), len(new)) > MOST_WORDS:
        yield from (Piece("del", "".join(old)), Piece("ins", "".join(new)))
        return
    for kind, start, end, new_start, new_end in SequenceMatcher(None, old, new).get_opcodes():
        if kind == "equal":
            yield Piece("same", "".join(old[start:end]))
        else:
            yield Piece("del", "".join(old[start:end]))
            yield Piece("ins", "".join(new[new_start:new_end]))
