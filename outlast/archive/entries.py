"""The records of an archive: the entry of each history, and tombstones of deletions."""

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar, cast, get_origin

from outlast.edges.bodies import DOORS
from outlast.edges.clock import time_of
from outlast.loop.values import JsonObject
from outlast.ports.archive import ArchiveDamaged

R = TypeVar("R")

FORMAT: Final = 1
"""The form of entries and of tombstones; readers refuse a newer one."""

CHECKSUM: Final = "checksum"

DELETED: Final = "deleted/"
"""The folder of tombstones."""

EXECUTION_ID: Final = re.compile(r"[0-9a-f-]{1,64}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedHistory:
    """One archived history: a stretch of a run from its start, or from where it continued as new.

    Attributes:
        namespace: the namespace of the server.
        run_id: the workflow id.
        execution_id: the server's id of this history.
        first_execution_id: the id of the run's first history.
        previous: the id of the history before this one; empty for a run's first.
        next: the id of the history after this one; empty for a run's last.
        workflow: the workflow type.
        task_queue: the task queue of the workers.
        status: `completed`, `failed`, `cancelled`, `terminated`, `timed_out` or `continued_as_new`.
        started_ms: when the history began, in milliseconds since 1970.
        closed_ms: when it ended.
        events: the number of its events.
        sha256: the digest of the history as the server sent it.
        size: its number of bytes.
        stored: the number of bytes in the store, compressed.
        written_by: the version of outlast that archived it.
        description: the server's description of the execution: protobuf, in base64.
    """

    namespace: str
    run_id: str
    execution_id: str
    first_execution_id: str
    previous: str
    next: str
    workflow: str
    task_queue: str
    status: str
    started_ms: int
    closed_ms: int
    events: int
    sha256: str
    size: int
    stored: int
    written_by: str
    description: str

    @property
    def continues(self) -> bool:
        """Whether the run went on in another history."""
        return self.status == "continued_as_new"

    @property
    def started(self) -> datetime:
        """When the history began."""
        return time_of(self.started_ms)

    @property
    def closed(self) -> datetime:
        """When the history ended."""
        return time_of(self.closed_ms)

    def record(self) -> JsonObject:
        """Return the entry for programs, without the server's description."""
        return {name: one for name, one in _fields(self).items() if name != "description"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """The proof of a deletion. It holds no content, and neither the run's id nor a person's name.

    Attributes:
        run: the digest of the namespace and the run's id.
        by: who asked for the deletion.
        asked_ms: when, in milliseconds since 1970.
        finished_ms: when everything was gone; 0 while the deletion is under way or was interrupted.
        why: the reason that was given.
        person: the digest of the person whose runs were to be deleted; empty for one run.
        removed: of each removed history its execution id, digest, size, number of events and end.
        left: what could not be removed, in words.
        sessions: of each session that was cleared a digest, and how many items it had.
    """

    run: str
    by: str
    asked_ms: int
    finished_ms: int = 0
    why: str = ""
    person: str = ""
    removed: tuple[JsonObject, ...] = ()
    left: tuple[str, ...] = ()
    sessions: tuple[JsonObject, ...] = ()

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{DELETED}{self.run}/{self.asked_ms}.json"

    @property
    def executions(self) -> frozenset[str]:
        """The ids of the histories that were, or are being, deleted."""
        return frozenset(str(one["execution_id"]) for one in self.removed)

    def record(self) -> JsonObject:
        """Return the tombstone as JSON."""
        return _fields(self)


def removed_by(tombstones: Iterable[Tombstone], *, finished: bool = False) -> set[str]:
    """Return the ids of the histories that were, or are being, deleted on request.

    Args:
        tombstones: the tombstones of the deletions.
        finished: whether only deletions count that were finished.
    """
    return {
        one for tomb in tombstones if tomb.finished_ms or not finished for one in tomb.executions
    }


def encoded(record: JsonObject) -> bytes:
    """Return a record as JSON, with its format and a checksum over all of it."""
    whole: JsonObject = {"format": FORMAT, **record}
    return json.dumps({**whole, CHECKSUM: _checksum(whole)}, indent=1).encode()


def decoded(data: bytes, what: str) -> JsonObject:
    """Return a record that `encoded` has written.

    Raises:
        ArchiveDamaged: it was changed, or is in a newer format.
    """
    try:
        record: Any = DOORS["archive"].parse(data)
        checksum = record.pop(CHECKSUM)
        is_whole = checksum == _checksum(record)
        newest: Any = record.pop("format")
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        raise ArchiveDamaged(f"{what} cannot be read: it is not what was written.") from None
    if newest != FORMAT:
        raise ArchiveDamaged(f"{what} is in the format {newest!r}. Read it with a newer outlast.")
    if not is_whole:
        raise ArchiveDamaged(f"{what} was changed: its checksum does not fit.")
    return record


def encoded_entry(entry: ArchivedHistory) -> bytes:
    """Return an entry as it is stored."""
    return encoded(_fields(entry))


def decoded_entry(data: bytes, what: str) -> ArchivedHistory:
    """Return an entry as it was stored.

    Raises:
        ArchiveDamaged: it was changed, or is in a newer format.
    """
    entry = _record(ArchivedHistory, decoded(data, what), what)
    if not _is_history({"execution_id": entry.execution_id, "sha256": entry.sha256}):
        raise ArchiveDamaged(f"{what} was changed: it names what is no history.")
    return entry


def decoded_tombstone(data: bytes, name: str, what: str) -> Tombstone:
    """Return a tombstone as it was stored.

    Args:
        data: the content of its file.
        name: the name of its file, which says whose it is.
        what: names it in errors.

    Raises:
        ArchiveDamaged: it was changed, is that of another run, or is in a newer format.
    """
    record: Any = decoded(data, what)
    for part in ("removed", "left", "sessions"):
        if isinstance(record.get(part), list):
            record[part] = tuple(record[part])
    tombstone = _record(Tombstone, record, what)
    if tombstone.name != name:
        raise ArchiveDamaged(f"{what} was changed: it is that of another deletion.")
    if not all(map(_is_history, tombstone.removed)):
        raise ArchiveDamaged(f"{what} was changed: it names what is no history.")
    return tombstone


def _is_history(value: object) -> bool:
    """Whether a value names a history, and no other file."""
    if not isinstance(value, dict):
        return False
    one = cast("JsonObject", value)
    digest = one.get("sha256", "0" * 64)  # of a history that only the server had, there is none
    return bool(
        EXECUTION_ID.fullmatch(str(one.get("execution_id"))) and _SHA256.fullmatch(str(digest))
    )


def _record(kind: type[R], record: JsonObject, what: str) -> R:
    """Return the fields of a JSON object as a record, each of its type."""
    fields = {one.name: one for one in dataclasses.fields(cast("Any", kind))}
    given = {name: one for name, one in record.items() if name in fields}
    for name, value in given.items():
        wanted: Any = get_origin(fields[name].type) or fields[name].type
        if type(value) is not wanted:
            raise ArchiveDamaged(f"{what} was changed: {name} is {type(value).__name__}.")
    try:
        return kind(**given)
    except TypeError as error:
        raise ArchiveDamaged(f"{what} lacks a part: {error}") from None


def _fields(entry: ArchivedHistory | Tombstone) -> JsonObject:
    return {one.name: getattr(entry, one.name) for one in dataclasses.fields(entry)}


def _checksum(record: JsonObject) -> str:
    canonical = json.dumps(record, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
