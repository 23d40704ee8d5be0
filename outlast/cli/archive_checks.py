"""The checks of `outlast doctor` that say whether the archive works and loses nothing."""

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from outlast.agents.errors import AgentsException, ContentUnavailable
from outlast.cli.findings import Finding, missing, ok, optional
from outlast.edges.clock import now
from outlast.edges.rendering import counted, rough

if TYPE_CHECKING:
    from temporalio.client import Client

    from outlast.archive import Archive, ArchiveStatus

LOOKS_WITHIN: Final = timedelta(minutes=15)
"""Workers look every 30 s by default; a look that takes long is no problem yet."""

_SWEEP = "archive sweep"
_ARCHIVER: Final = "archiver"
_EXPIRY = "archived in time"


async def check_archive(client: "Client", task_queue: str) -> list[Finding]:
    """Check that the archive can be read and written, and that nothing expires before it is there.

    Args:
        client: connected to the runs' server.
        task_queue: the queue whose workers should archive.
    """
    from temporalio.service import RPCError

    from outlast.archive import archive_of
    from outlast.archive.sweep import retention_of

    try:
        archive, retention = archive_of(client), await retention_of(client)
        if archive is None:
            return [
                optional(
                    "archive",
                    f"none: the server deletes closed histories after {rough(retention)}, also the "
                    "early ones of open conversations. Set OUTLAST_ARCHIVE to keep them",
                )
            ]
        found = [await _place(archive)]
        if found[0].level == "missing":
            return found
        return [
            *found,
            await _sweep(archive, client.namespace, task_queue),
            *await _compared(client, archive),
        ]
    except RPCError as error:
        return [missing("archive", f"cannot be compared with the server: {error.message}")]
    except AgentsException as error:
        return [missing("archive", error.message)]


async def _place(archive: "Archive") -> Finding:
    from outlast.archive.status import check_writable
    from outlast.archive.sweep import SWEEPS

    try:
        await archive.names(SWEEPS)
    except ContentUnavailable as error:
        how = "Correct OUTLAST_ARCHIVE, or let this user read it"
        return missing("archive", f"{error.message.rstrip('.')}. {how}")
    try:
        await check_writable(archive)
    except ContentUnavailable as error:
        return optional(
            "archive",
            f"{error.message.rstrip('.')}. Readers need not write, but workers must: run this "
            "check where a worker runs, and let its user write there, or make room",
        )
    return ok("archive", f"{archive.store!r} can be read and written")


async def check_archiver(client: "Client") -> Finding:
    """Check that `outlast archive run` does its work: it looked lately, and archived all it found."""
    from outlast.archive import archive_of
    from outlast.archive.sweep import last_look

    how = "Start `outlast archive run` with the same archive; its log says what it fails at"
    try:
        archive = archive_of(client)
        if archive is None:
            return missing(_ARCHIVER, "there is no archive here: set OUTLAST_ARCHIVE")
        look, at = await last_look(archive, client.namespace, ""), now()
    except AgentsException as error:
        return missing(_ARCHIVER, error.message)
    if look is None:
        return missing(_ARCHIVER, f"none has looked for closed histories yet. {how}")
    since = rough(at - look.at)
    if at - look.at > max(LOOKS_WITHIN, 2 * archive.every):
        return missing(_ARCHIVER, f"it last looked {since} ago. {how}")
    if look.complete is None or look.at - look.complete > LOOKS_WITHIN:
        return missing(_ARCHIVER, f"it looked {since} ago, but could not archive all. {how}")
    return ok(_ARCHIVER, f"it looked {since} ago")


async def _sweep(archive: "Archive", namespace: str, task_queue: str) -> Finding:
    from outlast.archive.sweep import last_look

    look, queue = await last_look(archive, namespace, task_queue), repr(task_queue)
    archiver = await last_look(archive, namespace, "")
    if archiver is not None and (look is None or archiver.at > look.at):
        look, queue = archiver, "of all queues"
    how = "Start one with AgentWorker(archive=...) or OUTLAST_ARCHIVE"
    if look is None:
        return optional(
            _SWEEP,
            f"no worker of the task queue {queue} has looked for closed histories yet. {how}, or "
            "name its queue with --task-queue",
        )
    at = now()  # compared with the clock of another process
    since = rough(at - look.at)
    if at - look.at > max(LOOKS_WITHIN, 2 * archive.every):
        return missing(
            _SWEEP, f"the workers of the task queue {queue} last looked {since} ago. {how}"
        )
    if look.complete is None or look.at - look.complete > LOOKS_WITHIN:
        behind = "ever" if look.complete is None else f"for {rough(at - look.complete)}"
        return missing(
            _SWEEP,
            f"a worker of the task queue {queue} looked {since} ago, but could not archive all of "
            f"it {behind}: its log says why, and `outlast archive status` what is missing",
        )
    return ok(_SWEEP, f"a worker of the task queue {queue} looked {since} ago")


async def _compared(client: "Client", archive: "Archive") -> list[Finding]:
    from outlast.archive import ArchiveDamaged, archive_status

    try:
        status = await archive_status(client, archive)
    except ArchiveDamaged as error:
        return [
            missing(
                _EXPIRY,
                f"{error.message} `outlast archive verify` checks all files; restore them from a "
                "backup",
            )
        ]
    found = [_expiring(status)] if status.late else []
    if status.gaps:
        others = len({one.run_id for one in status.gaps}) > 1
        whose = f"{status.gaps[0].run_id!r}{' and other runs' if others else ''}"
        found.append(
            missing(
                "lost histories",
                f"neither the server nor the archive has {counted(len(status.gaps), 'history')} of {whose}: "
                "readers begin after them. Let the server keep histories for longer, such as "
                f"`temporal operator namespace update --retention 30d -n {client.namespace}`",
            )
        )
    if status.interrupted:
        words = counted(status.interrupted, "deletion")
        found.append(
            missing(
                "deletions on request",
                f"{words} interrupted: ask for the same again, to finish. `outlast archive list "
                "--deleted` shows which",
            )
        )
    return found or [ok(_EXPIRY, _all_well(status))]


def _expiring(status: "ArchiveStatus") -> Finding:
    first, count = status.late[0], len(status.late)
    left = status.left(first)
    when = f"in {rough(left)}" if left > timedelta(0) else "now"
    verb = "expires" if count == 1 else "expire"
    return missing(
        _EXPIRY,
        f"{counted(count, 'history')} {verb} before anybody has archived it, the first {when}: {first.run_id!r} of the task "
        f"queue {first.task_queue!r}. Start a worker of this queue with the archive; its log says "
        "why if it cannot store them",
    )


def _all_well(status: "ArchiveStatus") -> str:
    there = f"{counted(status.histories, 'history')} of {counted(status.runs, 'run')}"
    if not status.missing:
        return f"{there}, and all that the server will delete"
    left = rough(max(status.left(status.missing[0]), timedelta(0)))
    return (
        f"{there}; {len(status.missing):,} more wait for the next look, and the server keeps the "
        f"oldest of them for {left}"
    )
