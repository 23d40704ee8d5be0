"""Signed URLs of waits: whoever has one may finish that wait by an HTTP request, and nothing else."""

import base64
import hashlib
import hmac
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

from outlast.agents.checks import InvalidType
from outlast.agents.errors import UserError

KEYS_VARIABLE: Final = "OUTLAST_DELIVERY_KEYS"
"""The variable with the keys that sign URLs of waits and notes of calls, and check them."""

UNSIGNED_VARIABLE: Final = "OUTLAST_UNSIGNED_NOTES"
"""The variable with which workers that have keys take notes without a proof: `accept`."""

URL_VARIABLE: Final = "OUTLAST_DELIVERY_URL"
"""The variable with the address of the receiver, as those who deliver reach it."""

SHORTEST_KEY_BYTES: Final = 32

LIFETIME: Final = timedelta(days=7)
LONGEST_LIFETIME: Final = timedelta(days=400)

LEEWAY_SECONDS: Final = 15 * 60
"""How long after its expiry a URL still counts.

The machine that signs and the one that checks may disagree about the time by ten minutes and more.
A leeway costs nothing: whether a value comes too late is decided by the timer of the run, on the
clock of the Temporal server. The expiry only ends the use of a URL that somebody else got hold of.
"""

_PURPOSE: Final = b"outlast wait url v1"
"""Keeps these signatures apart from all others that are made with the same key."""

_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{1,4000}", re.ASCII)
_EXPIRES: Final = re.compile(r"[1-9][0-9]{0,11}", re.ASCII)

Reason: TypeAlias = Literal["malformed", "forged", "expired"]

_WORDS: Final[dict[Reason, str]] = {
    "malformed": "This is no address of a wait. Use the URL as the tool has made it.",
    "forged": "The signature does not fit this URL. Use the URL as the tool has made it.",
    "expired": "The URL has expired. Ask for a new one.",
}


class WaitUrlRefused(Exception):
    """A URL of a wait does not count.

    Attributes:
        reason: why.
    """

    def __init__(self, reason: Reason) -> None:
        super().__init__(_WORDS[reason])
        self.reason: Reason = reason


@dataclass(frozen=True, slots=True, repr=False)
class WaitUrlKeys:
    """The keys of signed URLs: the first one signs, and all of them check.

    To replace a key, put the new one in front everywhere, and take the old one out when the URLs
    have expired that it has signed.
    """

    keys: tuple[bytes, ...]

    def __post_init__(self) -> None:
        if not self.keys:
            raise UserError("Signed URLs need at least one key.")
        for place, key in enumerate(self.keys, 1):
            if len(key) < SHORTEST_KEY_BYTES:
                raise UserError(
                    f"Key {place} of {KEYS_VARIABLE} has {len(key)} bytes, and needs at least "
                    f"{SHORTEST_KEY_BYTES}. Make one with `openssl rand -base64 32`."
                )

    def __repr__(self) -> str:
        return f"WaitUrlKeys({len(self.keys)} keys)"

    def query(self, token: str, expires: int) -> str:
        """Return the signed query of a wait's URL.

        Args:
            token: the token of the wait.
            expires: until when the URL counts, in seconds since the epoch.
        """
        return f"expires={expires}&signature={_signature(self.keys[0], token, expires)}"

    def check(
        self, token: str, expires: Sequence[str], signature: Sequence[str], now: float
    ) -> None:
        """Refuse a URL that no key has signed, or that has expired.

        Args:
            token: the token in the path.
            expires: the values of the parameter in the query: one, in a URL of ours.
            signature: likewise.
            now: the time, in seconds since the epoch.

        Raises:
            WaitUrlRefused: the URL does not count.
        """
        if len(expires) != 1 or len(signature) != 1 or not signature[0].isascii():
            raise WaitUrlRefused("malformed")
        if not _TOKEN.fullmatch(token) or not _EXPIRES.fullmatch(expires[0]):
            raise WaitUrlRefused("malformed")
        until = int(expires[0])
        # All keys are tried, so that the time does not say which one fits.
        fits = [
            hmac.compare_digest(_signature(key, token, until), signature[0]) for key in self.keys
        ]
        if not any(fits):
            raise WaitUrlRefused("forged")
        if now > until + LEEWAY_SECONDS:
            raise WaitUrlRefused("expired")


def _signature(key: bytes, token: str, expires: int) -> str:
    # The parts have no spaces, so no two URLs have the same text.
    text = b" ".join([_PURPOSE, token.encode(), str(expires).encode()])
    digest = hmac.new(key, text, hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def keys_from_environment() -> WaitUrlKeys | None:
    """Return the keys in `OUTLAST_DELIVERY_KEYS`; None if it is not set.

    Raises:
        UserError: a key is too short, or its file cannot be read.
    """
    from outlast.agents.secrets import secret

    text = secret(KEYS_VARIABLE).strip()
    if not text:
        return None
    return WaitUrlKeys(tuple(key.strip().encode() for key in text.split(",") if key.strip()))


def takes_unsigned_notes() -> bool:
    """Whether a worker with keys takes notes without a proof, as `OUTLAST_UNSIGNED_NOTES` says.

    Raises:
        UserError: the variable says something else than `accept`.
    """
    text = os.environ.get(UNSIGNED_VARIABLE, "").strip()
    if text not in {"", "accept"}:
        raise UserError(f"{UNSIGNED_VARIABLE} must be accept, or not set, not {text!r:.80}.")
    return text == "accept"


def wait_url(token: str, expires: timedelta, now: float) -> str:
    """Return the signed URL of a wait, with the keys and the address of the environment.

    Raises:
        UserError: a variable is not set or invalid, or `expires` is.
    """
    keys = keys_from_environment()
    if keys is None:
        raise UserError(
            f"wait_url() needs a key to sign with. Set {KEYS_VARIABLE} on the workers and the "
            "receiver; make a key with `openssl rand -base64 32`."
        )
    if not isinstance(expires, timedelta):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidType("wait_url(): expires must be a timedelta, such as timedelta(days=2).")
    if not timedelta(seconds=1) <= expires <= LONGEST_LIFETIME:
        raise UserError(
            f"wait_url(): expires must be from one second to {LONGEST_LIFETIME.days} days, not "
            f"{expires}."
        )
    until = int(now + expires.total_seconds())
    return f"{_address()}/deliveries/{token}?{keys.query(token, until)}"


def _address() -> str:
    url = os.environ.get(URL_VARIABLE, "").strip().rstrip("/")
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        parts, is_address = urlsplit(""), False
    if not is_address or "@" in parts.netloc or parts.query or parts.fragment:
        found = f"not {url!r:.80}" if url else "and is not set"
        raise UserError(
            f"wait_url() needs the address of the receiver: {URL_VARIABLE} must be an address such "
            f"as https://hooks.example.com, {found}."
        )
    return url
