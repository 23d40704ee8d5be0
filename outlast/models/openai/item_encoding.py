"""Encodes the items of requests as JSON, each item of a run once.

A run sends its conversation again in each turn, with a few more items. Encoding all of them costs
as much as the rest of a call. So the encoding of each item is kept, beside a copy of the item: it is
only used for an item that equals the copy.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, cast

from outlast.loop.values import JsonObject
from outlast.models.openai.body_encoding import EncodedItems, encode

_MOST_BYTES: Final = 16 * 2**20
"""How much JSON of runs is kept in a process; the runs that called last keep theirs."""


SentForm: TypeAlias = Callable[
    [JsonObject, JsonObject | None, JsonObject | None], JsonObject | None
]
"""Returns what is sent of an item, between what was sent before it and the item after it.

None means that the item is left out. The item after only matters to reasoning.
"""


class _Kept:
    __slots__ = ("copies", "data", "sent", "size")

    def __init__(self) -> None:
        self.copies: list[Any] = []
        self.sent: list[JsonObject | None] = []
        self.data: list[bytes] = []
        self.size = 0

    def drop_from(self, position: int) -> None:
        self.size -= sum(map(len, self.data[position:]))
        del self.copies[position:], self.sent[position:], self.data[position:]

    def add(self, item: JsonObject, sent: JsonObject | None) -> None:
        data = b"" if sent is None else encode(sent)
        self.copies.append(_copy(item))
        self.sent.append(sent)
        self.data.append(data)
        self.size += len(data)


class ItemEncoder:
    """Encodes the items of requests. Thread-safe."""

    def __init__(self, *, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._runs: dict[str, _Kept] = {}  # the run that called first comes first
        self._lock = threading.Lock()

    def of_run(
        self, key: str | None, items: Sequence[JsonObject], sent_form: SentForm | None = None
    ) -> list[JsonObject]:
        """Return what is sent of each item, with its JSON unless an item has none.

        Args:
            key: names the run, and the `sent_form` if the run uses several; None keeps nothing.
            items: the items.
            sent_form: what is sent of an item; by default the item itself.
        """
        form = sent_form or _itself
        if key is None:
            return sent_forms(items, form)
        with self._lock:  # another call of the run finds nothing meanwhile
            kept = self._runs.pop(key, None) or _Kept()
            self._bytes -= kept.size
        try:
            return self._add(kept, list(items), form)
        except (TypeError, ValueError, RecursionError):
            return sent_forms(items, form)  # who sends it knows the words for this
        finally:
            with self._lock:
                self._keep(key, kept)

    def _add(self, kept: _Kept, items: list[JsonObject], sent_form: SentForm) -> list[JsonObject]:
        known = len(kept.copies)
        if kept.copies != items[:known]:
            equal = (copy == item for copy, item in zip(kept.copies, items, strict=False))
            known = next((at for at, same in enumerate(equal) if not same), len(items))
            if known < len(items):
                kept.drop_from(known)
        if known and items[known - 1].get("type") == "reasoning":  # another item may follow it now
            known -= 1
            kept.drop_from(known)
        before = next((sent for sent in reversed(kept.sent[:known]) if sent is not None), None)
        for at in range(known, len(items)):
            sent = sent_form(items[at], before, items[at + 1] if at + 1 < len(items) else None)
            kept.add(items[at], sent)
            before = before if sent is None else sent
        sent, data = kept.sent[: len(items)], kept.data[: len(items)]
        if None in sent:
            pairs = [(one, text) for one, text in zip(sent, data, strict=True) if one is not None]
            sent, data = [one for one, _ in pairs], [text for _, text in pairs]
        return EncodedItems(cast("list[JsonObject]", sent), data)

    def _keep(self, key: str, kept: _Kept) -> None:
        replaced = self._runs.pop(key, None)
        self._bytes += kept.size - (replaced.size if replaced is not None else 0)
        self._runs[key] = kept
        while self._bytes > self._most_bytes:
            self._bytes -= self._runs.pop(next(iter(self._runs))).size


def sent_forms(
    items: Sequence[JsonObject], sent_form: SentForm, before: JsonObject | None = None
) -> list[JsonObject]:
    """Return what is sent of items behind another one, without those that are left out."""
    forms: list[JsonObject] = []
    for at, item in enumerate(items, 1):
        sent = sent_form(item, before, items[at] if at < len(items) else None)
        if sent is not None:
            forms.append(sent)
            before = sent
    return forms


def _itself(item: JsonObject, before: object, after: object) -> JsonObject:
    del before, after
    return item


class _Number:
    """A copy of a number or a boolean, which equals no value of another type."""

    __slots__ = ("_value",)

    def __init__(self, value: float) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self._value) and other == self._value

    __hash__ = None  # pyright: ignore[reportAssignmentType]  never a key


class _Unequal:
    """A copy of a value that may change unnoticed."""

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = None  # pyright: ignore[reportAssignmentType]  never a key


_UNEQUAL: Final = _Unequal()


_STR: Final = frozenset({str})
_UNCHANGING: Final = frozenset({str, type(None)})


def _copy(value: object) -> object:
    """Return a copy of JSON that equals only values with the same JSON."""
    if type(value) is str or value is None:
        return value
    if type(value) is dict:
        members = cast("dict[object, object]", value)
        if _STR.issuperset(map(type, members)):
            if _UNCHANGING.issuperset(map(type, members.values())):  # as of most items
                return members.copy()
            return {name: _copy(member) for name, member in members.items()}
    elif type(value) is list:
        return [_copy(member) for member in cast("list[object]", value)]
    elif isinstance(value, float | int) and type(value) in (bool, int, float):
        return _Number(value)
    return _UNEQUAL
