"""Content of items in the blob store: which texts move there, and their references.

The format of a reference is in `values.py`. Where blobs are kept is not this module's concern.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, cast

from outlast.loop.items import Item
from outlast.loop.values import Json, JsonObject, reference

OFFLOAD_ABOVE: Final = 1_000_000
"""New items with more characters than this are moved to the blob store. Recorded histories depend
on this number: it must never change."""

MOVED_ABOVE: Final = 256
"""Shorter texts stay inline: a reference is about a hundred characters."""

KEPT: Final = frozenset({"type", "role", "id", "call_id", "name", "status"})
"""Fields of an item that always stay inline: the loop and the tools of people read them."""

Path: TypeAlias = tuple[str | int, ...]
"""The place of a text in a JSON value: keys and indices, from the outside to the inside."""


@dataclass(frozen=True, slots=True)
class Moved:
    """One text that moved to the blob store.

    Attributes:
        item: the index of its item in the transcript.
        path: the place of the text in the item.
        bytes: its size.
        key: the index of its blob's key in `Offload.keys`.
        part: its index in a blob that holds several texts; None for a blob of its own.
    """

    item: int
    path: Path
    bytes: int
    key: int
    part: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Offload:
    """The texts of a transcript that moved to the blob store, and the keys of their blobs."""

    keys: tuple[str, ...] = ()
    moved: tuple[Moved, ...] = ()


def long_texts(value: Json, least: int, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield each text of at least `least` characters in a JSON value, with its path."""
    if isinstance(value, str):
        if len(value) >= least:
            yield path, value
    elif isinstance(value, dict):
        for key, inner in cast("JsonObject", value).items():
            if path or key not in KEPT:
                yield from long_texts(inner, least, (*path, key))
    elif isinstance(value, list):
        for at, inner in enumerate(cast("list[Any]", value)):
            yield from long_texts(inner, least, (*path, at))


def weight(items: Sequence[Item]) -> int:
    """Return how many characters of the items could be moved to the blob store."""
    return sum(len(text) for item in items for _, text in long_texts(item.raw, MOVED_ABOVE, ()))


def with_references(items: Sequence[Item], offload: Offload) -> tuple[Item, ...]:
    """Return the items with references instead of the texts that moved.

    A path without a text of that size is skipped: the text was withheld in the meantime.
    """
    newer = list(items)
    for one in offload.moved:
        if 0 <= one.item < len(newer) and 0 <= one.key < len(offload.keys) and one.path:
            item = newer[one.item]
            stands = reference(offload.keys[one.key], one.bytes, one.part)
            raw = _put(item.raw, one.path, stands)
            newer[one.item] = replace(item, raw=raw)
    return tuple(newer)


def _put(value: Json, path: Path, new: JsonObject) -> Json:
    if not path:
        return new if isinstance(value, str) and _size(value) == new["bytes"] else value
    step, rest = path[0], path[1:]
    if isinstance(value, dict) and step in value:
        fields = cast("JsonObject", value)
        return {**fields, str(step): _put(fields[str(step)], rest, new)}
    if isinstance(value, list) and type(step) is int and 0 <= step < len(cast("list[Any]", value)):
        entries = list(cast("list[Any]", value))
        entries[step] = _put(entries[step], rest, new)
        return entries
    return cast("Json", value)


def _size(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))
