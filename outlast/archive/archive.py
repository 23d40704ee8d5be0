"""The archive: histories of runs, kept when the server has deleted them."""

import asyncio
import base64
import hashlib
import importlib.metadata
import json
import zlib
from collections.abc import AsyncGenerator, Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from temporalio.api.enums.v1 import EventType, WorkflowExecutionStatus
from temporalio.api.history.v1 import History, HistoryEvent
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.client import WorkflowHistory

from outlast.agents.errors import AgentsException, ContentUnavailable, UserError
from outlast.agents.threads import run_in_thread
from outlast.archive.entries import (
    DELETED,
    EXECUTION_ID,
    ArchivedHistory,
    Tombstone,
    decoded_entry,
    decoded_tombstone,
    encoded,
    encoded_entry,
    removed_by,
)
from outlast.archive.stores import archive_store, is_file_name
from outlast.ports.archive import ArchiveDamaged, ArchiveStore, FileMissing

RUNS: Final = "runs/"
ASIDE: Final = "aside/"
"""Histories that a restored server has overtaken; nobody reads them."""
ENTRY: Final = ".json"
HISTORY: Final = ".history"

AT_ONCE: Final = 8
"""How many files are read at the same time."""

EVERY: Final = timedelta(seconds=30)
"""How often the workers of a task queue look for histories to archive."""

CLOSING: Final = frozenset(
    {
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW,
    }
)
"""The last events of histories."""

LARGEST_HISTORY: Final = 256_000_000
"""The most bytes of a history; servers end a run at 50 MB, unless they are told otherwise."""

_GZIP: Final = 31  # zlib's number for gzip, so that `gunzip` reads the files, too
_LEVEL: Final = 6


class Archive:
    """Keeps the histories of runs after the server's retention.

        AgentWorker(client, agents=[triage], archive=Archive("s3://bucket/archive"))

    All files of a run are in one folder, whose name is a digest of the run's id: each history once,
    compressed and named by its digest, and an entry for each that says what it is. Entries are
    written after their history and never changed, so that any number of processes may archive.

    Args:
        store: a directory, a URL such as `s3://bucket/archive`, or an `ArchiveStore`.
        keep: how long a run is kept after its end; default: until it is deleted.
        every: how often the workers of a task queue look for histories to archive.

    Raises:
        UserError: there is no such store, or a length of time is not positive.
    """

    def __init__(
        self,
        store: ArchiveStore | str | Path,
        *,
        keep: timedelta | None = None,
        every: timedelta = EVERY,
    ) -> None:
        self.store: ArchiveStore = archive_store(store)
        self.keep: timedelta | None = None if keep is None else _positive("keep=", keep)
        self.every: timedelta = _positive("every=", every)

    def __repr__(self) -> str:
        return f"Archive({self.store!r})"

    # --- Writing --------------------------------------------------------------------------------

    async def add(
        self,
        namespace: str,
        description: DescribeWorkflowExecutionResponse,
        events: Sequence[HistoryEvent],
    ) -> ArchivedHistory:
        """Store a closed history and its entry. The same history may be stored again.

        Raises:
            ContentUnavailable: the store cannot be written.
            ValueError: the history is not closed.
        """
        data, packed = await run_in_thread(lambda: _packed(events))
        entry = _entry_of(namespace, description, events, data, len(packed))
        folder = folder_of(entry.namespace, entry.run_id)
        await self.write(f"{folder}{entry.sha256}{HISTORY}", packed)
        await self.write(name_of(entry), encoded_entry(entry))
        return entry

    async def write(self, name: str, data: bytes) -> None:
        """Write a file.

        Raises:
            ContentUnavailable: the store cannot be written.
        """
        with self._errors("written", AgentsException):
            await self.store.write(name, data)

    async def delete(self, names: Iterable[str]) -> None:
        """Remove files.

        Raises:
            ContentUnavailable: the store cannot be written.
        """
        with self._errors("written", ArchiveDamaged):
            for name in names:
                await self.store.delete(name)

    async def discard(self, entry: ArchivedHistory) -> None:
        """Remove one history and its entry.

        Raises:
            ContentUnavailable: the store cannot be written.
        """
        folder = folder_of(entry.namespace, entry.run_id)
        # Its entry goes first, because an entry without its history reads as damage.
        await self.delete([name_of(entry), f"{folder}{entry.sha256}{HISTORY}"])

    async def set_aside(self, entry: ArchivedHistory) -> None:
        """Move one history and its entry out of the archive, where nobody reads them.

        Raises:
            ContentUnavailable: the store cannot be read or written.
        """
        folder = folder_of(entry.namespace, entry.run_id)
        packed = await self.read(f"{folder}{entry.sha256}{HISTORY}")
        name = f"{aside_of(folder)}{entry.sha256}"
        if packed is not None:
            await self.write(f"{name}{HISTORY}", packed)
        await self.write(f"{name}{ENTRY}", encoded_entry(entry))
        await self.discard(entry)

    # --- Reading --------------------------------------------------------------------------------

    async def find(self, namespace: str, run_id: str, execution_id: str) -> ArchivedHistory | None:
        """Return the entry of a history; None if there is none, or if it was deleted on request.

        Raises:
            ArchiveDamaged: the entry was changed.
            ContentUnavailable: the store cannot be read.
        """
        if not EXECUTION_ID.fullmatch(execution_id):
            return None
        folder = folder_of(namespace, run_id)
        entry = await self._entry(f"{folder}{execution_id}{ENTRY}")
        return None if entry is None or execution_id in await self._deleted(folder) else entry

    async def histories_of(
        self, namespace: str, run_id: str, *, with_deleted: bool = False
    ) -> list[ArchivedHistory]:
        """Return the entries of a run's histories, oldest first.

        An id that was used again has those of all its runs.

        Args:
            namespace: the namespace of the server.
            run_id: the run.
            with_deleted: see `entries`.

        Raises:
            ArchiveDamaged: an entry was changed.
            ContentUnavailable: the store cannot be read.
        """
        folder = folder_of(namespace, run_id)
        return [one async for one in self.entries(folder, with_deleted=with_deleted)]

    async def newest(self, namespace: str, run_id: str) -> ArchivedHistory | None:
        """Return the entry of a run's last archived history, or None."""
        found = await self.histories_of(namespace, run_id)
        return found[-1] if found else None

    async def entries(
        self,
        folder: str = RUNS,
        *,
        problems: list[str] | None = None,
        with_deleted: bool = False,
    ) -> AsyncGenerator[ArchivedHistory]:
        """Yield the entries in a folder, of each run the oldest first.

        Args:
            folder: the folder of a run; default: all.
            problems: receives what is wrong with damaged entries, which are then left out.
            with_deleted: whether to yield those, too, that were deleted on request and are there
                again, such as from a backup.

        Raises:
            ArchiveDamaged: an entry was changed, and there is no list for it.
            ContentUnavailable: the store cannot be read.
        """
        by_run: dict[str, list[str]] = {}
        for name in await self.names(folder):
            if name.endswith(ENTRY):
                by_run.setdefault(name.rpartition("/")[0], []).append(name)
        buried = await self.deleted_runs() if by_run and not with_deleted else set[str]()
        for run, names in by_run.items():
            deleted = set[str]()
            if run.rpartition("/")[2] in buried:
                deleted = await self._deleted(f"{run}/")
            found: list[ArchivedHistory] = []
            for start in range(0, len(names), AT_ONCE):
                some = [self._entry(name, problems) for name in names[start : start + AT_ONCE]]
                found += filter(None, await asyncio.gather(*some))
            for entry in sorted(found, key=lambda one: (one.closed_ms, one.started_ms)):
                if entry.execution_id not in deleted:
                    yield entry

    async def tombstones(self, folder: str = DELETED) -> list[Tombstone]:
        """Return the tombstones in a folder, of each run the oldest first.

        Raises:
            ArchiveDamaged: a tombstone was changed.
            ContentUnavailable: the store cannot be read.
        """
        found: list[Tombstone] = []
        for name in await self.names(folder):
            if name.endswith(ENTRY) and (data := await self.read(name)) is not None:
                what = f"The tombstone {name} of {self!r}"
                found.append(decoded_tombstone(data, name, what))
        return sorted(found, key=lambda one: (one.run, one.asked_ms))

    async def tombstones_of(self, namespace: str, run_id: str) -> list[Tombstone]:
        """Return the tombstones of a run, oldest first.

        Raises:
            ArchiveDamaged: a tombstone was changed.
            ContentUnavailable: the store cannot be read.
        """
        return await self.tombstones(buried_of(digest_of_run(namespace, run_id)))

    async def bury(self, tombstone: Tombstone) -> None:
        """Store a tombstone; a later one of the same request replaces it.

        Raises:
            ContentUnavailable: the store cannot be written.
        """
        await self.write(tombstone.name, encoded(tombstone.record()))

    async def deleted_runs(self) -> set[str]:
        """Return the digests of all runs that have a tombstone.

        Raises:
            ContentUnavailable: the store cannot be read.
        """
        return {name.split("/")[1] for name in await self.names(DELETED)}

    async def _deleted(self, folder: str) -> set[str]:
        """Return the ids of the histories of a run whose deletion was finished.

        Their files may be there again, from a backup or by the hand of whoever can write here.
        """
        found = await self.tombstones(buried_of(folder.split("/")[2]))
        return removed_by(found, finished=True)

    async def names(self, folder: str) -> list[str]:
        """Return the names of all files in a folder that may be files of an archive.

        Raises:
            ContentUnavailable: the store cannot be read.
        """
        return [one for one in await self._listed(folder) if is_file_name(one)]

    async def strange_names(self, folder: str) -> list[str]:
        """Return what else is in a folder: names that no archive gives.

        Raises:
            ContentUnavailable: the store cannot be read.
        """
        return [one for one in await self._listed(folder) if not is_file_name(one)]

    async def _listed(self, folder: str) -> list[str]:
        with self._errors("read", ArchiveDamaged):
            return await self.store.names(folder)

    async def events(self, entry: ArchivedHistory) -> Sequence[HistoryEvent]:
        """Return the events of an archived history, as the server sent them.

        Raises:
            ArchiveDamaged: the history is missing, or is not the one that was archived.
            ContentUnavailable: the store cannot be read.
        """
        name = f"{folder_of(entry.namespace, entry.run_id)}{entry.sha256}{HISTORY}"
        what = f"The archived history {name} of {entry.run_id} in {self!r}"
        packed = await self.read(name)
        if packed is None:
            raise ArchiveDamaged(f"{what} is missing.")
        events = await run_in_thread(lambda: _unpacked(packed, entry, what))
        if problem := _other_than_said(entry, events):
            raise ArchiveDamaged(f"{what} is not the one of its entry: {problem}.")
        return events

    async def workflow_histories(self, namespace: str, run_id: str) -> list[WorkflowHistory]:
        """Return a run's archived histories, oldest first, as `temporalio.worker.Replayer` takes them."""
        found = await self.histories_of(namespace, run_id)
        return [WorkflowHistory(run_id, await self.events(one)) for one in found]

    async def read(self, name: str) -> bytes | None:
        """Return a file, or None if there is none.

        Raises:
            ContentUnavailable: the store cannot be read.
        """
        try:
            with self._errors("read", ArchiveDamaged, FileMissing):
                return await self.store.read(name)
        except FileMissing:
            return None

    @contextmanager
    def _errors(self, done: str, *passing: type[Exception]) -> Generator[None]:
        """Raise any error of the store as `ContentUnavailable`, but for those that pass."""
        try:
            yield
        except passing:
            raise
        except Exception as error:  # any store's error
            kind = type(error).__name__
            raise ContentUnavailable(
                f"The archive {self.store!r} cannot be {done}: {kind}: {error}"
            ) from error

    async def _entry(self, name: str, problems: list[str] | None = None) -> ArchivedHistory | None:
        data = await self.read(name)
        try:
            return None if data is None else self.entry_in(data, name)
        except ArchiveDamaged as error:
            if problems is None:
                raise
            problems.append(error.message)
            return None

    def entry_in(self, data: bytes, name: str) -> ArchivedHistory:
        """Return the entry in a file.

        Raises:
            ArchiveDamaged: it was changed, or is that of another history.
        """
        what = f"The entry {name} of {self!r}"
        entry = decoded_entry(data, what)
        if name_of(entry) != name:
            raise ArchiveDamaged(f"{what} was changed: it is that of another history.")
        return entry


def name_of(entry: ArchivedHistory) -> str:
    """Return the name of an entry's file."""
    return f"{folder_of(entry.namespace, entry.run_id)}{entry.execution_id}{ENTRY}"


def folder_of(namespace: str, run_id: str) -> str:
    """Return the folder of a run, whatever characters its id has."""
    return folder_of_digest(digest_of_run(namespace, run_id))


def folder_of_digest(digest: str) -> str:
    """Return the folder of a run, by its digest."""
    return f"{RUNS}{digest[:2]}/{digest}/"


def buried_of(digest: str) -> str:
    """Return the folder of a run's tombstones, by its digest."""
    return f"{DELETED}{digest}/"


def aside_of(folder: str) -> str:
    """Return where the histories of a run's folder are that were set aside."""
    return folder.replace(RUNS, ASIDE, 1)


def digest_of_run(namespace: str, run_id: str) -> str:
    """Return a digest that stands for a run."""
    return hashlib.sha256(json.dumps([namespace, run_id]).encode()).hexdigest()


def described(entry: ArchivedHistory) -> DescribeWorkflowExecutionResponse:
    """Return the server's description of an archived execution.

    Raises:
        ArchiveDamaged: it cannot be read.
    """
    try:
        data = base64.b64decode(entry.description, validate=True)
        found = DescribeWorkflowExecutionResponse.FromString(data)
    except Exception as error:  # noqa: BLE001  protobuf has its own errors, and so has base64
        raise ArchiveDamaged(
            f"The archived description of {entry.run_id} cannot be read: {error}"
        ) from None
    execution = found.workflow_execution_info.execution
    if (execution.workflow_id, execution.run_id) != (entry.run_id, entry.execution_id):
        raise ArchiveDamaged(f"The archived description of {entry.run_id} is that of another run.")
    return found


def _entry_of(
    namespace: str,
    description: DescribeWorkflowExecutionResponse,
    events: Sequence[HistoryEvent],
    data: bytes,
    stored: int,
) -> ArchivedHistory:
    info = description.workflow_execution_info
    started = events[0].workflow_execution_started_event_attributes
    execution_id, closing = info.execution.run_id, events[-1]
    if closing.event_type not in CLOSING:
        raise ValueError(f"The history {execution_id} of {info.execution.workflow_id} is open.")
    attributes: Any = getattr(closing, str(closing.WhichOneof("attributes")))
    status = WorkflowExecutionStatus.Name(info.status).removeprefix("WORKFLOW_EXECUTION_STATUS_")
    return ArchivedHistory(
        namespace=namespace,
        run_id=info.execution.workflow_id,
        execution_id=execution_id,
        first_execution_id=info.first_run_id or started.first_execution_run_id,
        previous=started.continued_execution_run_id,
        next=getattr(attributes, "new_execution_run_id", ""),
        workflow=info.type.name,
        task_queue=info.task_queue,
        status={"CANCELED": "cancelled"}.get(status, status.lower()),
        started_ms=info.start_time.ToMilliseconds(),
        closed_ms=closing.event_time.ToMilliseconds(),
        events=len(events),
        sha256=hashlib.sha256(data).hexdigest(),
        size=len(data),
        stored=stored,
        written_by=importlib.metadata.version("outlast"),
        description=base64.b64encode(description.SerializeToString()).decode(),
    )


def _packed(events: Sequence[HistoryEvent]) -> tuple[bytes, bytes]:
    """Return a history as bytes, and these bytes compressed.

    Every process makes the same bytes of a history, so that their digest names it.
    """
    data = History(events=events).SerializeToString(deterministic=True)
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    return data, packer.compress(data) + packer.flush()


def _unpacked(packed: bytes, entry: ArchivedHistory, what: str) -> Sequence[HistoryEvent]:
    """Return the events of a compressed history.

    It unpacks no more bytes than the entry says, whatever the file would become.
    """
    if not 0 < entry.size <= LARGEST_HISTORY:
        raise ArchiveDamaged(f"{what} has {entry.size:,} bytes, which no history has.")
    unpacker = zlib.decompressobj(_GZIP)
    try:
        data = unpacker.decompress(packed, entry.size + 1)
    except zlib.error as error:
        raise ArchiveDamaged(f"{what} was changed and cannot be unpacked: {error}") from None
    is_whole = unpacker.eof and not unpacker.unused_data
    if not is_whole or hashlib.sha256(data).hexdigest() != entry.sha256:
        raise ArchiveDamaged(f"{what} was changed: its digest does not fit.")
    try:
        return History.FromString(data).events
    except Exception as error:  # noqa: BLE001  protobuf's own error
        raise ArchiveDamaged(f"{what} is no history: {error}") from None


def _other_than_said(entry: ArchivedHistory, events: Sequence[HistoryEvent]) -> str | None:
    """Return in what a history differs from its entry, or None."""
    if len(events) != entry.events:
        return f"it has {len(events)} events, not {entry.events}"
    started = events[0].workflow_execution_started_event_attributes
    if started.workflow_id not in {"", entry.run_id}:
        return "it is of another run"
    if started.continued_execution_run_id != entry.previous:
        return "it names another history before it"
    attributes: Any = getattr(events[-1], str(events[-1].WhichOneof("attributes")))
    if getattr(attributes, "new_execution_run_id", "") != entry.next:
        return "it names another history after it"
    return None


def _positive(name: str, length: object) -> timedelta:
    if not isinstance(length, timedelta) or length <= timedelta(0):
        raise UserError(f"{name} must be a positive timedelta, not {length!r}.")
    return length
