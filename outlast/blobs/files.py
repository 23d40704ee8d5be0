"""A blob store in a directory."""

import os
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from outlast.agents.logs import get_logger
from outlast.agents.threads import run_in_thread
from outlast.contract.blobs import key_of
from outlast.ports.blobs import BlobDamaged, BlobNotFound

A = TypeVar("A")
T = TypeVar("T")

logger: Final = get_logger(__name__)

DIGEST_LENGTH = 64

MOST_CALLS: Final = 256
"""How many calls wait for the file system; one that hangs must not take all threads and memory."""


class FileBlobStore:
    """Stores each blob in a file named by its digest, also on network file systems.

    Nobody but the user of the process reads it. A file is written under a temporary name, synced
    and renamed, so readers never see a partial blob, even after a crash. Content is checked against its digest when it is read, and when it is
    stored again: a damaged file is replaced.

    Args:
        directory: where the blobs are; created when the first blob is stored.
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory: Path = Path(directory).expanduser().absolute()
        self._free = threading.Semaphore(MOST_CALLS)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FileBlobStore) and other.directory == self.directory

    def __hash__(self) -> int:
        return hash(self.directory)

    def __repr__(self) -> str:
        return f"FileBlobStore({str(self.directory)!r})"

    async def put(self, data: bytes) -> str:
        """Store a blob durably and return its key."""
        return await self._call(self._put, data)

    async def get(self, key: str) -> bytes:
        """Return a blob.

        Raises:
            BlobNotFound: the store has no blob with this key.
            BlobDamaged: the file does not have this digest.
        """
        return await self._call(self._get, key)

    async def delete(self, key: str) -> None:
        """Remove a blob, if the store has it. Runs that refer to it lose this content."""
        await self._call(lambda key: self._path(key).unlink(missing_ok=True), key)

    async def _call(self, function: Callable[[A], T], argument: A) -> T:
        """Call a function in a thread that no other code needs and no exit waits for."""
        if not self._free.acquire(blocking=False):
            raise OSError(f"{MOST_CALLS} calls of {self!r} have not ended: the file system hangs.")

        def call() -> T:
            try:
                return function(argument)
            finally:
                self._free.release()

        return await run_in_thread(call)

    def _put(self, data: bytes) -> str:
        key = key_of(data)
        path = self._path(key)
        if self._is_stored(path, data):
            return key
        write_whole(path, data)
        return key

    def _is_stored(self, path: Path, data: bytes) -> bool:
        """Whether the file has this content, in full and undamaged."""
        try:
            if path.stat().st_size == len(data) and path.read_bytes() == data:
                return True
        except FileNotFoundError:
            return False
        except OSError as error:  # such as a bad sector: the new file gets another
            logger.warning("the blob %s cannot be read and is stored again: %s", path, error)
            return False
        logger.warning("the blob %s was damaged and is stored again", path)
        return False

    def _get(self, key: str) -> bytes:
        try:
            data = self._path(key).read_bytes()
        except FileNotFoundError:
            raise BlobNotFound(f"{self!r} has no blob {key}.") from None
        if key_of(data) != key:
            raise BlobDamaged(f"The blob {key} in {self!r} is damaged: its bytes have changed.")
        return data

    def _path(self, key: str) -> Path:
        digest = key.removeprefix("sha256:")
        if len(digest) != DIGEST_LENGTH or not set(digest) <= set("0123456789abcdef"):
            raise BlobNotFound(f"{key!r} is not the key of a blob.")
        return self.directory / digest[:2] / digest


def write_whole(path: Path, data: bytes) -> None:
    """Write a file durably, as a whole or not at all; a kill on the way leaves no part of it.

    Nobody but the user of this process may read it, and list the directories that are made for it.

    Args:
        path: the file; its directory is made if there is none.
        data: the content.

    Raises:
        OSError: the file cannot be written, such as on a full disk.
    """
    for folder in reversed([one for one in path.parents if not one.exists()]):
        folder.mkdir(mode=0o700, exist_ok=True)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(draft, flags, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
