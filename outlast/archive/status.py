"""The status of an archive: what is in it, and what the server has that is not."""

import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from temporalio.client import Client

from outlast.archive.archive import Archive
from outlast.archive.entries import removed_by
from outlast.archive.sweep import (
    NotArchived,
    closed_executions,
    missing_one,
    retention_of,
    server_has,
)
from outlast.edges.clock import now

LATE_SHARE = 0.5
"""The part of the retention after which a history that is not archived is late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A history that neither the archive nor the server has, although another one names it."""

    run_id: str
    execution_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveStatus:
    """The histories of a namespace that an archive has, and those that it lacks.

    Attributes:
        runs: the number of runs in the archive.
        histories: the number of histories in it.
        stored: their bytes, compressed.
        size: their bytes as the server sent them.
        retention: how long the server keeps closed histories.
        missing: what the server has and the archive lacks, oldest first.
        gaps: what neither has.
        deletions: the number of deletions on request.
        interrupted: how many of them were interrupted.
        at: when it was looked up.
    """

    runs: int
    histories: int
    stored: int
    size: int
    retention: timedelta
    missing: tuple[NotArchived, ...]
    gaps: tuple[Gap, ...]
    deletions: int
    interrupted: int
    at: datetime = field(default_factory=now)

    @property
    def late(self) -> tuple[NotArchived, ...]:
        """What is missing, and has waited for half of the retention."""
        return tuple(one for one in self.missing if self.left(one) < self.retention * LATE_SHARE)

    def left(self, one: NotArchived) -> timedelta:
        """Return how long the server will keep a history."""
        return one.closed + self.retention - self.at


async def archive_status(client: Client, archive: Archive, task_queue: str = "") -> ArchiveStatus:
    """Compare an archive with everything closed that the server has.

    Args:
        client: connected to the runs' server.
        archive: the runs' archive.
        task_queue: whose runs the server is searched for; default: all of the namespace.

    Raises:
        RPCError: the server refused, or does not answer.
        ArchiveDamaged: an entry was changed.
        ContentUnavailable: the archive cannot be read.
    """
    known: dict[str, set[str]] = {}
    named: dict[str, str] = {}
    stored = size = 0
    async for one in archive.entries():
        if one.namespace == client.namespace:
            known.setdefault(one.run_id, set()).add(one.execution_id)
            stored, size = stored + one.stored, size + one.size
            named |= {other: one.run_id for other in (one.previous, one.next) if other}
    buried = await archive.tombstones()
    gone = removed_by(buried)
    missing: list[NotArchived] = []
    async for page in closed_executions(client, task_queue, None):
        for info in page:
            ids = known.get(info.execution.workflow_id, set())
            if info.execution.run_id not in ids | gone:
                missing.append(missing_one(info))
    there = {one.execution_id for one in missing} | gone
    gaps = [
        Gap(run_id=run_id, execution_id=execution_id)
        for execution_id, run_id in named.items()
        if execution_id not in known[run_id] | there
        and not await server_has(client, run_id, execution_id)  # such as the one that is open
    ]
    return ArchiveStatus(
        runs=len(known),
        histories=sum(map(len, known.values())),
        stored=stored,
        size=size,
        retention=await retention_of(client),
        missing=tuple(sorted(missing, key=lambda one: one.closed_ms)),
        gaps=tuple(gaps),
        deletions=len(buried),
        interrupted=sum(not one.finished_ms for one in buried),
    )


async def check_writable(archive: Archive) -> None:
    """Write a small file into an archive, and remove it.

    Raises:
        ContentUnavailable: the archive cannot be written.
    """
    name = f"checks/{secrets.token_hex(8)}.txt"
    await archive.write(name, b"A check of outlast.\n")
    await archive.delete([name])
