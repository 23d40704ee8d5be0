"""A blob store in a bucket of S3, Google Cloud Storage, Azure or the like."""

from contextlib import suppress
from typing import Any

from outlast.agents.errors import UserError
from outlast.blobs.buckets import bucket_errors
from outlast.contract.blobs import key_of
from outlast.ports.blobs import BlobDamaged, BlobNotFound


class ObjectBlobStore:
    """Keeps blobs in an `obstore` object store (`pip install outlast[blobs]`).

        ObjectBlobStore(obstore.store.S3Store("bucket", prefix="outlast", region="eu-west-1"))

    Args:
        store: a store of `obstore.store`; it handles retries and credentials.
    """

    def __init__(self, store: Any) -> None:
        if not callable(getattr(store, "get_async", None)):
            raise UserError(f"ObjectBlobStore needs a store of obstore.store, not {store!r}.")
        self._store = store

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectBlobStore) and bool(vars(other) == vars(self))

    def __hash__(self) -> int:
        return hash(ObjectBlobStore)  # stores of `obstore` have none of their own

    def __repr__(self) -> str:
        return f"ObjectBlobStore({self._store!r})"

    async def put(self, data: bytes) -> str:
        """Store a blob durably and return its key."""
        key = key_of(data)
        with bucket_errors():
            await self._store.put_async(_path(key), data)
        return key

    async def get(self, key: str) -> bytes:
        """Return a blob.

        Raises:
            BlobNotFound: the store has no blob with this key.
            BlobDamaged: the object does not have this digest.
        """
        with bucket_errors(missing=BlobNotFound(f"{self!r} has no blob {key}.")):
            found = await self._store.get_async(_path(key))
            data = bytes(await found.bytes_async())
        if key_of(data) != key:
            raise BlobDamaged(f"The blob {key} in {self!r} is damaged: its bytes have changed.")
        return data

    async def delete(self, key: str) -> None:
        """Remove a blob, if the store has it. Runs that refer to it lose this content."""
        with suppress(BlobNotFound), bucket_errors(missing=BlobNotFound(key)):
            await self._store.delete_async(_path(key))


def _path(key: str) -> str:
    digest = key.removeprefix("sha256:")
    return f"{digest[:2]}/{digest}"
