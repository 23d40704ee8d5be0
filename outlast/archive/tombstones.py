"""What remains of a run that was deleted on request: who asked, when, and digests of what went."""

from dataclasses import dataclass, field
from typing import Any, Final

from outlast.archive.archive import Archive, digest_of_run
from outlast.archive.entries import decoded, encoded
from outlast.loop.values import JsonObject
from outlast.ports.archive import ArchiveDamaged

DELETED: Final = "deleted/"


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
    left: tuple[str, ...] = field(default=())
    sessions: tuple[JsonObject, ...] = ()

    def record(self) -> JsonObject:
        """Return the tombstone as JSON."""
        return {
            "run": self.run,
            "by": self.by,
            "asked_ms": self.asked_ms,
            "finished_ms": self.finished_ms,
            "why": self.why,
            "person": self.person,
            "removed": list(self.removed),
            "left": list(self.left),
            "sessions": list(self.sessions),
        }


async def write_tombstone(archive: Archive, tombstone: Tombstone) -> None:
    """Store a tombstone; a later one of the same request replaces it.

    Raises:
        ContentUnavailable: the store cannot be written.
    """
    name = f"{DELETED}{tombstone.run}/{tombstone.asked_ms}.json"
    await archive.write(name, encoded(tombstone.record()))


async def tombstones(archive: Archive, namespace: str, run_id: str) -> list[Tombstone]:
    """Return the tombstones of a run, oldest first.

    Raises:
        ArchiveDamaged: a tombstone was changed.
        ContentUnavailable: the store cannot be read.
    """
    return await tombstones_in(archive, f"{DELETED}{digest_of_run(namespace, run_id)}/")


async def tombstones_in(archive: Archive, folder: str = DELETED) -> list[Tombstone]:
    """Return the tombstones in a folder, of each run the oldest first.

    Raises:
        ArchiveDamaged: a tombstone was changed.
        ContentUnavailable: the store cannot be read.
    """
    found: list[Tombstone] = []
    for name in await archive.names(folder):
        if not name.endswith(".json"):
            continue
        what = f"The tombstone {name} of {archive!r}"
        if (data := await archive.read(name)) is not None:
            record: Any = decoded(data, what)
            try:
                record["removed"], record["left"] = tuple(record["removed"]), tuple(record["left"])
                record["sessions"] = tuple(record.get("sessions", ()))
                found.append(Tombstone(**record))
            except (TypeError, KeyError) as error:
                raise ArchiveDamaged(f"{what} lacks a part: {error}") from None
    return sorted(found, key=lambda one: (one.run, one.asked_ms))


async def deleted_runs(archive: Archive) -> set[str]:
    """Return the digests of all runs that have a tombstone.

    Raises:
        ContentUnavailable: the store cannot be read.
    """
    return {name.split("/")[1] for name in await archive.names(DELETED)}


async def removed_executions(archive: Archive, namespace: str, run_id: str) -> set[str]:
    """Return the ids of a run's histories that were, or are being, deleted on request.

    Raises:
        ArchiveDamaged: a tombstone was changed.
        ContentUnavailable: the store cannot be read.
    """
    found = await tombstones(archive, namespace, run_id)
    return {str(one["execution_id"]) for tombstone in found for one in tombstone.removed}
