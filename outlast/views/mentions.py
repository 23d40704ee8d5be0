"""Mentions: `@name` in what colleagues write calls a colleague, who finds it by a tag."""

import re
from collections.abc import Iterator
from typing import Final

from outlast.loop.canonical import canonical_name

MOST_MENTIONS: Final = 20
"""The most colleagues that a comment calls."""

LONGEST_MENTION: Final = 200

_MENTION: Final = re.compile(
    r"(?<![\w@.+-])@\w[\w.+-]{0,99}(?:@[\w-]{1,63}(?:\.[\w-]{1,63}){0,9})?"
)
_END: Final = ".+-"
"""Signs that end a sentence rather than a name."""


def mention_tag(name: str) -> str:
    """Return the tag of a conversation in which somebody is mentioned."""
    return f"@{canonical_name(name)}"


def mention_tags(text: str) -> tuple[str, ...]:
    """Return the tags of those whom a text mentions, each once."""
    names = (mention_tag(part[1:]) for part, is_mention in mention_parts(text) if is_mention)
    found = (one for one in dict.fromkeys(names) if 1 < len(one) <= LONGEST_MENTION)
    return tuple(found)[:MOST_MENTIONS]


def mention_parts(text: str) -> Iterator[tuple[str, bool]]:
    """Yield a text in parts, and whether each is a mention such as `@ann`."""
    done = 0
    for match in _MENTION.finditer(text):
        end = match.start() + len(match[0].rstrip(_END))
        yield text[done : match.start()], False
        yield text[match.start() : end], True
        done = end
    yield text[done:], False
