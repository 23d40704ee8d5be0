"""Keeps results about the items of conversations, so that a turn examines only its new items.

Items never change, and between two model calls a conversation only grows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from operator import is_
from typing import Generic, TypeVar
from weakref import ref

from outlast.loop.items import Item

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class _Entry(Generic[T]):
    """A result about items; the last of them is referenced weakly."""

    before: Sequence[Item]
    last: ref[Item]
    result: T


class PrefixCache(Generic[T]):
    """Maps the first items of each conversation to a result about them.

    An entry is dropped when the last of its items is freed, which the run's workflow, or the run in
    memory, holds. So the cache keeps no conversation alive.
    """

    def __init__(self) -> None:
        self._entries: dict[str, _Entry[T]] = {}

    def __len__(self) -> int:
        """Return the number of conversations with an entry."""
        return len(self._entries)

    def find(self, key: str, items: Sequence[Item]) -> tuple[int, T] | None:
        """Return the number of first items with a result, and the result; None if there is none.

        Only the same objects count, not equal ones.
        """
        entry = self._entries.get(key)
        if entry is None:
            return None
        at = len(entry.before)
        last = entry.last()
        is_prefix = last is not None and at < len(items) and items[at] is last
        if not is_prefix or not all(map(is_, entry.before, items)):
            return None
        return at + 1, entry.result

    def keep(self, key: str, items: Sequence[Item], result: T) -> None:
        """Keep a result about all of these items."""
        if items:
            last = ref(items[-1], partial(self._drop, key))
            self._entries[key] = _Entry(items[:-1], last, result)

    def _drop(self, key: str, last: ref[Item]) -> None:
        entry = self._entries.get(key)
        if entry is not None and entry.last is last:
            del self._entries[key]
