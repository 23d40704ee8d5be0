"""What remains of a run that was deleted on request: who asked, when, and digests of what went."""

from outlast.archive.archive import Archive, digest_of_run
from outlast.archive.entries import DELETED, Tombstone, encoded


async def write_tombstone(archive: Archive, tombstone: Tombstone) -> None:
    """Store a tombstone; a later one of the same request replaces it.

    Raises:
        ContentUnavailable: the store cannot be written.
    """
    await archive.write(tombstone.name, encoded(tombstone.record()))


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
    return await archive.tombstones(folder)


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
    return {one for tombstone in found for one in tombstone.executions}
