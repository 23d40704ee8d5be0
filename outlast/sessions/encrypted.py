"""Sessions that encrypt items before another session stores them."""

import base64
import binascii
import json
import time
from hashlib import sha256
from typing import Any, Final, Literal, TypedDict, TypeGuard, cast

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from outlast.agents.checks import check_count
from outlast.agents.config.session_input import plain_item
from outlast.agents.errors import UserError
from outlast.agents.json_values import as_object
from outlast.agents.logs import get_logger
from outlast.loop.values import JsonObject
from outlast.ports.session import Session, item_limit
from outlast.sessions.wrapped import EVERYTHING, WrappedSession, replace_items

logger: Final = get_logger(__name__)

_KEY_BYTES = 32
_PURPOSE = b"agents.session-store.hkdf.v1"
_METHOD = "hkdf-v1"


class EncryptedEnvelope(TypedDict):
    """An encrypted item, as the other session stores it.

    Attributes:
        v: the version of the format.
        kid: how the key is derived.
        payload: the encrypted item, a Fernet token.
    """

    __enc__: Literal[1]
    v: int
    kid: str
    payload: str


class EncryptedSession(WrappedSession):
    """A session that encrypts its items; items expire.

    The key is derived from `encryption_key` and the session's id, and the format is that of the
    OpenAI Agents SDK, so that both read the same sessions. Plain items of the other session are not
    read. Expired items are left out, and stay in the other session.

    It needs the extra `encrypt`, which installs the package `cryptography`.
    """

    def __init__(
        self,
        session_id: str,
        underlying_session: Session,
        encryption_key: str,
        ttl: int = 600,
        max_scan_items: int | None = None,
    ) -> None:
        """Wrap a session.

        Args:
            session_id: the id of the conversation, which is part of the key.
            underlying_session: the session that stores the encrypted items.
            encryption_key: a key of `Fernet.generate_key().decode()`, or another random secret. A
                password is not enough.
            ttl: the time in seconds after which items expire, by the clock of this machine.
            max_scan_items: how many stored items one `get_items` reads at most; None for no limit.

        Raises:
            UserError: an argument is invalid.
        """
        if callable(getattr(underlying_session, "run_compaction", None)):
            raise UserError(
                "EncryptedSession cannot encrypt a session that compacts, because the provider "
                "could not read its items. Wrap it the other way round: "
                "OpenAIResponsesCompactionSession(session_id, EncryptedSession(...))."
            )
        if not isinstance(cast("object", encryption_key), str) or not encryption_key:
            raise UserError("EncryptedSession: encryption_key must be a non-empty string.")
        check_count("EncryptedSession: ttl", ttl, expected="a positive number")
        if max_scan_items is not None:
            place = "EncryptedSession: max_scan_items"
            check_count(place, max_scan_items, expected="a positive number")
        super().__init__(session_id, underlying_session)
        self.ttl = ttl
        self.max_scan_items = max_scan_items
        self._cipher = _cipher(encryption_key, session_id)
        self._fingerprint = sha256(f"{session_id} {encryption_key}".encode()).hexdigest()[:8]

    @property
    def store_name(self) -> str:
        """The store of the other session, with a fingerprint of the key of this one."""
        return f"{super().store_name} key {self._fingerprint}".lstrip()

    def stored(self, items: list[Any]) -> list[Any]:
        """Return items as encrypted envelopes."""
        return [self._encrypt(item) for item in items]

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the newest `limit` readable items that have not expired, oldest first.

        Raises:
            UserError: `max_scan_items` stored items did not hold that many.
        """
        count = item_limit(limit, self.session_settings)
        if count == 0:
            return []
        bound = self.max_scan_items or EVERYTHING
        window = min(count or bound, bound)
        while True:
            envelopes = await self.underlying_session.get_items(limit=window)
            items = [item for _, item in self._decrypt(envelopes)]
            if count is not None and len(items) >= count:
                return items[-count:]
            if len(envelopes) < window:
                return items
            if window == bound:
                raise UserError(
                    f"The session {self.session_id!r} has more items than max_scan_items="
                    f"{self.max_scan_items}, and too few of them can be read. Raise the number, or "
                    "remove expired items from the other session."
                )
            window = min(window * 2, bound)

    async def pop_item(self) -> Any | None:
        """Remove and return the newest item that has not expired; None if there is none.

        Raises:
            UserError: the newest item was encrypted with another key; it stays where it is.
        """
        while newest := await self.underlying_session.get_items(limit=1):
            if _is_envelope(newest[0]) and self._read(newest[0]) is None:
                raise UserError(
                    f"The newest item of the session {self.session_id!r} was encrypted with another "
                    "key or for another session. Open the session with the key that it was "
                    "written with."
                )
            popped = await self.underlying_session.pop_item()
            for _, item in self._decrypt([] if popped is None else [popped]):
                return item
        return None

    async def replace_items(self, old: list[Any], new: list[Any]) -> bool:
        """Replace the oldest items, and keep the newer ones; see `ReplaceableSession`."""
        envelopes = await self.underlying_session.get_items(limit=EVERYTHING)
        opened = self._decrypt(envelopes)
        if [item for _, item in opened[: len(old)]] != old:
            return False
        end = opened[len(old) - 1][0] + 1 if old else 0
        return await replace_items(self.underlying_session, envelopes[:end], self.stored(new))

    def _encrypt(self, item: object) -> EncryptedEnvelope:
        plain = plain_item(item, what="add_items")
        text = json.dumps(plain, separators=(",", ":"))
        token = self._cipher.encrypt(text.encode()).decode()
        return {"__enc__": 1, "v": 1, "kid": _METHOD, "payload": token}

    def _decrypt(self, envelopes: list[Any]) -> list[tuple[int, JsonObject]]:
        found: list[tuple[int, JsonObject]] = []
        unreadable = 0
        for at, envelope in enumerate(envelopes):
            read = self._read(envelope)
            if read is None:
                unreadable += 1
            elif read[0] >= time.time() - self.ttl:
                found.append((at, read[1]))
        if unreadable:
            logger.warning(
                "%d items of the session %r are left out: they are not encrypted, or with another "
                "key or for another session.",
                unreadable,
                self.session_id,
            )
        return found

    def _read(self, envelope: object) -> tuple[int, JsonObject] | None:
        """Return the encryption time and the item, or None if it is not readable."""
        if not _is_envelope(envelope):
            return None
        token = envelope["payload"].encode()
        try:
            # The time-to-live is checked by the caller: only an expired item is no surprise.
            item = as_object(json.loads(self._cipher.decrypt(token)))
            made_at = self._cipher.extract_timestamp(token)
        except (InvalidToken, ValueError):
            return None
        return None if item is None else (made_at, item)


def _is_envelope(item: object) -> TypeGuard[EncryptedEnvelope]:
    fields = as_object(item) or {}
    return fields.get("__enc__") == 1 and isinstance(fields.get("payload"), str)


def _cipher(secret: str, session_id: str) -> Fernet:
    key = secret.encode()
    try:
        decoded = base64.urlsafe_b64decode(secret)
    except (binascii.Error, ValueError):
        decoded = b""
    if len(decoded) == _KEY_BYTES:  # a Fernet key
        key = decoded
    salt = session_id.encode()
    derive = HKDF(algorithm=hashes.SHA256(), length=_KEY_BYTES, salt=salt, info=_PURPOSE)
    return Fernet(base64.urlsafe_b64encode(derive.derive(key)))
