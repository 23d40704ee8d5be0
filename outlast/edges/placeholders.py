"""Internal. Sentences with places for values, such as `Refund {amount} EUR to {customer.name}`.

A place is a plain name, or names joined by dots. It has no format, and nothing of a value runs.
"""

import re
from dataclasses import dataclass
from typing import Final

from outlast.edges.rendering import visible

LONGEST: Final = 200
"""The maximum number of characters of a sentence with its places."""

_PLACE: Final = re.compile(r"\{([^{}]*)\}")
_NAME: Final = re.compile(r"[^\W\d][\w-]*(?:\.[^\W\d][\w-]*)*")


@dataclass(frozen=True, slots=True)
class Place:
    """A place for a value: the names that lead to it."""

    path: tuple[str, ...]


def parts_of(sentence: str) -> tuple[str | Place, ...]:
    """Return the words and the places of a sentence, in order.

    Raises:
        ValueError: the sentence is not allowed. The message says why.
    """
    if not sentence.strip() or len(sentence) > LONGEST or visible(sentence) != sentence:
        raise ValueError(f"it must be one line of 1 to {LONGEST} visible characters")
    if {"\u201c", "\u201d"} & set(sentence):
        raise ValueError("it must have no quotation marks \u201c \u201d: values get their own")
    parts: list[str | Place] = []
    words = _PLACE.split(sentence)
    for at, text in enumerate(words):
        if at % 2 and _NAME.fullmatch(text) is None:
            raise ValueError(
                f"{{{text}}} must be the plain name of an argument, such as {{amount}}"
            )
        if not at % 2 and {"{", "}"} & set(text):
            raise ValueError("its braces must be in pairs around the name of an argument")
        if not at % 2 and not text and 0 < at < len(words) - 1:
            raise ValueError("words must stand between two places, or their values run together")
        parts += [Place(tuple(text.split(".")))] if at % 2 else [text] if text else []
    return tuple(parts)
