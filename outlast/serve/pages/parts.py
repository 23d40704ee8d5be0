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


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a list.

    Attributes:
        start: the place of its first entry.
        stop: the place after its last entry.
        after: the key of its first entry.
        before: the key of the entry that follows.
        around: the key of an entry in its last `SHOWN` ones: around it, a page shows them.
        is_shown: whether its entries are shown; otherwise there is a link to them.
    """

    start: int
    stop: int
    after: int
    before: int
    around: int
    is_shown: bool

    @property
    def length(self) -> int:
        """How many entries it has."""
        return self.stop - self.start


def parts_before(keys: Sequence[int], first: int, wanted: int | None = None) -> list[Part]:
    """Return the parts before the newest entries of a page.

    Args:
        keys: the keys of all entries.
        first: the place of the first of the newest entries.
        wanted: the key of an entry that is shown, with those around it; None for none.
    """
    if wanted is None or (at := bisect_left(keys, wanted)) >= first:
        return _parts(keys, (0, first, False))
    start = max(0, min(at - SHOWN // 2, first - SHOWN))
    stop = min(first, start + SHOWN)
    return _parts(keys, (0, start, False), (start, stop, True), (stop, first, False))


def newest_parts(keys: Sequence[int], query: Mapping[str, str]) -> list[Part]:
    """Return what takes the place of a part that an address names by its two ends."""
    start, stop = (bisect_left(keys, wanted_key(query, one) or 0) for one in ("after", "before"))
    middle = max(start, stop - SHOWN)
    return _parts(keys, (start, middle, False), (middle, stop, True))


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


def earlier_html(
    asked: DeskRequest,
    here: Sequence[str],
    parts: Sequence[Part],
    noun: str,
    entries: Callable[[int, int], str],
) -> Markup:
    """Return what stands before the newest entries: links, and entries where they are shown.

    Args:
        asked: the request.
        here: the path of the page.
        parts: the parts.
        noun: what an entry is.
        entries: returns the entries between two places.
    """
    found = [
        entries(part.start, part.stop)
        if part.is_shown
        else fragment(
            asked,
            "part_link.html",
            part=part,
            noun=noun,
            address=link(asked, *here, **{noun: str(part.around)}),
            more=link(
                asked, *here, f"more-{noun}s", after=str(part.after), before=str(part.before)
            ),
        )
        for part in parts
    ]
    return Markup("".join(found))  # noqa: S704  templates made them


def _parts(keys: Sequence[int], *ranges: tuple[int, int, bool]) -> list[Part]:
    return [
        Part(
            start=start,
            stop=stop,
            after=key_at(keys, start),
            before=key_at(keys, stop),
            around=key_at(keys, max(start, stop - SHOWN // 2)),
            is_shown=is_shown,
        )
        for start, stop, is_shown in ranges
        if start < stop
    ]
