"""Signatures of people's actions: made by clients, checked by workers.

A signature covers the namespace, the execution and the run, the action, its time, a nonce, and
every field of its record, so that a copy of it is of no use for anything else. Keys are shared
secrets, or Ed25519 keys, where those who check cannot sign. `docs/concepts/identity.md` has the
model.
"""

import base64
import binascii
import hashlib
import hmac
import math
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Final, Protocol, TypeVar, cast

from outlast.loop.values import Json


class Signable(Protocol):
    """A dataclass with a field `proof`, such as `Decision`."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


Record = TypeVar("Record", bound=Signable)

KEY_VARIABLE: Final = "OUTLAST_IDENTITY_KEY"
"""The variable with the keys of a process that signs: shared secrets, or private keys."""

PUBLIC_KEYS_VARIABLE: Final = "OUTLAST_IDENTITY_PUBLIC_KEYS"
"""The variable with the public keys of a process that only checks signatures, such as a worker."""

SHORTEST_KEY: Final = 32
"""The fewest bytes of a shared secret, which is the length of its signatures."""

LONGEST_AGE_MS: Final = 10 * 60_000
"""How long after it was signed an action may reach its run."""

LONGEST_VOTE_AGE_MS: Final = 7 * 24 * 3_600_000
"""How long after it was signed a decision may let a call run, such as where others vote later."""

CLOCK_DIFFERENCE_MS: Final = 5 * 60_000
"""How much the clocks of clients, workers and the server may differ."""

ED25519: Final = "ed25519:"
"""The beginning of an Ed25519 key: 32 bytes in base64 follow."""

_FEWEST_DIFFERENT: Final = 8
"""Of bytes or characters in a key: random ones have about 30, a placeholder such as `xxxx` few."""

_SMALL_ORDER: Final = frozenset(
    bytes.fromhex(one)
    for one in (
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    )
)
"""Points for which anybody makes signatures, beside those of few different bytes: see RFC 7748."""

_SCHEME: Final = "v2"
_PROOF: Final = re.compile(
    r"v2\.([0-9a-f]{8})\.(0|[1-9][0-9]{0,15})\.([0-9a-f]{32})\.([A-Za-z0-9_-]{43}|[A-Za-z0-9_-]{86})"
)


class IdentityKeyError(ValueError):
    """A key is unusable; the message never contains any part of it."""


# --- Keys ----------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class IdentityKey:
    """A key that signs, checks, or both; never shown.

    Attributes:
        secret: the shared secret, or the 32 bytes of an Ed25519 private key; None for a public key.
        public: the 32 bytes of an Ed25519 public key; None for a shared secret.
    """

    secret: bytes | None = None
    public: bytes | None = None

    @cached_property
    def id(self) -> str:
        """Tells the key from others; it says nothing about a secret."""
        kind, content = (
            (b"secret", self.secret) if self.public is None else (b"ed25519", self.public)
        )
        return hashlib.sha256(b"outlast key id " + kind + (content or b"")).hexdigest()[:8]

    @property
    def can_sign(self) -> bool:
        """Whether the key signs."""
        return self.secret is not None

    def signature(self, content: bytes) -> str:
        """Return the signature of some bytes.

        Raises:
            IdentityKeyError: it is a public key.
        """
        if self.secret is None:
            raise IdentityKeyError("A public identity key cannot sign. Use its private key.")
        if self.public is None:
            return _base64(hmac.new(self.secret, content, hashlib.sha256).digest())
        return _base64(self._private.sign(content))

    def is_signature(self, signature: str, content: bytes) -> bool:
        """Whether a text is this key's signature of some bytes."""
        given = signature.encode()
        if self.public is None:
            return hmac.compare_digest(self.signature(content).encode(), given)
        from cryptography.exceptions import InvalidSignature

        try:
            self._public.verify(base64.urlsafe_b64decode(given + b"=="), content)
        except (InvalidSignature, ValueError):
            return False
        return True

    @cached_property
    def _private(self) -> Any:
        return _ed25519().Ed25519PrivateKey.from_private_bytes(self.secret or b"")

    @cached_property
    def _public(self) -> Any:
        return _ed25519().Ed25519PublicKey.from_public_bytes(self.public or b"")


@dataclass(frozen=True)
class IdentityKeys:
    """The keys of a process.

    Attributes:
        trusted: the keys whose signatures count.
        source: where they come from, for people.
    """

    trusted: tuple[IdentityKey, ...] = ()
    source: str = ""

    @property
    def signing(self) -> IdentityKey | None:
        """The key that signs: the first one that can."""
        return next((key for key in self.trusted if key.can_sign), None)

    def __bool__(self) -> bool:
        """Whether there is a key."""
        return bool(self.trusted)


NO_KEYS: Final = IdentityKeys()


def keys_from_environment(environment: Mapping[str, str] | None = None) -> IdentityKeys:
    """Return the keys in `OUTLAST_IDENTITY_KEY` and `OUTLAST_IDENTITY_PUBLIC_KEYS`.

    Raises:
        IdentityKeyError: a key is unusable, or of the wrong kind for its variable.
    """
    private = keys_of(KEY_VARIABLE, environment)
    public = keys_of(PUBLIC_KEYS_VARIABLE, environment)
    if {one.secret for one in private} & {one.public for one in public}:
        raise IdentityKeyError(
            f"{KEY_VARIABLE} and {PUBLIC_KEYS_VARIABLE} have the same key. Whoever knows a public "
            "key could sign with it: make a pair with `outlast identity new`."
        )
    places = {KEY_VARIABLE: private, PUBLIC_KEYS_VARIABLE: public}
    source = " and ".join(name for name, keys in places.items() if keys)
    return IdentityKeys((*private, *public), source)


def keys_of(variable: str, environment: Mapping[str, str] | None = None) -> tuple[IdentityKey, ...]:
    """Return the keys in a variable, or in the file that `VARIABLE_FILE` names.

    Raises:
        IdentityKeyError: the file cannot be read, or a key is unusable.
    """
    from outlast.edges.secret_files import SecretFileError, secret

    try:
        return read_keys(secret(variable, environment), variable)
    except SecretFileError as error:
        raise IdentityKeyError(str(error)) from None


def read_keys(text: str, variable: str = KEY_VARIABLE) -> tuple[IdentityKey, ...]:
    """Return the keys in a text: separated by commas, so that they can be replaced one by one.

    A key is `ed25519:` and 32 bytes in base64, or a shared secret: base64 or plain text. The first
    key signs, all of them are accepted.

    Args:
        text: the keys.
        variable: the variable that they come from: `OUTLAST_IDENTITY_PUBLIC_KEYS` for public keys.

    Raises:
        IdentityKeyError: a key is too short or too simple, or a shared secret where public keys
        belong.
    """
    words = [word.strip() for word in text.split(",")]
    return tuple(
        _read_key(word, f"Key {at} of {len(words)} in {variable}", variable == PUBLIC_KEYS_VARIABLE)
        for at, word in enumerate(words, start=1)
        if word or len(words) > 1
    )


def new_shared_key() -> str:
    """Return a new shared secret as text."""
    return base64.b64encode(secrets.token_bytes(SHORTEST_KEY)).decode()


def new_key_pair() -> tuple[str, str]:
    """Return a new Ed25519 key as texts: the private key, and its public key.

    Raises:
        IdentityKeyError: the package `cryptography` is missing.
    """
    key = _from_private(secrets.token_bytes(32))
    return tuple(
        ED25519 + base64.b64encode(part or b"").decode() for part in (key.secret, key.public)
    )  # pyright: ignore[reportReturnType]  two parts


def _read_key(word: str, name: str, is_public: bool) -> IdentityKey:  # noqa: FBT001
    if word.startswith(ED25519):
        try:
            content = base64.b64decode(word.removeprefix(ED25519), validate=True)
        except (binascii.Error, ValueError):
            content = b""
        if len(content) != 32:
            raise IdentityKeyError(
                f"{name} is no Ed25519 key: {ED25519} and 32 bytes in base64. Make a pair with "
                "`outlast identity new`."
            )
        key = IdentityKey(public=content) if is_public else _from_private(content)
        point = content[:31] + bytes([content[31] & 0x7F])  # the sign makes no difference
        if len(set(content)) < _FEWEST_DIFFERENT or (is_public and point in _SMALL_ORDER):
            raise IdentityKeyError(
                f"{name} is a placeholder, for which anybody could sign. Make a pair with "
                "`outlast identity new`."
            )
        return key
    if is_public:
        raise IdentityKeyError(
            f"{name} is no public key, which begins with {ED25519}. Shared secrets belong in "
            f"{KEY_VARIABLE}; make a pair of keys with `outlast identity new`."
        )
    return shared_key(_decoded(word), name, word)


def shared_key(secret: bytes, name: str = "The identity key", written: str = "") -> IdentityKey:
    """Return the key of a shared secret.

    Args:
        secret: the secret.
        name: its name in the error message.
        written: the text that it comes from.

    Raises:
        IdentityKeyError: it is too short or too simple.
    """
    if len(secret) < SHORTEST_KEY:
        raise IdentityKeyError(
            f"{name} has {len(secret)} bytes, but needs {SHORTEST_KEY} random ones. Make one with "
            "`openssl rand -base64 32`."
        )
    if min(len(set(one)) for one in (secret, written or secret)) < _FEWEST_DIFFERENT:
        raise IdentityKeyError(
            f"{name} repeats a few characters, so it can be guessed. Make a random one with "
            "`openssl rand -base64 32`."
        )
    return IdentityKey(secret=secret)


def _decoded(word: str) -> bytes:
    """Return the bytes of a key; every process has to read the same text in the same way."""
    try:
        found = base64.b64decode(word, validate=True)
    except (binascii.Error, ValueError):
        found = b""
    return found if len(found) >= SHORTEST_KEY else word.encode(errors="surrogateescape")


def _from_private(content: bytes) -> IdentityKey:
    private = _ed25519().Ed25519PrivateKey.from_private_bytes(content)
    return IdentityKey(secret=content, public=private.public_key().public_bytes_raw())


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise IdentityKeyError(
            "An Ed25519 identity key needs the package cryptography: pip install "
            "'outlast[identity]'."
        ) from None
    return ed25519


# --- Signatures ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The run for which an action is signed.

    Attributes:
        namespace: its namespace.
        chain_id: the first execution of the run, or of the run that all others are nested in. A
            later run of the same id has another one.
        run_id: the workflow id of the run that receives the action: of the nested run, if that one
            asks.
    """

    namespace: str
    chain_id: str
    run_id: str


@dataclass(frozen=True, slots=True)
class Proof:
    """The parts of a signature: the key that made it, when, its nonce, and the signature itself."""

    key_id: str
    at_ms: int
    nonce: str
    signature: str


def parse_proof(text: object) -> Proof | None:
    """Return the parts of a proof; None if it is none. Anybody may have written the text."""
    found = _PROOF.fullmatch(text) if isinstance(text, str) else None
    return None if found is None else Proof(found[1], int(found[2]), found[3], found[4])


def signed(
    record: Record, place: Place, key: IdentityKey, *, action: str = "decide", at_ms: int
) -> Record:
    """Return a decision, or the record of another action of a person, with its `proof`.

    Each call makes another nonce: a run takes a signed action once.

    Args:
        record: the record, complete.
        place: the run that receives it.
        key: the key.
        action: the name of the update.
        at_ms: when it is signed, in milliseconds since the epoch.

    Raises:
        IdentityKeyError: the key cannot sign.
        ValueError: a field cannot be sent as JSON without changing it.
    """
    nonce = secrets.token_hex(16)
    content = _content(record, place, action, at_ms, nonce)
    proof = f"{_SCHEME}.{key.id}.{at_ms}.{nonce}.{key.signature(content)}"
    return replace(record, proof=proof)


def proof_problem(
    record: Signable,
    place: Place,
    keys: IdentityKeys,
    *,
    now_ms: int,
    action: str = "decide",
    longest_ms: int = LONGEST_AGE_MS,
    clocks_ms: int = CLOCK_DIFFERENCE_MS,
) -> str | None:
    """Return why a record's proof does not count, or None if it does.

    Args:
        record: the record with its `proof`.
        place: the run that received it.
        keys: the keys that are trusted.
        now_ms: the time, in milliseconds since the epoch.
        action: the name of the update.
        longest_ms: how old the proof may be.
        clocks_ms: how much the clocks may differ.
    """
    text: object = getattr(record, "proof", None)
    if text is None:
        return "it has no proof of who sends it"
    proof = parse_proof(text)
    if proof is None:
        return "its proof cannot be read"
    if not keys:
        return (
            f"this worker has no identity key to check its proof with (set {PUBLIC_KEYS_VARIABLE} "
            f"or {KEY_VARIABLE})"
        )
    named = [one for one in keys.trusted if one.id == proof.key_id]
    if not named:
        return f"it is signed with the key {proof.key_id}, which this worker does not trust"
    try:
        content = _content(record, place, action, proof.at_ms, proof.nonce)
    except (ValueError, RecursionError):
        return "it cannot be read as it was signed"
    if not any(one.is_signature(proof.signature, content) for one in named):
        return "its signature is for something else, or of another key"
    if proof.at_ms > now_ms + clocks_ms:
        return "it is signed in the future (compare the clocks)"
    if proof.at_ms < now_ms - longest_ms - clocks_ms:
        return "its signature is too old"
    return None


def is_genuine(
    record: Signable, place: Place, keys: IdentityKeys, *, now_ms: int, action: str = "decide"
) -> bool:
    """Whether a record has a proof that counts; see `proof_problem`."""
    return proof_problem(record, place, keys, now_ms=now_ms, action=action) is None


def _content(record: Signable, place: Place, action: str, at_ms: int, nonce: str) -> bytes:
    """Return the bytes that a signature covers."""
    return _encoded(
        [
            "outlast",
            _SCHEME,
            action,
            place.namespace,
            place.chain_id,
            place.run_id,
            at_ms,
            nonce,
            signed_fields(record),
        ]
    )


def signed_fields(record: Signable) -> dict[str, Json]:
    """Return the signed fields: all with values other than their defaults, but the proof.

    So a record keeps its signature when later versions add fields, and a worker that does not read
    a field yet refuses a record that uses it.
    """
    return {
        field.name: signed_value(getattr(record, field.name))
        for field in fields(record)
        if field.name != "proof"
        and (field.default is MISSING or getattr(record, field.name) != field.default)
    }


def signed_value(value: Any) -> Json:
    """Return a field's value; a record in it as its own fields, without those that say nothing."""
    if not hasattr(value, "__dataclass_fields__"):
        return value
    own = {field.name: getattr(value, field.name) for field in fields(value)}
    return {name: one for name, one in own.items() if one is not None}


# --- Encoding ------------------------------------------------------------------------------------


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _encoded(value: Any) -> bytes:
    """Return a JSON value as bytes: one spelling for each value, and no two values share one.

    Every part begins with its kind and its length, so no text can pass for another structure.

    Raises:
        ValueError: the value would be another one after its way through JSON.
    """
    match value:
        case None:
            return b"n"
        case bool():
            return b"t" if value else b"f"
        case int():
            return _part(b"i", str(value).encode())
        case float():
            if not math.isfinite(value):
                raise ValueError(f"{value} is no JSON number, so it cannot be signed.")
            return _part(b"d", repr(value).encode())
        case str():
            return _part(b"s", _bytes_of(value))
        case list() | tuple():
            entries = cast("Sequence[Any]", value)
            return _part(b"l", b"".join(_encoded(entry) for entry in entries))
        case dict():
            named = cast("dict[Any, Any]", value)
            if not all(isinstance(name, str) for name in named):
                raise ValueError("The names of an object must be texts, so it cannot be signed.")
            pairs = sorted((_bytes_of(name), field) for name, field in named.items())
            return _part(
                b"o", b"".join(_part(b"s", name) + _encoded(field) for name, field in pairs)
            )
        case _:
            raise ValueError(f"A {type(value).__name__} is no JSON, so it cannot be signed.")


def _bytes_of(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError("A text has half a character (a lone surrogate); remove it.") from None


def _part(kind: bytes, content: bytes) -> bytes:
    return kind + str(len(content)).encode() + b":" + content
