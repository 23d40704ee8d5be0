"""Quoting of texts in queries of Temporal's visibility store."""

from itertools import takewhile

NOT_FOUND_BY_SERVERS = '"\\?'
"""Characters that break a search. Servers on SQL escape the first two once too often, and then find
nothing. Servers on PostgreSQL read a question mark as a parameter, and the search fails."""


QUOTE = "'"
"""Servers strip this character from both ends of a text, together with the enclosing quotes."""


def is_findable(text: str) -> bool:
    """Whether a server can search for exactly this text."""
    return text == text.strip(QUOTE) and all(map(_is_findable_sign, text))


def equals(attribute: str, text: str) -> str | None:
    """Return a condition that every run with this value meets, or None.

    If the text cannot be searched for, the condition matches its beginning, and the caller must
    compare the results.
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
