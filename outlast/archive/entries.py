"""What an archive says about one history: the entry of its manifest."""

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from outlast.bodies import DOORS
from outlast.loop.values import JsonObject
from outlast.ports.archive import ArchiveDamaged

FORMAT: Final = 1
"""The form of entries and of tombstones; readers refuse a newer one."""

CHECKSUM: Final = "checksum"


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
        return datetime.fromtimestamp(self.started_ms / 1_000, UTC)

    @property
    def closed(self) -> datetime:
        """When the history ended."""
        return datetime.fromtimestamp(self.closed_ms / 1_000, UTC)

    def record(self) -> JsonObject:
        """Return the entry for programs, without the server's description."""
        return {name: one for name, one in _fields(self).items() if name != "description"}


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
    record: Any = decoded(data, what)
    known = {one.name for one in dataclasses.fields(ArchivedHistory)}
    try:
        return ArchivedHistory(**{name: one for name, one in record.items() if name in known})
    except TypeError as error:
        raise ArchiveDamaged(f"{what} lacks a part: {error}") from None


def _fields(entry: ArchivedHistory) -> JsonObject:
    return {one.name: getattr(entry, one.name) for one in dataclasses.fields(entry)}


def _checksum(record: JsonObject) -> str:
    canonical = json.dumps(record, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
