"""Stores large content before sending, and reads it back for results."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

from outlast.agents.errors import AgentsException, ContentUnavailable
from outlast.blobs import large_content
from outlast.blobs.contents import LargeContent
from outlast.contract import blobs, records
from outlast.loop.items import Item
from outlast.loop.values import Json, JsonObject

R = TypeVar("R", records.RunInput, records.SendRecord)
T = TypeVar("T")

INLINE_BYTES = 500_000
"""The maximum of JSON that a message holds inline with a blob store: a quarter of the limit."""


async def with_content_stored(client: Any, record: R) -> R:
    """Return a message with its large content moved to the client's store, if it has one.

    What a user wrote never reads as a reference to content, also without a store: a person may
    send through a program whatever the program passes on.

    Raises:
        ContentUnavailable: the store cannot be written.
    """
    items = list(records.messages_of(record.input))
    stored = await items_stored(client, items)
    return record if stored == items else cast("R", replace(cast("Any", record), input=stored))


async def items_stored(client: Any, items: list[JsonObject]) -> list[JsonObject]:
    """Return items, or parts of them, with their large content moved to the client's store.

    Raises:
        ContentUnavailable: the store cannot be written.
    """
    content = large_content(client=client)
    found: blobs.Contents = {}
    if content.store is None:
        stored = [blobs.escape_item(raw) for raw in items]
    else:
        stored = blobs.split_to_fit(items, content.threshold, INLINE_BYTES, found)
    try:
        await content.put_all(found)
    except AgentsException:
        raise
    except Exception as error:  # any store's error
        raise ContentUnavailable(
            f"The large content of the message cannot be stored in {content.store!r}: "
            f"{type(error).__name__}: {error}"
        ) from error
    return stored


class ContentReader:
    """Puts stored content back into values read from a run."""

    def __init__(self, content: LargeContent) -> None:
        self._content = content

    @property
    def has_store(self) -> bool:
        """Whether this process can read stored content."""
        return self._content.store is not None

    async def prefetch(self, items: Iterable[Item]) -> None:
        """Read the content of items into the cache, so that `whole` need not wait."""
        with suppress(Exception):  # raised again when the content is used
            await self._content.joined_all([item.raw for item in items])

    async def lost(self, items: Sequence[Item]) -> list[str]:
        """Return what the store has lost of items, in words; empty without a store.

        A store that cannot be read is named once, as it says nothing about its content.
        """
        found: list[str] = []
        for number, item in enumerate(items, 1):
            if self._content.store is None or blobs.is_plain(item.raw):
                continue
            try:
                lost = await self._content.lost_in(item.raw)
            except Exception as error:  # noqa: BLE001  any store's error
                kind = type(error).__name__
                return [*found, f"{self._content.store!r} cannot be read: {kind}: {error}"]
            found += [f"item {number} ({item.kind}): {one}" for one in lost]
        return found

    def whole(self, value: Json) -> Json:
        """Return a value with its content, or with placeholders without a store.

        Raises:
            ContentUnavailable: the store lacks the content, or cannot be read.
        """
        return self._read([value], self._content.joined_all)[0]

    def whole_raws(self, raws: list[JsonObject]) -> list[JsonObject]:
        """Return raw items with their content; words take the place of damaged content."""
        return self._read(raws, partial(self._content.whole_items, words_for="damaged"))

    def whole_item(self, item: Item) -> Item:
        """Return an item with its content; see `whole_raws`."""
        return self.whole_items([item])[0]

    def whole_items(self, items: Sequence[Item]) -> tuple[Item, ...]:
        """Return items with their content; see `whole_raws`. Reads all of it at once."""
        raws = self.whole_raws([item.raw for item in items])
        return tuple(
            item if raw is item.raw else replace(item, raw=raw)
            for item, raw in zip(items, raws, strict=True)
        )

    def _read(
        self, values: list[T], read: Callable[[list[T]], Coroutine[Any, Any, list[T]]]
    ) -> list[T]:
        if all(blobs.is_plain(value) for value in values):
            return values
        if self._content.store is None:
            return [cast("T", blobs.readable(value)) for value in values]
        with ThreadPoolExecutor(1) as elsewhere:  # an event loop may be running in this thread
            reading = elsewhere.submit(asyncio.run, read(values))
            try:
                return reading.result()
            except Exception as error:  # any store's error
                raise ContentUnavailable(
                    f"Content of the run that is stored in {self._content.store!r} cannot be read: "
                    f"{type(error).__name__}: {error}"
                ) from error


def reader_of(client: Any) -> ContentReader:
    """Return the reader for values that are read with a client."""
    return ContentReader(large_content(client=client))
