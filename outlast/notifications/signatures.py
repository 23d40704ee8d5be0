"""Signatures of HTTP requests, and the memory that refuses a repeated one."""

import hashlib
import hmac
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from outlast.agents.errors import UserError
from outlast.edges.newest import keep_newest

TOLERANCE: Final = timedelta(minutes=5)
"""How far a request's time may be from now."""

SHORTEST_SECRET: Final = 16
"""The fewest characters of a secret."""

_LONGEST_TIMESTAMP = 20  # a longer one is no time; bounds the parsing


def hmac_hex(secret: str, message: bytes) -> str:
    """Return the HMAC-SHA256 of a message in hexadecimal."""
    return hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()


def is_equal(one: str, other: str) -> bool:
    """Compare two texts in a time that does not depend on where they differ."""
    return hmac.compare_digest(
        one.encode(errors="surrogatepass"), other.encode(errors="surrogatepass")
    )


def check_secret(secret: object, name: str) -> str:
    """Return a secret."""
    if not isinstance(secret, str) or len(secret.strip()) < SHORTEST_SECRET:
        raise UserError(
            f"{name}= must be a text of at least {SHORTEST_SECRET} characters, such as "
            "secrets.token_hex(32)."
        )
    return secret


def problem_of_timestamp(text: str | None, now: float, tolerance: timedelta) -> str | None:
    """Return the problem with the time of a request, in seconds; None if it is recent."""
    if text is None:
        return "it has no timestamp"
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_TIMESTAMP):
        return f"its timestamp {text!r:.40} is no number of seconds"
    if abs(now - int(text)) > tolerance.total_seconds():
        return f"its timestamp is more than {tolerance.total_seconds():g} s away from now"
    return None


class SeenIds:
    """Remembers the ids of a time window, so that a repeated request is recognized.

    It belongs to one process. Several processes that receive the same requests need a shared store
    in its place, with the same methods.
    """

    def __init__(
        self,
        window: timedelta = timedelta(hours=24),
        *,
        most: int = 100_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._window = window.total_seconds()
        self._most = most
        self._clock = clock
        self._seen: OrderedDict[str, float] = OrderedDict()

    def add(self, key: str) -> bool:
        """Remember an id; return whether it is new."""
        now = self._clock()
        while self._seen and next(iter(self._seen.values())) <= now - self._window:
            self._seen.popitem(last=False)
        if key in self._seen:
            return False
        keep_newest(self._seen, key, now, self._most)
        return True

    def forget(self, key: str) -> None:
        """Forget an id, because its request could not be handled and should come again."""
        self._seen.pop(key, None)
