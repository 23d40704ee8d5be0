"""A payload codec that encrypts the content of runs, with keys that rotate."""

import base64
import binascii
import hmac
import os
import re
import secrets
import stat
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "outlast.encryption needs cryptography: pip install 'outlast[encrypt]'", name=error.name
    ) from error

from outlast.agents.errors import UserError
from outlast.temporal.payloads.readable import UndecodablePayload

KEYS_VARIABLE: Final = "OUTLAST_ENCRYPTION_KEYS"
"""The environment variable that names the file of keys."""

ENCODING: Final = b"binary/encrypted"
KEY_ID: Final = "encryption-key-id"
FORMAT: Final = "encryption-format"
AES_256_GCM: Final = b"outlast-aes-256-gcm-1"
"""The only format so far: a key for each payload, derived from the secret key and a random salt."""

FOR_DIGESTS: Final = b"outlast-digest-1"
"""Digests have a key of their own, which is derived from the secret key."""

KEY_BYTES: Final = 32
_SALT_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_DIGEST: Final = 32  # 128 bits in hexadecimal
_KEY_ID: Final = re.compile(r"[\w.-]{1,64}", re.ASCII)


class EncryptionCodec(PayloadCodec):
    """Encrypts every payload with AES-256-GCM, and decrypts with any key that it knows.

    A payload names the key that it was encrypted with. The name, the format and the scope are
    authenticated with the content. A changed, foreign or plain payload is refused.

    It needs the extra `encrypt`, which installs the package `cryptography`.
    """

    def __init__(
        self,
        keys: Mapping[str, bytes | str],
        current: str,
        *,
        scope: str = "",
        accept_plain: bool = False,
    ) -> None:
        """Create a codec.

        Args:
            keys: secret keys of 32 random bytes by id, as bytes or in base64. Ids are readable in
                histories.
            current: the id of the key to encrypt with. The others are for what is there already.
            scope: where the payloads belong, such as `production`: a payload that was encrypted
                for another scope is refused, also with the same key. It is not stored.
            accept_plain: also read payloads that are not encrypted, as runs from before have them.
                Whoever can write to the server can then write plain ones.
        """
        self._keys = {key_id: _key(key_id, key) for key_id, key in keys.items()}
        if current not in self._keys:
            known = ", ".join(self._keys) or "none"
            raise UserError(
                f"EncryptionCodec(current={current!r}): there is no such key. The ids of the keys "
                f"are {known}."
            )
        self._current = current
        self._scope = scope.encode()
        self.accepts_plain = accept_plain

    @classmethod
    def from_file(cls, path: str | Path) -> "EncryptionCodec":
        """Return a codec with the settings and keys of a TOML file.

        The file has `current`, optionally `scope` and `accept_plain`, and a table `keys` of keys in
        base64 by id. Others may not read it: a file of this user has the mode 0600, one of another
        user, such as a mounted secret, at most 0440.
        """
        place = Path(path).expanduser()
        try:
            found = place.stat()
            settings = tomllib.loads(place.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            # The text of an error in the content may quote a key.
            problem = error.strerror if isinstance(error, OSError) else "it is no TOML in UTF-8"
            raise UserError(f"The file of keys {place} cannot be read: {problem}.") from None
        if hasattr(os, "geteuid"):  # on Windows, modes say nothing about other users
            is_ours = found.st_uid == os.geteuid()
            of_others = stat.S_IRWXO | (stat.S_IRWXG if is_ours else stat.S_IWGRP)
        else:
            of_others = 0
        if found.st_mode & of_others:
            raise UserError(
                f"The file of keys {place} has the mode {stat.S_IMODE(found.st_mode):04o}, so that "
                f"others can read or change it. Run `chmod 600 {place}`."
            )
        return cls(**_arguments(place, settings))

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Return the payloads encrypted, with their metadata."""
        return [self._encrypted(payload) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Return the payloads decrypted.

        Raises:
            UndecodablePayload: one is damaged, not encrypted, or under a key that is not known.
        """
        return [self._decrypted(payload) for payload in payloads]

    def digests_of(self, text: str) -> list[str]:
        """Return a keyed digest of a text for each key, the current key's first.

        Runs are found by the digest of their customer: whoever reads search attributes without a
        key can neither read it nor compare it with a list of customers.
        """
        others = [key_id for key_id in self._keys if key_id != self._current]
        found = [self._digest(key_id, text) for key_id in (self._current, *others)]
        return [*found, text] if self.accepts_plain else found

    def _digest(self, key_id: str, text: str) -> str:
        key = HKDF(algorithm=hashes.SHA256(), length=KEY_BYTES, salt=None, info=FOR_DIGESTS)
        secret = key.derive(self._keys[key_id])
        return hmac.digest(
            secret, self._scope + b"\0" + text.encode(errors="surrogatepass"), "sha256"
        ).hex()[:_DIGEST]

    def _encrypted(self, payload: Payload) -> Payload:
        key_id = self._current.encode()
        salt = secrets.token_bytes(_SALT_BYTES)
        cipher, nonce = self._cipher(self._current, salt)
        content = cipher.encrypt(nonce, payload.SerializeToString(), self._associated(key_id))
        metadata = {"encoding": ENCODING, FORMAT: AES_256_GCM, KEY_ID: key_id}
        return Payload(metadata=metadata, data=salt + content)

    def _decrypted(self, payload: Payload) -> Payload:
        metadata = payload.metadata
        if metadata.get("encoding") != ENCODING:
            if self.accepts_plain:
                return payload
            raise UndecodablePayload("The payload is not encrypted.")
        key_id = metadata.get(KEY_ID, b"")
        if metadata.get(FORMAT) != AES_256_GCM or len(payload.data) < _SALT_BYTES + _TAG_BYTES:
            raise UndecodablePayload("The payload was encrypted by another codec.")
        name = key_id.decode(errors="backslashreplace")
        if name not in self._keys:
            raise UndecodablePayload(f"The key {name!r:.100} is not known here.")
        cipher, nonce = self._cipher(name, payload.data[:_SALT_BYTES])
        try:
            content = cipher.decrypt(nonce, payload.data[_SALT_BYTES:], self._associated(key_id))
        except InvalidTag:
            raise UndecodablePayload(
                f"The payload is damaged, of another scope, or under another key {name!r}."
            ) from None
        return Payload.FromString(content)

    def _cipher(self, key_id: str, salt: bytes) -> tuple[AESGCM, bytes]:
        """Return the cipher and the nonce of one payload.

        A random nonce under one key would be safe for 2^32 payloads only; a derived key is for any
        number.
        """
        length = KEY_BYTES + _NONCE_BYTES
        derive = HKDF(algorithm=hashes.SHA256(), length=length, salt=salt, info=AES_256_GCM)
        derived = derive.derive(self._keys[key_id])
        return AESGCM(derived[:KEY_BYTES]), derived[KEY_BYTES:]

    def _associated(self, key_id: bytes) -> bytes:
        return b"\0".join((AES_256_GCM, key_id, self._scope))


def codec() -> EncryptionCodec:
    """Return the codec with the file of keys that `OUTLAST_ENCRYPTION_KEYS` names.

    For `OUTLAST_CODEC=outlast.encryption:codec`.
    """
    path = os.environ.get(KEYS_VARIABLE, "")
    if not path:
        raise UserError(f"{KEYS_VARIABLE} is unset: set it to the path of the file of keys.")
    return EncryptionCodec.from_file(path)


def _key(key_id: Any, key: Any) -> bytes:
    if not isinstance(key_id, str) or not _KEY_ID.fullmatch(key_id):
        raise UserError(
            f"EncryptionCodec: the key id {key_id!r:.100} must be 1 to 64 letters, digits, '.', '_' "
            "or '-', such as '2026-11'."
        )
    if isinstance(key, str):
        try:
            key = base64.b64decode(key, validate=True)
        except (binascii.Error, ValueError):
            key = b""
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        raise UserError(
            f"EncryptionCodec: the key {key_id!r} must be {KEY_BYTES} random bytes, or base64 of "
            f"them. `openssl rand -base64 {KEY_BYTES}` makes one."
        )
    return key


def _arguments(place: Path, settings: dict[str, Any]) -> dict[str, Any]:
    kinds = {"current": str, "keys": dict, "scope": str, "accept_plain": bool}
    lacking = [name for name in ("current", "keys") if name not in settings]
    wrong = [
        name
        for name, value in settings.items()
        if name not in kinds or not isinstance(value, kinds[name])
    ]
    if lacking or wrong:
        problem = f"lacks {', '.join(lacking)}" if lacking else f"has an invalid {wrong[0]!r:.100}"
        raise UserError(
            f"The file of keys {place} {problem}. It has `current`, the id of a key, and a table "
            "`keys` of keys in base64 by id; `scope` and `accept_plain` are optional."
        )
    return settings
