"""Memories of bounded size: what was kept longest ago goes first."""

from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def keep_newest(kept: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    """Keep a value as the newest one, and no more than so many."""
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > most:
        kept.popitem(last=False)
