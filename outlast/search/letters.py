"""The form in which texts and queries are compared, and the terms of a query."""

import unicodedata
from collections.abc import Sequence
from typing import Final

from outlast.agents.errors import UserError

LONGEST_QUERY: Final = 200
"""The most characters of a query."""

MOST_TERMS: Final = 10
"""The most words and phrases of a query."""


def composed(text: str) -> str:
    """Return a text in the one spelling of its characters that the index keeps."""
    if text.isascii():
        return text
    # Half a character can be stored nowhere.
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return unicodedata.normalize("NFC", whole)


def folded(text: str) -> str:
    """Return a composed text as it is compared.

    Case, width and ligatures do not count, nor do characters that nobody sees, such as soft hyphens.
    Control characters and all kinds of blanks count as spaces.
    """
    return text.translate(_FOLDED)


def places_of(text: str) -> Sequence[int]:
    """Return the place in a composed text of each character of the folded one, and its end."""
    if text.isascii():
        return range(len(text) + 1)
    found = [at for at, one in enumerate(text) for _ in _FOLDED[ord(one)]]
    return [*found, len(text)]


class _Folded(dict[int, str]):
    """What stands for each character, as far as somebody has asked."""

    def __missing__(self, code: int) -> str:
        kind, plain = unicodedata.category(chr(code)), unicodedata.normalize("NFKC", chr(code))
        found = " " if kind in {"Cc", "Zs", "Zl", "Zp"} else plain.casefold()
        return self.setdefault(code, "" if kind == "Cf" else unicodedata.normalize("NFKC", found))


_FOLDED: Final = _Folded()


def terms_of(query: str) -> tuple[str, ...]:
    """Return the words of a query, and its phrases in double quotes, folded.

    No character has another meaning: a query is never a pattern.

    Raises:
        UserError: it is too long, or has too many words.
    """
    if len(query) > LONGEST_QUERY:
        raise UserError(
            f"A search has at most {LONGEST_QUERY} characters, and this one has {len(query):,}."
        )
    parts = folded(composed(query)).split('"')
    found = list[str]()
    for at, part in enumerate(parts):
        is_phrase = at % 2 == 1 and at < len(parts) - 1
        found += [part.strip()] if is_phrase else part.split()
    terms = tuple(dict.fromkeys(one for one in found if one))
    if len(terms) > MOST_TERMS:
        raise UserError(f"A search has at most {MOST_TERMS} words, and this one has {len(terms)}.")
    return terms
