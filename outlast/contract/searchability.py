"""The length of search attribute values."""

import json
from collections.abc import Iterable
from typing import Final

LARGEST_VALUE: Final = 255
"""Characters. Stores on SQL have columns of this length."""

LARGEST_BYTES: Final = 2_000
"""As JSON. A server refuses values of more than 2 kB, and with them the workflow task."""


_LARGEST_CHARACTER: Final = 12
"""The bytes of a character in JSON that is written in ASCII."""

_CUT: Final = 8
"""The characters that a long text loses at a time."""

_MOST_CUT: Final = _CUT * _LARGEST_CHARACTER


def searchable(text: str) -> str:
    """Return as much of a text as a search attribute can hold.

    PostgreSQL stores no NUL: the server would accept the value, and never list the run.
    """
    shown = text[:LARGEST_VALUE].replace("\0", "\ufffd")
    if len(shown) * _LARGEST_CHARACTER < LARGEST_BYTES:  # as nearly all
        return shown
    while len(json.dumps(shown)) > LARGEST_BYTES:
        shown = shown[:-_CUT]
    return shown


def may_differ(listed: str) -> bool:
    """Whether a search attribute may hold another text than was given: a part, or without NUL."""
    cut = len(listed) >= LARGEST_VALUE or len(json.dumps(listed)) > LARGEST_BYTES - _MOST_CUT
    return cut or "\ufffd" in listed


def searchable_list(texts: Iterable[str], rest: str) -> list[str]:
    """Return as many texts, each once, as a list of keywords can hold.

    Args:
        texts: the texts.
        rest: stands at the end of the list for the texts that do not fit.
    """
    found = [one for one in dict.fromkeys(map(searchable, texts)) if one]
    if len(json.dumps(found)) <= LARGEST_BYTES:
        return found
    kept = [one for one in found if one != rest]
    while len(json.dumps([*kept, rest])) > LARGEST_BYTES:
        kept.pop()
    return [*kept, rest]
