"""Tokens of customers: each opens one conversation, until it expires.

A token is a signed record like a person's action, and not a JSON Web Token: it has the keys, the
key ids, the encoding and the checks of `outlast.contract.identity`, which leave no algorithm to
choose. The name of the action is part of what is signed, so a token is no proof of an action, and
a proof is no token. Nothing is stored: who takes a key out of use ends the tokens of that key.

    oc1.<run id>.<audience>.<expiry>[.<owner>].v2.<key id>.<issued at>.<nonce>.<signature>

The user's backend mints tokens, and `outlast serve` checks them. Their keys are others than those
that sign decisions: a backend that lets customers in does not thereby decide for the team.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

from outlast.agents.errors import IdentityRefused, UserError, as_user_error
from outlast.contract.identity import (
    CLOCK_DIFFERENCE_MS,
    IdentityKeyError,
    IdentityKeys,
    Place,
    Proof,
    is_genuine,
    keys_of,
    parse_proof,
    signed,
)
from outlast.edges import clock
from outlast.serve.access import NOT_OPENED, Customer
from outlast.serve.encoding import decoded, encoded

KEY_VARIABLE: Final = "OUTLAST_CONVERSATION_KEY"
"""The variable with the keys of customers' tokens."""

LIFETIME: Final = timedelta(hours=24)
LONGEST_LIFETIME: Final = timedelta(days=30)
LONGEST_ID_BYTES: Final = 1_000
"""The server's limit of a workflow id."""

LONGEST_AUDIENCE_BYTES: Final = 255
LONGEST_TOKEN: Final = 2_048  # longer than any that is minted; bounds the parsing

_ACTION: Final = "open conversation"
"""Keeps tokens apart from the signatures of people's actions, whose names have no space."""

_TOKEN: Final = re.compile(
    r"oc1\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([1-9][0-9]{0,15})"
    r"(?:\.([0-9a-f]{16}))?\.(v2\..+)",
    re.ASCII,
)

Reason: TypeAlias = Literal[
    "too_long",
    "unreadable",
    "unknown_key",
    "forged",
    "other_audience",
    "other_run",
    "not_yet",
    "expired",
]
"""Why a token is refused, for logs: the customer reads the same sentence for all of them."""


class TokenRefused(IdentityRefused):
    """A token does not open a conversation.

    Attributes:
        reason: why, for logs. No response may show it.
    """

    def __init__(self, reason: Reason) -> None:
        super().__init__(NOT_OPENED)
        self.reason: Reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grant:
    """The signed record of a token; its place is the conversation."""

    expires_at_ms: int
    owner: str = ""
    proof: str | None = None


@dataclass(frozen=True, slots=True)
class _Claims:
    """What a text says that looks like a token; it may be a lie."""

    place: Place
    grant: _Grant
    proof: Proof


class ConversationTokens:
    """Mints and checks the tokens of customers.

    Args:
        keys: the first one that can sign makes tokens, and all of them are accepted. To replace a
            key, add the new one at the front; take the old one out when its tokens have expired.
        audience: names the deployment and its namespace, such as `desk.example.com/default`: where
            two deployments share a key, tokens of one do not count in the other.
    """

    def __init__(self, keys: IdentityKeys, *, audience: str) -> None:
        if not keys:
            raise UserError("Customers' tokens need a key. Make one with `outlast identity new`.")
        self._keys = keys
        self._audience = _checked(audience, "audience", LONGEST_AUDIENCE_BYTES)

    def __repr__(self) -> str:
        return f"ConversationTokens(audience={self._audience!r})"

    def mint(
        self,
        run_id: str,
        lifetime: timedelta = LIFETIME,
        *,
        owner: str = "",
        now_ms: int | None = None,
    ) -> str:
        """Return a new token for a conversation, which need not have begun.

        Whoever has the token reads the conversation and writes to it. Give it to the customer only
        after your program has checked that the conversation is theirs.

        Args:
            run_id: the workflow id of the conversation. A later run of the same id is the same
                conversation, unless the token names an owner and the run is another one's.
            lifetime: how long the token counts, up to 30 days.
            owner: whose the conversation is, as `RunFacts.owner` says once it has begun; empty for
                a token that counts whoever has begun it. Tokens of the desk's API name it.
            now_ms: the time in milliseconds since the epoch; None for that of this machine.

        Raises:
            UserError: the id or the lifetime does not fit, or no key can sign.
        """
        key = self._keys.signing
        if key is None:
            raise UserError("None of the keys can sign tokens. Pass the private key of one.")
        place = self._place(_checked(run_id, "run_id", LONGEST_ID_BYTES))
        if not timedelta(seconds=1) <= lifetime <= LONGEST_LIFETIME:
            raise UserError(f"lifetime= must be up to {LONGEST_LIFETIME}, not {lifetime}.")
        at_ms = clock.now_ms() if now_ms is None else now_ms
        ends_ms = at_ms + int(lifetime.total_seconds() * 1000)
        grant = _Grant(expires_at_ms=ends_ms, owner=owner)
        return _written(place, signed(grant, place, key, action=_ACTION, at_ms=at_ms))

    def customer(
        self, token: str, *, run_id: str | None = None, now_ms: int | None = None
    ) -> Customer:
        """Return the customer whom a token lets in.

        Args:
            token: the token, without the word `Bearer`.
            run_id: the conversation that the request is about; None if the token names it.
            now_ms: the time in milliseconds since the epoch; None for that of this machine.

        Raises:
            TokenRefused: the token does not count, or opens another conversation.
        """
        claims = _read(token)
        if all(key.id != claims.proof.key_id for key in self._keys.trusted):
            raise TokenRefused("unknown_key")
        # As of the time when it was signed: how long it counts is judged below.
        signed_at = claims.proof.at_ms
        if not is_genuine(claims.grant, claims.place, self._keys, now_ms=signed_at, action=_ACTION):
            raise TokenRefused("forged")
        now = clock.now_ms() if now_ms is None else now_ms
        if claims.place.namespace != self._audience:
            raise TokenRefused("other_audience")
        if now < signed_at - CLOCK_DIFFERENCE_MS:
            raise TokenRefused("not_yet")
        if now >= claims.grant.expires_at_ms:
            raise TokenRefused("expired")
        if run_id is not None and run_id != claims.place.run_id:
            raise TokenRefused("other_run")
        grant = claims.grant
        return Customer(claims.place.run_id, grant.expires_at_ms, grant.owner)

    def _place(self, run_id: str) -> Place:
        # A conversation goes on in later executions, so the token names none.
        return Place(namespace=self._audience, chain_id="", run_id=run_id)


def tokens_from_environment(url: str = "", namespace: str = "default") -> ConversationTokens | None:
    """Return what mints and checks tokens with the keys in OUTLAST_CONVERSATION_KEY.

    Args:
        url: the address of the desk, such as `https://desk.example.com`; empty for a desk on this
            machine. A backend that mints tokens names the same one.
        namespace: the namespace of the runs.

    Returns:
        None if the variable is not set.

    Raises:
        UserError: a key is unusable.
    """
    with as_user_error(IdentityKeyError):
        keys = keys_of(KEY_VARIABLE)
    place = urlsplit(url).netloc.lower() or "localhost"
    found = IdentityKeys(keys, KEY_VARIABLE)
    return ConversationTokens(found, audience=f"{place}/{namespace}") if found else None


def bearer_of(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the token in the headers of an ASGI request; None if there is none.

    A token in an address would be in logs and in the `Referer` of other pages, so only the header
    `Authorization` counts.

    Raises:
        TokenRefused: there are several, or it is no bearer token.
    """
    found = [value for name, value in headers if name.lower() == b"authorization"]
    if not found:
        return None
    scheme, _, token = found[0].partition(b" ")
    if len(found) > 1 or scheme.lower() != b"bearer" or not token.isascii():
        raise TokenRefused("unreadable")
    return token.decode().strip(" ")


def _read(token: object) -> _Claims:
    """Return what a text claims, if it is spelled as a token of its content would be."""
    if not isinstance(token, str):
        raise TokenRefused("unreadable")
    if len(token) > LONGEST_TOKEN:
        raise TokenRefused("too_long")
    found = _TOKEN.fullmatch(token)
    proof = None if found is None else parse_proof(found[5])
    if found is None or proof is None:
        raise TokenRefused("unreadable")
    try:
        run_id, audience = decoded(found[1]).decode(), decoded(found[2]).decode()
        decoded(proof.signature)
    except ValueError:
        raise TokenRefused("unreadable") from None
    place = Place(namespace=audience, chain_id="", run_id=run_id)
    grant = _Grant(expires_at_ms=int(found[3]), owner=found[4] or "", proof=found[5])
    return _Claims(place, grant, proof)


def _written(place: Place, grant: _Grant) -> str:
    run_id, audience = encoded(place.run_id.encode()), encoded(place.namespace.encode())
    owner = f".{grant.owner}" if grant.owner else ""
    return f"oc1.{run_id}.{audience}.{grant.expires_at_ms}{owner}.{grant.proof}"


def _checked(text: object, name: str, longest: int) -> str:
    if not isinstance(text, str) or not text:
        raise UserError(f"{name}= must be a text, not {text!r:.80}.")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise UserError(f"{name}= has half a character (a lone surrogate); remove it.") from None
    if size > longest:
        raise UserError(f"{name}= has {size:,} bytes, of at most {longest:,}.")
    return text
