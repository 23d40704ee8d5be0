"""A blob store in a directory."""

import asyncio
import os
import secrets
from pathlib import Path

from outlast.contract.blobs import key_of
from outlast.ports.blobs import BlobDamaged, BlobNotFound

DIGEST_LENGTH = 64


class FileBlobStore:
    """Stores each blob in a file named by its digest, also on network file systems.

    A file is written under a temporary name, synced and renamed, so readers never see a partial
    blob, even after a crash. Content is checked against its digest when it is read.

    Args:
        directory: where the blobs are; created when the first blob is stored.
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory).expanduser().absolute()

    def __repr__(self) -> str:
        return f"FileBlobStore({str(self.directory)!r})"

    async def put(self, data: bytes) -> str:
        """Store a blob durably and return its key."""
        return await asyncio.to_thread(self._put, data)

    async def get(self, key: str) -> bytes:
        """Return a blob.

        Raises:
            BlobNotFound: the store has no blob with this key.
            BlobDamaged: the file does not have this digest.
        """
        return await asyncio.to_thread(self._get, key)

    def _put(self, data: bytes) -> str:
        key = key_of(data)
        path = self._path(key)
        if path.exists() and path.stat().st_size == len(data):
            return key
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{secrets.token_hex(6)}.tmp")
        try:
            with draft.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
        return key

    def _get(self, key: str) -> bytes:
        try:
            data = self._path(key).read_bytes()
        except FileNotFoundError:
            raise BlobNotFound(f"{self!r} has no blob {key}.") from None
        if key_of(data) != key:
            raise BlobDamaged(f"The blob {key} in {self!r} is damaged: its bytes have changed.")
        return data

    def _path(self, key: str) -> Path:
        """Return the path of a blob.

        Raises:
            BlobNotFound: the key is invalid; only digests become paths.
        """
        digest = key.removeprefix("sha256:")
        if len(digest) != DIGEST_LENGTH or not set(digest) <= set("0123456789abcdef"):
            raise BlobNotFound(f"{key!r} is not the key of a blob.")
        return self.directory / digest[:2] / digest
