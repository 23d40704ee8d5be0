"""Parts of long lists: a page shows the newest entries, and more of them on demand.

Entries have keys, whole numbers that grow along the list and stay the same, so that addresses name
them though a list changes meanwhile.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from outlast.serve.pages.page import fragment, link
from outlast.serve.routing import DeskRequest
from outlast.views.customer import CustomerMessage

SHOWN: Final = 50
"""How many entries a page shows at first, and how many more at once."""

LAST: Final = 10**9
"""A key that is larger than those of all entries before it."""


@dataclass(frozen=True, slots=True)
class LongList:
    """A list of a page: its newest entries, and what stands before them.

    Attributes:
        asked: the request; its address may name an entry, and then a page also shows those around it.
        here: the path of the page.
        noun: what an entry is.
        keys: the keys of all entries.
        first: the place of the first of the newest entries.
        entries: returns the entries between two places as HTML.
    """

    asked: DeskRequest
    here: Sequence[str]
    noun: str
    keys: Sequence[int]
    first: int
    entries: Callable[[int, int], str]

    @property
    def first_key(self) -> int:
        """The key of the first of the newest entries."""
        return key_at(self.keys, self.first)

    @property
    def newest(self) -> Markup:
        """The newest entries."""
        return Markup(self.entries(self.first, len(self.keys)))  # noqa: S704  templates made them

    @property
    def earlier(self) -> Markup:
        """What stands before the newest entries: links, and entries around the one that is named."""
        first, wanted = self.first, wanted_key(self.asked.http.query_params, self.noun)
        if wanted is None or (at := bisect_left(self.keys, wanted)) >= first:
            return self._parts((0, first, False))
        start = max(0, min(at - SHOWN // 2, first - SHOWN))
        stop = min(first, start + SHOWN)
        return self._parts((0, start, False), (start, stop, True), (stop, first, False))

    @property
    def part(self) -> Markup:
        """What takes the place of a part that the address names by its two ends."""
        query = self.asked.http.query_params
        ends = (wanted_key(query, one) or 0 for one in ("after", "before"))
        start, stop = (bisect_left(self.keys, one) for one in ends)
        middle = max(start, stop - SHOWN)
        return self._parts((start, middle, False), (middle, stop, True))

    def _parts(self, *ranges: tuple[int, int, bool]) -> Markup:
        """Return parts of the list: entries where they are shown, and else a link to them."""
        found = [
            self.entries(start, stop) if is_shown else self._link(start, stop)
            for start, stop, is_shown in ranges
            if start < stop
        ]
        return Markup("".join(found))  # noqa: S704  templates made them

    def _link(self, start: int, stop: int) -> str:
        """Return a link to a part; without scripts, it leads to a page with the end of the part."""
        keys = (start, stop, max(start, stop - SHOWN // 2))
        after, before, around = (str(key_at(self.keys, one)) for one in keys)
        return fragment(
            self.asked,
            "part_link.html",
            start=start,
            length=stop - start,
            noun=self.noun,
            address=link(self.asked, *self.here, **{self.noun: around}),
            more=link(self.asked, *self.here, f"more-{self.noun}s", after=after, before=before),
        )


def newest(keys: Sequence[int], first: int | None = None) -> int:
    """Return the place of the first of the newest entries, or of the entry with a key."""
    return max(0, len(keys) - SHOWN) if first is None else bisect_left(keys, first)


def key_at(keys: Sequence[int], place: int) -> int:
    """Return the key of an entry; 0 for the first one, as others may come before it."""
    return keys[place] if 0 < place < len(keys) else 0 if place == 0 else LAST


def message_keys(messages: Sequence[CustomerMessage]) -> list[int]:
    """Return the keys of messages: their places in the transcript."""
    return [message_key(one.id) for one in messages]


def message_key(message_id: str) -> int:
    """Return the key of a message; one that has no place in the transcript is the newest."""
    number = message_id[1:]
    is_item = message_id.startswith("i") and number.isascii() and number.isdecimal()
    return int(number) if is_item and len(number) < 10 else LAST


def wanted_key(query: Mapping[str, str], name: str) -> int | None:
    """Return a key that an address has; None without one."""
    text = query.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None
