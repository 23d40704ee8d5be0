"""Checks the archive: whether every history is there as it was archived."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse

from outlast.archive.archive import ENTRY, HISTORY, RUNS, Archive, described, folder_of_digest
from outlast.archive.entries import DELETED, Tombstone
from outlast.contract.names import ATTRIBUTE_CUSTOMER
from outlast.ports.archive import ArchiveDamaged

DEPTH: Final = 3
"""How many folders the files of histories are in."""


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
    strange = "No archive writes a file of this name. Remove it."
    names = await archive.names(folder)
    links = [one for one in names if one.count("/") < DEPTH]
    wrong = [*await archive.strange_names(folder), *links]
    found += [Verdict(name=one, problem=strange) for one in wrong]
    try:
        buried = await archive.tombstones()
    except ArchiveDamaged as error:
        return [*found, Verdict(name=DELETED, problem=error.message)]
    there = set(names)
    for one in buried:
        if not one.finished_ms:
            problem = "The deletion was interrupted. Ask for it again, to finish it."
            found.append(Verdict(name=one.name, problem=problem))
        elif left := there & set(files_of(one)):
            files = ", ".join(sorted(left))
            found.append(Verdict(name=one.name, problem=f"Not removed: {files}."))
    return found


def files_of(tombstone: Tombstone) -> Iterator[str]:
    """Yield the names of the files that a deletion removes."""
    folder = folder_of_digest(tombstone.run)
    for one in tombstone.removed:
        yield f"{folder}{one['execution_id']}{ENTRY}"
        if "sha256" in one:
            yield f"{folder}{one['sha256']}{HISTORY}"


def _lists_another_customer(
    description: DescribeWorkflowExecutionResponse, events: Sequence[HistoryEvent]
) -> bool:
    """Whether a description names another person than the history; one without a name is read."""
    said = b""
    for event in events:
        started = event.workflow_execution_started_event_attributes.search_attributes
        upserted = event.upsert_workflow_search_attributes_event_attributes.search_attributes
        for fields in (started.indexed_fields, upserted.indexed_fields):
            said = fields[ATTRIBUTE_CUSTOMER].data if ATTRIBUTE_CUSTOMER in fields else said
    listed = description.workflow_execution_info.search_attributes.indexed_fields
    shown = listed[ATTRIBUTE_CUSTOMER].data if ATTRIBUTE_CUSTOMER in listed else b""
    return bool(shown) and shown != said


async def _verdict(archive: Archive, name: str) -> Verdict:
    entry, problem = None, ""
    try:
        data = await archive.read(name)
        if data is None:
            return Verdict(name=name)  # it was deleted meanwhile
        entry = archive.entry_in(data, name)
        events = await archive.events(entry)
        if _lists_another_customer(described(entry), events):
            problem = (
                f"The entry {name} lists another customer than the history: whoever looks for the "
                "runs of a person takes it for another one's."
            )
    except ArchiveDamaged as error:
        problem = error.message
    if entry is None:
        return Verdict(name=name, problem=problem)
    return Verdict(name=name, run_id=entry.run_id, execution_id=entry.execution_id, problem=problem)
