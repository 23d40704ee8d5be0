"""Tokens that show that replies on a realtime line come from whoever attached it.

Each token is the hash of the one that is shown after it, and a line is attached with the hash of
the first. Whoever reads the run's history knows the tokens so far, and cannot make the next one.
"""

from hashlib import sha256
from typing import Final

MOST_TOKENS: Final = 10_000
"""How many replies a line may give."""

MOST_SKIPPED: Final = 100
"""How many tokens may be missing before one: a reply that the server refused has used one up."""


def tokens(secret: str) -> list[str]:
    """Return the tokens of a line, the one to attach it with first.

    Args:
        secret: a random text that nobody else knows.
    """
    made = [_hash(secret)]
    for _ in range(MOST_TOKENS):
        made.append(_hash(made[-1]))
    return made[::-1]


def follows(token: str, known: str) -> bool:
    """Whether a token comes after a known one."""
    for _ in range(MOST_SKIPPED):
        token = _hash(token)
        if token == known:
            return True
    return False


def _hash(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()
