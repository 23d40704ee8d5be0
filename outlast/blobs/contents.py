"""Moves large content between records and a store."""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, TypeVar

from outlast.agents.errors import UserError
from outlast.agents.logs import get_logger
from outlast.contract import blobs
from outlast.contract.blobs import Address, Contents
from outlast.loop.values import Json, JsonObject
from outlast.ports.blobs import BlobDamaged, BlobNotFound, BlobStore, StoreTimeout

T = TypeVar("T")

logger: Final = get_logger(__name__)

CACHE_BYTES: Final = 64_000_000
"""How much content a process keeps in memory for the next attempt that needs it."""

AT_ONCE: Final = 8
"""How many blobs are read or written at the same time."""

PATIENCE_SECONDS: Final = 10.0
"""How long a store may take for a small blob, in seconds."""

SLOWEST_BYTES_PER_SECOND: Final = 1_000_000
"""A store gets one second more for each of so many bytes."""

Gone: TypeAlias = Literal["nothing", "damaged", "missing"]
"""Which content counts as gone for good: none, what is damaged, or also what is missing."""

_DAMAGED: Final = "the stored copy is damaged."
_LACKS: Final = "the store no longer has it."


class LargeContent:
    """Moves large content between records and a store.

    Args:
        store: where content is stored; with None, all content stays in the records.
        threshold: content of fewer bytes stays in the record.
        cache_bytes: how much content is kept in memory.
        patience: how long the store may take for a small blob, in seconds.
    """

    def __init__(
        self,
        store: BlobStore | None,
        *,
        threshold: int = blobs.THRESHOLD_BYTES,
        cache_bytes: int = CACHE_BYTES,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self.store = store
        self.threshold = threshold
        self._cache_bytes = cache_bytes
        self._patience = patience
        self._gone: set[str] = set()
        self._cached: OrderedDict[Address, list[str]] = OrderedDict()
        self._size = 0
        self._keeping = threading.Lock()

    async def put_all(self, found: Contents, *, within: float | None = None) -> None:
        """Store blobs; call this before writing any record that refers to them.

        By default, it may take `PATIENCE_SECONDS` and the time for the size.

        Raises:
            StoreTimeout: the store does not answer in time.
            Exception: any error of the store.
        """
        store = self.store
        if store is None or not found:
            return
        limit = asyncio.Semaphore(AT_ONCE)

        async def put(key: str, data: bytes) -> None:
            async with limit:
                longest = _patience(len(data), self._patience, within)
                got = await _in_time(store.put(data), longest, f"{store!r} has not stored {key}")
            if got != key:
                raise UserError(
                    f"{type(store).__name__}.put returned {got!r}, but a blob's key is the "
                    f"SHA-256 of its bytes: {key!r}."
                )
            self._gone.discard(key)

        await _together(put(key, data) for key, data in found.items())

    async def joined(self, value: Json) -> Json:
        """Return the value with its blobs' content inserted; see `joined_all`."""
        return (await self.joined_all([value]))[0]

    async def joined_all(
        self, values: Sequence[Json], *, words_for: Gone = "nothing"
    ) -> list[Json]:
        """Return the values with their blobs' content, or with words where that is gone for good.

        A value without blobs is returned as the same object.

        Raises:
            BlobNotFound: the store lacks a blob, or there is no store.
            BlobDamaged: a blob has changed in the store.
            StoreTimeout: the store does not answer in time.
            Exception: any other error of the store.
        """
        marked = [at for at, value in enumerate(values) if not blobs.is_plain(value)]
        if not marked:
            return list(values)
        needed = {
            blobs.address(ref): ref["bytes"]
            for at in marked
            for ref in blobs.references(values[at])
        }
        content, gone = await self._read(needed, words_for)

        def text_of(ref: JsonObject) -> str:
            why = gone.get(blobs.address(ref))
            if why is not None:
                return blobs.lost_text(ref, why)
            try:
                return blobs.text_in(content, ref)
            except ValueError:
                if words_for == "nothing":
                    raise
                return blobs.lost_text(ref, _LACKS)

        made = list(values)
        for at in marked:
            made[at] = blobs.join(values[at], text_of)
        return made

    async def whole_items(
        self, raws: Sequence[JsonObject], *, words_for: Gone = "nothing"
    ) -> list[JsonObject]:
        """Return items with their content, in a form that providers accept; see `joined_all`."""
        made = await self.joined_all(raws, words_for=words_for)
        if words_for == "nothing":
            return made
        return [
            raw if raw is before else blobs.sendable(raw)
            for raw, before in zip(made, raws, strict=True)
        ]

    async def lost_in(self, value: Json) -> list[str]:
        """Return the keys of a value's blobs that are gone for good, each with the reason.

        Raises:
            Exception: the store cannot be read.
        """
        needed = {blobs.address(ref): ref["bytes"] for ref in blobs.references(value)}
        _, gone = await self._read(needed, "missing")
        return [f"{key}: {why}" for (key, _), why in gone.items()]

    async def _read(
        self, needed: Mapping[Address, int], words_for: Gone
    ) -> tuple[dict[Address, list[str]], dict[Address, str]]:
        content: dict[Address, list[str]] = {}
        gone: dict[Address, str] = {}
        with self._keeping:
            for one in needed:
                if one in self._cached:
                    self._cached.move_to_end(one)
                    content[one] = self._cached[one]
        missing = [one for one in needed if one not in content]
        if not missing:
            return content, gone
        store, limit = self.store, asyncio.Semaphore(AT_ONCE)
        if store is None:
            raise BlobNotFound(
                f"{missing[0][0]} is in a blob store, and this process has none. Set the "
                "store of the other processes: blob_store=, or the variable OUTLAST_BLOB_STORE."
            )

        async def read(one: Address) -> None:
            key, parts = one
            try:
                async with limit:
                    longest = _patience(needed[one], self._patience, None)
                    data = await _in_time(store.get(key), longest, f"{store!r} has not read {key}")
                content[one] = _texts_in(data, key, parts=parts)
            except (BlobDamaged, BlobNotFound) as error:
                if not self._is_gone(key, error, words_for):
                    raise
                gone[one] = _LACKS if isinstance(error, BlobNotFound) else _DAMAGED
            else:
                self._keep(one, content[one])

        await _together(read(one) for one in missing)
        return content, gone

    def _is_gone(self, key: str, error: Exception, words_for: Gone) -> bool:
        """Whether words take the place of a blob; people are told once of each."""
        is_missing = isinstance(error, BlobNotFound)
        if words_for == "nothing" or (
            is_missing and words_for == "damaged" and key not in self._gone
        ):
            return False
        if key not in self._gone:
            self._gone.add(key)
            logger.warning("content of a run is lost, and its models read so: %s", error)
        return True

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


def _texts_in(data: bytes, key: str, *, parts: bool) -> list[str]:
    if blobs.key_of(data) != key:
        raise BlobDamaged(f"The blob {key} is damaged: its bytes have changed.")
    try:
        return blobs.read_blob(data, parts=parts)
    except ValueError as error:
        raise BlobDamaged(f"The blob {key} holds no text: {error}") from error


def _patience(size: int, patience: float, within: float | None) -> float:
    longest = patience + size / SLOWEST_BYTES_PER_SECOND
    return longest if within is None else min(longest, within)


async def _in_time(call: Awaitable[T], seconds: float, what: str) -> T:
    """Return the store's answer; a call that ignores its cancellation is left alone."""
    task = asyncio.ensure_future(call)
    try:
        await asyncio.wait({task}, timeout=seconds)
        if task.done():
            return task.result()
    finally:
        if not task.done():
            task.cancel()
            task.add_done_callback(_take_outcome)
    raise StoreTimeout(f"{what} within {seconds:.0f} s.")


def _take_outcome(task: "asyncio.Future[Any]") -> None:
    """Read a late error, which asyncio would log."""
    if not task.cancelled():
        task.exception()


async def _together(jobs: Iterable[Coroutine[Any, Any, None]]) -> None:
    tasks = [asyncio.create_task(job) for job in jobs]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
