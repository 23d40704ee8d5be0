"""Signatures of people's actions, made by clients and checked by workers with a shared key.

A signature covers the run, the action and every field of its record, so that a copy of it is of no
use for anything else. A worker that has a key refuses what is not signed with it.
"""

import base64
import binascii
import hashlib
import hmac
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, replace
from typing import Any, ClassVar, Final, Protocol, TypeVar, cast

from outlast.loop.values import Json


class Signable(Protocol):
    """A dataclass with a field `proof`, such as `Decision`."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


Record = TypeVar("Record", bound=Signable)

KEY_VARIABLE: Final = "OUTLAST_IDENTITY_KEY"

SHORTEST_KEY: Final = 32
"""The fewest bytes of a key, which is the length of its signatures."""

_FEWEST_DIFFERENT: Final = 8
"""Of bytes or characters in a key: random ones have about 30, a placeholder such as `xxxx` few."""

_SCHEME: Final = "v1"
_PROOF: Final = re.compile(r"v1\.(0|[1-9][0-9]{0,15})\.([0-9a-f]{64})")


class IdentityKeyError(ValueError):
    """A key is unusable; the message never contains any part of it."""


# --- Keys ----------------------------------------------------------------------------------------


def keys_from_environment(environment: Mapping[str, str] | None = None) -> tuple[bytes, ...]:
    """Return the keys in `OUTLAST_IDENTITY_KEY`; none if it is not set.

    Raises:
        IdentityKeyError: a key is too short or too simple.
    """
    return read_keys((os.environ if environment is None else environment).get(KEY_VARIABLE, ""))


def read_keys(text: str) -> tuple[bytes, ...]:
    """Return the keys in a text: base64 or plain text, separated by commas.

    The first key signs. All of them are accepted, so that keys can be replaced one by one.

    Raises:
        IdentityKeyError: a key is too short or too simple.
    """
    words = [word.strip() for word in text.split(",")]
    return tuple(
        _checked(_decoded(word), f"Key {at} of {len(words)} in {KEY_VARIABLE}", word)
        for at, word in enumerate(words, start=1)
        if word or len(words) > 1
    )


def _decoded(word: str) -> bytes:
    """Return the bytes of a key; every process has to read the same text in the same way."""
    try:
        found = base64.b64decode(word, validate=True)
    except (binascii.Error, ValueError):
        found = b""
    return found if len(found) >= SHORTEST_KEY else word.encode(errors="surrogateescape")


def _checked(key: bytes, name: str, written: str = "") -> bytes:
    if len(key) < SHORTEST_KEY:
        raise IdentityKeyError(
            f"{name} has {len(key)} bytes, but needs {SHORTEST_KEY} random ones. Make one with "
            "`openssl rand -base64 32`."
        )
    if min(len(set(one)) for one in (key, written or key)) < _FEWEST_DIFFERENT:
        raise IdentityKeyError(
            f"{name} repeats a few characters, so it can be guessed. Make a random one with "
            "`openssl rand -base64 32`."
        )
    return key


# --- Signatures ----------------------------------------------------------------------------------


def sign(
    action: str, run_id: str, record: Mapping[str, Json], key: bytes, *, at_ms: int = 0
) -> str:
    """Return the signature of an action in a run.

    Args:
        action: the name of the update, such as `decide` or `hold`.
        run_id: the workflow id of the run that receives the action.
        record: the fields of the action without its signature, as they are sent.
        key: the key.
        at_ms: when the action was signed, in milliseconds since the epoch. It is part of the
            signature, so that a worker can refuse a copy from an earlier run of the same id.

    Raises:
        IdentityKeyError: the key is too short or too simple.
        ValueError: a field cannot be sent as JSON without changing it.
    """
    _checked(key, "The identity key")
    return f"{_SCHEME}.{at_ms}.{_mac(action, run_id, record, key, at_ms)}"


def is_signed(
    action: str,
    run_id: str,
    record: Mapping[str, Json],
    proof: str | None,
    keys: Sequence[bytes],
    *,
    since_ms: int | None = None,
) -> bool:
    """Whether an action was signed with one of the keys; takes the same time for all keys.

    Args:
        action: the name of the update.
        run_id: the workflow id of the run that received it.
        record: its fields without the signature.
        proof: the signature.
        keys: the keys, of which any may have signed.
        since_ms: the earliest time of the signature, such as that of the approval request; None
            for any time.
    """
    text: object = proof  # anybody may have written it
    parts = _PROOF.fullmatch(text) if isinstance(text, str) else None
    if parts is None:
        return False
    at_ms, mac = int(parts[1]), parts[2].encode()
    if since_ms is not None and at_ms < since_ms:
        return False
    try:
        matches = [
            hmac.compare_digest(_mac(action, run_id, record, key, at_ms).encode(), mac)
            for key in keys
            if len(key) >= SHORTEST_KEY
        ]
    except (ValueError, RecursionError):
        return False
    return any(matches)


def signed(
    record: Record, run_id: str, key: bytes, *, action: str = "decide", at_ms: int = 0
) -> Record:
    """Return a decision, or the record of another action of a person, with its `proof`.

    Args:
        record: the record, complete.
        run_id: the workflow id of the run that receives it: the nested run, if that one asks.
        key: the key.
        action: the name of the update.
        at_ms: when it is signed, in milliseconds since the epoch.

    Raises:
        IdentityKeyError: the key is too short or too simple.
        ValueError: a field cannot be sent as JSON without changing it.
    """
    return replace(record, proof=sign(action, run_id, _fields_of(record), key, at_ms=at_ms))


def is_genuine(
    record: Signable,
    run_id: str,
    keys: Sequence[bytes],
    *,
    action: str = "decide",
    since_ms: int | None = None,
) -> bool:
    """Whether a decision, or another record, has a valid signature of one of the keys.

    Args:
        record: the record with its `proof`.
        run_id: the workflow id of the run that received it.
        keys: the keys, of which any may have signed.
        action: the name of the update.
        since_ms: the earliest time of the signature, such as that of the approval request.
    """
    proof: str | None = getattr(record, "proof", None)
    return is_signed(action, run_id, _fields_of(record), proof, keys, since_ms=since_ms)


def _fields_of(record: Signable) -> dict[str, Json]:
    """Return the signed fields: all with values other than their defaults, but the proof.

    So a record keeps its signature when later versions add fields, and a worker that does not read
    a field yet refuses a record that uses it.
    """
    return {
        field.name: getattr(record, field.name)
        for field in fields(record)
        if field.name != "proof"
        and (field.default is MISSING or getattr(record, field.name) != field.default)
    }


# --- Encoding ------------------------------------------------------------------------------------


def _mac(action: str, run_id: str, record: Mapping[str, Json], key: bytes, at_ms: int) -> str:
    signed_value = ["outlast", _SCHEME, action, run_id, at_ms, dict(record)]
    return hmac.new(key, _encoded(signed_value), hashlib.sha256).hexdigest()


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
