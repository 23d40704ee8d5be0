"""Texts in searches of Temporal's visibility store.

Owns: which texts a server finds, and how they are quoted. Must not know: what is searched for.
"""

from itertools import takewhile

NOT_FOUND_BY_SERVERS = '"\\?'
"""Servers on SQL escape the first two once too often, and then find nothing. Servers on PostgreSQL
take a question mark for a parameter, and the search fails."""


QUOTE = "'"
"""Servers strip it from both ends of a text, along with the quotes that enclose the text."""


def is_findable(text: str) -> bool:
    """Whether a server finds exactly this text."""
    return text == text.strip(QUOTE) and all(map(_is_findable_sign, text))


def equals(attribute: str, text: str) -> str | None:
    """Return a condition that every run with this value meets; None where there is none.

    Of a text that no server finds, the beginning is searched for; the caller has to compare.
    """
    if is_findable(text):
        return f"{attribute} = {_quoted(text)}"
    if text.startswith(QUOTE):
        return None
    beginning = "".join(takewhile(_is_findable_sign, text)).rstrip(QUOTE)
    return f"{attribute} STARTS_WITH {_quoted(beginning)}" if beginning else None


def _is_findable_sign(sign: str) -> bool:
    return sign.isprintable() and sign not in NOT_FOUND_BY_SERVERS


def _quoted(text: str) -> str:
    doubled = text.replace("'", "''")
    return f"'{doubled}'"
