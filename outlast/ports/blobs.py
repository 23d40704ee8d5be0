"""The port to a blob store."""

from typing import Protocol, runtime_checkable

from outlast.agents.errors import UserError


class BlobNotFound(Exception):
    """The store has no blob with this key.

    The process may use another store, or a backup that lacks the newest blobs. The effect that
    needs the blob is retried, as after an outage, because another worker may have the blob.
    """


class BlobDamaged(Exception):
    """The stored bytes do not match the blob's digest. Storing the same content again heals it."""


class StoreTimeout(Exception):
    """The store did not answer in time."""


@runtime_checkable
class BlobStore(Protocol):
    """Stores large content under the SHA-256 of its bytes.

    A blob never changes, so storing it twice is harmless; it heals a damaged copy. Any exception
    other than `BlobDamaged` counts as an outage, and the effect that needs the blob is retried. A
    method that does not answer in time is cancelled. Both may be called from any event loop.
    """

    async def put(self, data: bytes) -> str:
        """Store a blob durably; return its key, `sha256:` and the hexadecimal digest."""
        ...

    async def get(self, key: str) -> bytes:
        """Return a blob.

        Raises:
            BlobNotFound: the store has no blob with this key.
            BlobDamaged: the stored bytes do not have this digest.
        """
        ...


def check_blob_store(store: object) -> None:
    """Raise an error if the value is not a blob store.

    Raises:
        UserError: the value lacks a method of `BlobStore`.
    """
    if store is not None and (isinstance(store, type) or not isinstance(store, BlobStore)):
        raise UserError(
            "blob_store= must be an object with put and get, such as FileBlobStore(path) or "
            f"store_from_url('s3://bucket'), not {store!r}."
        )
