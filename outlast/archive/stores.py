"""Stores of an archive: a directory, or a bucket."""

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from outlast.agents.errors import UserError
from outlast.agents.threads import run_in_thread
from outlast.blobs.buckets import bucket_errors
from outlast.blobs.files import write_whole
from outlast.ports.archive import ArchiveDamaged, ArchiveStore, FileMissing

_NAME: Final = re.compile(r"[a-z0-9_-][a-z0-9._-]*(/[a-z0-9_-][a-z0-9._-]*)*/?")


def is_file_name(name: str) -> bool:
    """Whether a text is a name that an archive gives to a file: it leads nowhere else."""
    return bool(_NAME.fullmatch(name))


class FileArchiveStore:
    """Stores an archive in a directory, also of a network file system.

    A symbolic link below the directory is refused: it would lead what reads, writes and deletes
    here out of the archive. A file is written under a temporary name beside its own, synced and renamed, so readers never
    see a part of it. What a killed process leaves is a file whose name ends with `.tmp`.

    Args:
        directory: where the archive is; created when the first file is stored.
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory: Path = Path(directory).expanduser().absolute()

    def __repr__(self) -> str:
        return f"FileArchiveStore({str(self.directory)!r})"

    async def write(self, name: str, data: bytes) -> None:
        """Store a file durably, as a whole or not at all."""
        await run_in_thread(lambda: write_whole(self._path(name), data))

    async def read(self, name: str) -> bytes:
        """Return the content of a file.

        Raises:
            FileMissing: there is no such file.
        """
        try:
            return await run_in_thread(lambda: self._path(name).read_bytes())
        except FileNotFoundError:
            raise FileMissing(f"{self!r} has no file {name}.") from None

    async def names(self, folder: str) -> list[str]:
        """Return the names of all files and symbolic links in a folder and below it, in order."""

        def walk() -> list[str]:
            walked = os.walk(self._path(folder), onerror=_unless_missing)
            found = [
                Path(at) / name for at, folders, files in walked for name in (*files, *folders)
            ]
            found = [one for one in found if one.is_symlink() or not one.is_dir()]
            return sorted(one.relative_to(self.directory).as_posix() for one in found)

        return await run_in_thread(walk)

    async def delete(self, name: str) -> None:
        """Remove a file, and folders that are empty without it."""

        def delete() -> None:
            path = self._path(name)
            path.unlink(missing_ok=True)
            for folder in path.parents:
                if folder == self.directory:
                    return
                try:
                    folder.rmdir()
                except OSError:  # another file is in it, or another process was faster
                    return

        await run_in_thread(delete)

    def _path(self, name: str) -> Path:
        if not is_file_name(name):
            raise UserError(f"{name!r} is not the name of a file in an archive.")
        path = self.directory / name
        for one in (path, *path.parents):
            if one == self.directory:
                break
            if one.is_symlink():
                raise ArchiveDamaged(
                    f"{one} is a symbolic link, which no archive makes. Remove it."
                )
        return path


def _unless_missing(error: OSError) -> None:
    """Raise an error: a folder that cannot be read would else look like an empty one."""
    if not isinstance(error, FileNotFoundError):
        raise error


class ObjectArchiveStore:
    """Stores an archive in an `obstore` object store (`pip install outlast[blobs]`).

    Args:
        store: a store of `obstore.store`, such as `S3Store("bucket", prefix="archive")`.
    """

    def __init__(self, store: Any) -> None:
        if not callable(getattr(store, "get_async", None)):
            raise UserError(f"ObjectArchiveStore needs a store of obstore.store, not {store!r}.")
        self._store = store

    def __repr__(self) -> str:
        return f"ObjectArchiveStore({self._store!r})"

    async def write(self, name: str, data: bytes) -> None:
        """Store an object."""
        with bucket_errors():
            await self._store.put_async(name, data)

    async def read(self, name: str) -> bytes:
        """Return an object.

        Raises:
            FileMissing: there is no such object.
        """
        with bucket_errors(missing=FileMissing(f"{self!r} has no object {name}.")):
            found = await self._store.get_async(name)
            return bytes(await found.bytes_async())

    async def names(self, folder: str) -> list[str]:
        """Return the names of all objects in a folder, in order."""
        found: list[str] = []
        with bucket_errors():
            async for page in self._store.list(prefix=folder.rstrip("/")):
                found += [one["path"] for one in page]
        return sorted(found)

    async def delete(self, name: str) -> None:
        """Remove an object, if it exists."""
        with suppress(FileMissing), bucket_errors(missing=FileMissing(name)):
            await self._store.delete_async(name)


def archive_store(place: object) -> ArchiveStore:
    """Return the store for a directory, a URL, or a store itself.

    Args:
        place: a directory, `file:///var/lib/outlast/archive`, a URL that `obstore.store.from_url`
            accepts, such as `s3://bucket/prefix`, or an object with the methods of `ArchiveStore`.

    Raises:
        UserError: there is no such kind of store, or its package is missing.
    """
    if isinstance(place, Path):
        return FileArchiveStore(place)
    if not isinstance(place, str):
        if isinstance(place, type) or not isinstance(place, ArchiveStore):
            raise UserError(
                "An archive needs a directory, a URL such as 's3://bucket/archive', or an object "
                f"with write, read, names and delete, not {place!r}."
            )
        return place
    parts = urlsplit(place)
    if not place or (parts.scheme == "file" and not parts.path):
        raise UserError(f"The archive {place!r} has no directory. Write file:///path/to/archive.")
    if not parts.scheme or len(parts.scheme) == 1:  # a drive of Windows is no scheme
        return FileArchiveStore(place)
    if parts.scheme == "file":
        return FileArchiveStore(Path(unquote(parts.path)))
    try:
        from obstore.store import from_url
    except ImportError:
        raise UserError(
            f"The archive {place!r} needs the package obstore: pip install 'outlast[blobs]'."
        ) from None
    try:
        return ObjectArchiveStore(from_url(place))
    except Exception as error:  # the exceptions of obstore's providers have no common class
        raise UserError(f"The archive {place!r} cannot be opened: {error}") from error
