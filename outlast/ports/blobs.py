"""The port to a blob store, and the conversion of large content to blobs and back."""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Final, Protocol, runtime_checkable

from outlast.agents.errors import UserError
from outlast.contract import blobs
from outlast.contract.blobs import Address, Contents
from outlast.loop.values import Json

CACHE_BYTES: Final = 64_000_000
"""How much content a process keeps in memory for the next attempt that needs it."""

AT_ONCE: Final = 8
"""How many blobs are read or written at the same time."""


class BlobNotFound(Exception):
    """The store has no blob with this key.

    The process may use another store, or a backup that lacks the newest blobs. The effect that
    needs the blob is retried, as after an outage, because another worker may have the blob.
    """


class BlobDamaged(Exception):
    """The stored bytes do not match the blob's digest."""


@runtime_checkable
class BlobStore(Protocol):
    """Stores large content under the SHA-256 of its bytes.

    A blob never changes, so storing it twice is harmless. Any exception other than `BlobDamaged`
    counts as an outage, and the effect that needs the blob is retried. Both methods may be
    called from any event loop.
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


class LargeContent:
    """Moves large content between records and a store.

    Args:
        store: where content is stored; with None, all content stays in the records.
        threshold: content of fewer bytes stays in the record.
        cache_bytes: how much content is kept in memory.
    """

    def __init__(
        self,
        store: BlobStore | None,
        *,
        threshold: int = blobs.THRESHOLD_BYTES,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self.store = store
        self.threshold = threshold
        self._cache_bytes = cache_bytes
        self._cached: OrderedDict[Address, list[str]] = OrderedDict()
        self._size = 0
        self._keeping = threading.Lock()

    async def put_all(self, found: Contents) -> None:
        """Store blobs; call this before writing any record that refers to them.

        Raises:
            Exception: any error of the store.
        """
        store = self.store
        if store is None or not found:
            return
        limit = asyncio.Semaphore(AT_ONCE)

        async def put(key: str, data: bytes) -> None:
            async with limit:
                got = await store.put(data)
            if got != key:
                raise UserError(
                    f"{type(store).__name__}.put returned {got!r}, but a blob's key is the "
                    f"SHA-256 of its bytes: {key!r}."
                )

        await _together(put(key, data) for key, data in found.items())

    async def joined(self, value: Json) -> Json:
        """Return the value with its blobs' content inserted.

        Raises:
            BlobNotFound: the store lacks a blob, or there is no store.
            Exception: any error of the store.
        """
        if blobs.is_plain(value):
            return value
        content = await self._read(blobs.address(ref) for ref in blobs.references(value))
        return blobs.join(value, lambda ref: blobs.text_in(content, ref))

    async def joined_all(self, values: Sequence[Json]) -> list[Json]:
        """Return the values with their blobs' content inserted.

        A value without blobs is returned as the same object.

        Raises:
            BlobNotFound: the store lacks a blob, or there is no store.
            Exception: any error of the store.
        """
        marked = [at for at, value in enumerate(values) if not blobs.is_plain(value)]
        if not marked:
            return list(values)
        needed = (blobs.address(ref) for at in marked for ref in blobs.references(values[at]))
        content = await self._read(needed)
        made = list(values)
        for at in marked:
            made[at] = blobs.join(values[at], lambda ref: blobs.text_in(content, ref))
        return made

    async def _read(self, addresses: Iterable[Address]) -> dict[Address, list[str]]:
        """Return the texts of blobs, from memory or from the store."""
        wanted = dict.fromkeys(addresses)
        content: dict[Address, list[str]] = {}
        with self._keeping:
            for one in wanted:
                if one in self._cached:
                    self._cached.move_to_end(one)
                    content[one] = self._cached[one]
        missing = [one for one in wanted if one not in content]
        if not missing:
            return content
        store, limit = self.store, asyncio.Semaphore(AT_ONCE)
        if store is None:
            raise BlobNotFound(
                f"{missing[0][0]} is in a blob store, and this process has none. Set the "
                "store of the other processes: blob_store=, or the variable OUTLAST_BLOB_STORE."
            )

        async def read(one: Address) -> None:
            async with limit:
                content[one] = blobs.read_blob(await store.get(one[0]), parts=one[1])
            self._keep(one, content[one])

        await _together(read(one) for one in missing)
        return content

    def _keep(self, one: Address, texts: list[str]) -> None:
        size = sum(map(len, texts))
        with self._keeping:
            if one in self._cached or size > self._cache_bytes // 4:
                return
            self._cached[one] = texts
            self._size += size
            while self._size > self._cache_bytes:
                _, dropped = self._cached.popitem(last=False)
                self._size -= sum(map(len, dropped))


async def _together(jobs: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all jobs concurrently; the first failure cancels the others."""
    tasks = [asyncio.create_task(job) for job in jobs]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
