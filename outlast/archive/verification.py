"""Checks the archive: whether every history is there as it was archived."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass

from temporalio.api.history.v1 import HistoryEvent

from outlast.archive.archive import ENTRY, HISTORY, RUNS, Archive
from outlast.archive.entries import ArchivedHistory
from outlast.archive.tombstones import DELETED, Tombstone, tombstones_in
from outlast.ports.archive import ArchiveDamaged


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of checking one file or one history of the archive.

    Attributes:
        name: the file of the entry.
        run_id: the run; empty if its entry cannot be read.
        execution_id: the history; empty if its entry cannot be read.
        problem: what is wrong; empty if nothing is.
    """

    name: str
    run_id: str = ""
    execution_id: str = ""
    problem: str = ""


async def verified(archive: Archive, folder: str = RUNS) -> AsyncGenerator[Verdict]:
    """Read every history in a folder, and yield whether it is what was archived.

    Raises:
        ContentUnavailable: the archive cannot be read.
    """
    for name in await archive.names(folder):
        if name.endswith(ENTRY):
            yield await _verdict(archive, name)


async def verify(archive: Archive, folder: str = RUNS) -> list[Verdict]:
    """Check every history in a folder, and every deletion on request.

    Raises:
        ContentUnavailable: the archive cannot be read.
    """
    found = [one async for one in verified(archive, folder)]
    try:
        buried = await tombstones_in(archive)
    except ArchiveDamaged as error:
        return [*found, Verdict(name=DELETED, problem=error.message)]
    there = set(await archive.names(folder))
    for one in buried:
        name = f"{DELETED}{one.run}/{one.asked_ms}.json"
        if not one.finished_ms:
            problem = "The deletion was interrupted. Ask for it again, to finish it."
            found.append(Verdict(name=name, problem=problem))
        elif left := there & set(_files_of(one)):
            found.append(Verdict(name=name, problem=f"Not removed: {', '.join(sorted(left))}."))
    return found


def _files_of(tombstone: Tombstone) -> Iterator[str]:
    """Yield the names of the files that a deletion has removed."""
    folder = f"{RUNS}{tombstone.run[:2]}/{tombstone.run}/"
    for one in tombstone.removed:
        yield f"{folder}{one['execution_id']}{ENTRY}"
        if "sha256" in one:
            yield f"{folder}{one['sha256']}{HISTORY}"


async def _verdict(archive: Archive, name: str) -> Verdict:
    data, entry = await archive.read(name), None
    if data is None:
        return Verdict(name=name)  # it was deleted meanwhile
    try:
        entry = archive.entry_in(data, name)
        problem = _problem(name, entry, await archive.events(entry))
    except ArchiveDamaged as error:
        problem = error.message
    if entry is None:
        return Verdict(name=name, problem=problem)
    return Verdict(name=name, run_id=entry.run_id, execution_id=entry.execution_id, problem=problem)


def _problem(name: str, entry: ArchivedHistory, events: Sequence[HistoryEvent]) -> str:
    if len(events) != entry.events:
        return f"The entry {name} counts {entry.events} events, not {len(events)}."
    started = events[0].workflow_execution_started_event_attributes
    if started.continued_execution_run_id != entry.previous:
        return f"The entry {name} names another history before it."
    return ""
