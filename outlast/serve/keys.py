"""API keys of programs: a file says what each key is for, and is read again when it changes.

The file has digests and no keys, so whoever reads it can use none of them.
"""

import hashlib
import hmac
import json
import logging
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from outlast.agents.errors import UserError
from outlast.dev.ownership import write_private
from outlast.edges.clock import now_ms
from outlast.serve.access import RULES, Action, KeyScope, Program
from outlast.temporal.visibility.scopes import RunScope

logger = logging.getLogger("outlast.serve")

KEY_PREFIX: Final = "ok_"
"""What keys begin with, so that scanners of secrets and people tell them from others."""

CHECKED_AFTER: Final = timedelta(minutes=10)
"""How long a stream of a program lasts: then its key is checked again."""

ACTIONS: Final[tuple[Action, ...]] = tuple(name for name, rule in RULES.items() if rule.programs)
"""What an API key may be for."""

LONGEST_NAME: Final = 100


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class OldDigest(_Record):
    """The digest of a key that was replaced, and until when it still counts."""

    digest: str = Field(pattern=r"^[0-9a-f]{64}$")
    until: datetime


_Name = Annotated[str, Field(min_length=1)]
"""A name in a scope. An empty one would be that of the runs without a tenant."""


class ApiKey(_Record):
    """One key of the file.

    Attributes:
        name: names the program: in deliveries, and as the owner of the conversations that it begins.
        digest: the SHA-256 of the key, in hexadecimal digits.
        actions: what it is for, by the names of the table of `access`.
        agents: the agents that its conversations may have; empty for any.
        tenants: the tenants of its conversations; empty for any.
        conversations: whether it is for all of these, or only for those that it began.
        waits: the waits that it may finish, by name; `*` for any.
        expires: when it ends; None for never.
        old: the digests of keys before it that still count.
    """

    name: str = Field(min_length=1, max_length=LONGEST_NAME)
    digest: str = Field(pattern=r"^[0-9a-f]{64}$")
    actions: tuple[Action, ...]
    agents: tuple[_Name, ...] = ()
    tenants: tuple[_Name, ...] = ()
    conversations: Literal["own", "all"] = "own"
    waits: tuple[_Name, ...] = ()
    expires: datetime | None = None
    old: tuple[OldDigest, ...] = ()

    @property
    def scope(self) -> KeyScope:
        """What the key is for, as requests are judged."""
        return KeyScope(
            actions=frozenset(self.actions),
            runs=RunScope(tenants=frozenset(self.tenants), agents=frozenset(self.agents)),
            own_only=self.conversations == "own",
            waits=frozenset(self.waits),
        )

    def digests(self, at: datetime) -> Iterable[tuple[str, datetime | None]]:
        """Yield the digests that count at a time, and until when."""
        if self.expires is not None and self.expires <= at:
            return
        yield self.digest, self.expires
        for one in self.old:
            if one.until > at:
                yield one.digest, min(one.until, self.expires or one.until)


class _File(_Record):
    version: Literal[1] = 1
    keys: tuple[ApiKey, ...] = ()
    revoked: tuple[str, ...] = ()


def new_key() -> tuple[str, str]:
    """Return a new key, and its digest."""
    key = KEY_PREFIX + secrets.token_urlsafe(32)
    return key, digest_of(key)


def digest_of(key: str) -> str:
    """Return the digest of a key, as the file has it. A key is random, so one round is enough."""
    return hashlib.sha256(key.encode()).hexdigest()


# --- The file --------------------------------------------------------------------------------------


def read_keys(path: Path) -> tuple[ApiKey, ...]:
    """Return the keys of a file; none if there is no such file.

    Raises:
        UserError: it cannot be read, or is no file of keys.
    """
    return _read(path).keys


def check_new(path: Path, name: str) -> None:
    """Refuse a name for a new key that another program had: its conversations have that name.

    Raises:
        UserError: a key of the file has the name, or had it.
    """
    file = _read(path)
    if any(one.name == name for one in file.keys):
        raise UserError(f"{path} has a key {name!r:.80}. Replace it with `outlast keys rotate`.")
    if name in file.revoked:
        raise UserError(
            f"{path} had a key {name!r:.80}, which was revoked: a new one would have the "
            "conversations that it began. Choose another name; or, for the same program, take the "
            "name out of `revoked` in the file."
        )


def _read(path: Path) -> _File:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return _File()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"The file of API keys {path} cannot be read: {error}") from None
    try:
        file = _File.model_validate_json(text)
    except ValidationError as error:
        [first, *_] = error.errors(include_url=False, include_context=False, include_input=False)
        place = ".".join(map(str, first["loc"])) or "the file"
        raise UserError(f"{path} is no file of API keys: {place}: {first['msg']}.") from None
    for one in file.keys:
        times = [one.expires, *(old.until for old in one.old)]
        if any(time is not None and time.tzinfo is None for time in times):
            raise UserError(f"{path}: the times of the key {one.name!r} need an offset, such as Z.")
    names = [one.name for one in file.keys]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"{path} names the key {twice!r} twice.")
    return file


def write_keys(path: Path, keys: Sequence[ApiKey]) -> None:
    """Replace a file of keys at once; only this user can read it.

    The names of keys that are left out stay in the file: no other program gets them.

    Raises:
        UserError: it cannot be written.
    """
    try:
        before = _read(path)
    except UserError:  # replaced because it could not be read
        before = _File()
    names = {one.name for one in keys}
    gone = [name for name in (one.name for one in before.keys) if name not in names]
    revoked = tuple(dict.fromkeys([*(one for one in before.revoked if one not in names), *gone]))
    record = _File(keys=tuple(keys), revoked=revoked).model_dump(mode="json")
    if not revoked:
        del record["revoked"]
    try:
        write_private(path, json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise UserError(f"The file of API keys {path} cannot be written: {error}") from None


# --- Who has a key ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Known:
    """A digest, whose it is, and until when it counts, in milliseconds since the epoch."""

    digest: str
    program: Program
    until_ms: int | None = None


class ApiKeys:
    """The keys that a desk takes.

    Args:
        fixed: keys without a scope, by the names of their programs.
        path: the file with scoped keys; None for none.

    Raises:
        UserError: the file cannot be read.
    """

    def __init__(self, fixed: Mapping[str, str] | None = None, path: Path | None = None) -> None:
        self._fixed = [_Known(digest_of(key), Program(name)) for name, key in (fixed or {}).items()]
        self._path = path
        self._keys: tuple[ApiKey, ...] = ()
        self._seen: object = None
        if path is not None:
            self._seen, self._keys = _version(path), read_keys(path)
            self._check_names(self._keys)

    def _check_names(self, keys: Iterable[ApiKey]) -> None:
        fixed = {one.program.name for one in self._fixed}
        for one in keys:
            if one.name in fixed:
                raise UserError(
                    f"{self._path} and OUTLAST_API_KEYS both have a key {one.name!r}: its program "
                    "would have two scopes. Take it out of one of them."
                )

    def program(self, key: str, *, at_ms: int | None = None) -> Program | None:
        """Return the program that has a key; None if the key does not count."""
        digest, found = digest_of(key), None
        at = now_ms() if at_ms is None else at_ms
        for one in [*self._fixed, *self._of_file(at)]:
            # All of them are compared, and each in the same time, wherever it differs.
            if hmac.compare_digest(digest, one.digest):
                found = one
        if found is None or found.until_ms is None:
            return None if found is None else found.program
        return replace(found.program, until_ms=found.until_ms)

    def _of_file(self, at_ms: int) -> Iterable[_Known]:
        self._read_again()
        at = datetime.fromtimestamp(at_ms / 1000, UTC)
        checked_at = at + CHECKED_AFTER
        for key in self._keys:
            for digest, until in key.digests(at):
                end = checked_at if until is None else min(until, checked_at)
                yield _Known(digest, Program(key.name, key.scope), int(end.timestamp() * 1000))

    def _read_again(self) -> None:
        """Read the file if it has changed; one that cannot be read has no keys."""
        if self._path is None or (version := _version(self._path)) == self._seen:
            return
        self._seen = version
        try:
            keys = read_keys(self._path)
            self._check_names(keys)
            self._keys = keys
        except UserError as error:
            self._keys = ()
            logger.error("No API key of the file counts until it can be read again. %s", error)  # noqa: TRY400


def _version(path: Path) -> object:
    """Return what differs when a file has changed."""
    try:
        found = path.stat()
    except OSError as error:
        return error.errno
    return found.st_ino, found.st_mtime_ns, found.st_size
