"""The form in which texts and queries are compared, and the terms of a query."""

import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from outlast.agents.errors import UserError

LONGEST_QUERY: Final = 200
"""The most characters of a query."""

MOST_TERMS: Final = 10
"""The most words and phrases of a query."""

_SPACES: Final = dict.fromkeys((*range(32), 127), " ")


def composed(text: str) -> str:
    """Return a text in the one spelling of its characters that the index keeps."""
    if text.isascii():
        return text
    # Half a character can be stored nowhere.
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return unicodedata.normalize("NFC", whole)


def folded(text: str) -> tuple[str, Sequence[int] | None]:
    """Return a composed text as it is compared, and the place in it of each character.

    Case, width and ligatures do not count, nor do characters that nobody sees, such as soft hyphens.
    Control characters and all kinds of blanks count as spaces.

    Returns:
        The folded text, and the places; None where each character stays where it is.
    """
    if text.isascii():
        return text.lower().translate(_SPACES), None
    letters, places = list[str](), list[int]()
    for at, one in enumerate(text):
        found = _folded(one)
        letters.append(found)
        places += [at] * len(found)
    return "".join(letters), places


@lru_cache(maxsize=8_192)
def _folded(one: str) -> str:
    kind = unicodedata.category(one)
    if kind == "Cf":
        return ""
    if kind in {"Cc", "Zs", "Zl", "Zp"}:
        return " "
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", one).casefold())


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
    letters, _ = folded(composed(query))
    parts = letters.split('"')
    found = list[str]()
    for at, part in enumerate(parts):
        is_phrase = at % 2 == 1 and at < len(parts) - 1
        found += [part.strip()] if is_phrase else part.split()
    terms = tuple(dict.fromkeys(one for one in found if one))
    if len(terms) > MOST_TERMS:
        raise UserError(f"A search has at most {MOST_TERMS} words, and this one has {len(terms)}.")
    return terms
