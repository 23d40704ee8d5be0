"""What the model is shown of the transcript: all of it, or what a handoff's filter left of it.

Owns: `View`, `ViewEdit`, and how one makes the other. The transcript itself only ever grows; a
filter changes what is read of it. Its result is recorded as an edit, ranges that are kept and
items that are put in, so that a handoff never writes the transcript into history again. Must not
know: filters or handoffs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from outlast.loop.items import Item
from outlast.loop.values import JsonObject

Segment: TypeAlias = tuple[int, int] | JsonObject
"""A half-open range of positions, or a raw item that stands in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewEdit:
    """What a filter made of a view.

    Attributes:
        segments: the new view: ranges of positions of the old one, and inserted raw items.
        history: how many entries of the new view count as the input of the run.
        dropped: positions of the old view whose items are no longer items of the run.
        added: raw items that became items of the run.
    """

    segments: tuple[Segment, ...]
    history: int
    dropped: tuple[int, ...] = ()
    added: tuple[JsonObject, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Which items a model call is about.

    Attributes:
        segments: ranges of the transcript, and items that a filter put in.
        rest: the index of the transcript from which on everything is shown.
        history: how many of its entries count as the input of the current question.
    """

    segments: tuple[Segment, ...] = ()
    rest: int = 0
    history: int = 0


WHOLE = View()
"""The whole transcript."""


def shown(view: View, items: Sequence[Item], length: int) -> tuple[Item, ...]:
    """Return the items of a view, of the first `length` items of the transcript."""
    if not view.segments:
        return tuple(items[view.rest : length])
    entries: list[Item] = []
    for segment in view.segments:
        if isinstance(segment, dict):
            entries.append(Item(_kind_of(segment), segment))
        else:
            entries.extend(items[segment[0] : segment[1]])
    return (*entries, *items[view.rest : length])


def size(view: View, length: int) -> int:
    """Return how many entries a view has of the first `length` items of the transcript."""
    inside = sum(1 if isinstance(one, dict) else one[1] - one[0] for one in view.segments)
    return inside + length - view.rest


def edited(view: View, length: int, edit: ViewEdit) -> View:
    """Return the view that an edit makes of another, whose entries are all shown so far."""
    places = list(_places(view, length))
    segments: list[Segment] = []
    for segment in edit.segments:
        if isinstance(segment, dict):
            segments.append(segment)
        else:
            for place in places[segment[0] : segment[1]]:
                _extend(segments, place)
    return View(segments=tuple(segments), rest=length, history=edit.history)


def without(view: View, start: int, stop: int) -> View:
    """Return a view that does not show a range of the transcript at its end."""
    segments = list(view.segments)
    if view.rest < start:
        segments.append((view.rest, start))
    return View(segments=tuple(segments), rest=stop, history=view.history)


def places_in_transcript(view: View, length: int, positions: Sequence[int]) -> tuple[int, ...]:
    """Return the indices of the transcript behind positions of a view; inserted items have none."""
    places = list(_places(view, length))
    found = (places[at] for at in positions if 0 <= at < len(places))
    return tuple(place for place in found if isinstance(place, int))


def _places(view: View, length: int) -> Iterator[int | JsonObject]:
    for segment in view.segments:
        if isinstance(segment, dict):
            yield segment
        else:
            yield from range(segment[0], segment[1])
    yield from range(view.rest, length)


def _extend(segments: list[Segment], place: int | JsonObject) -> None:
    """Add one place; neighbours become one range, so that long views stay short to write."""
    if isinstance(place, dict):
        segments.append(place)
        return
    last: Any = segments[-1] if segments else None
    if isinstance(last, tuple) and cast("tuple[int, int]", last)[1] == place:
        segments[-1] = (cast("tuple[int, int]", last)[0], place + 1)
    else:
        segments.append((place, place + 1))


def _kind_of(raw: JsonObject) -> Any:
    return "message" if raw.get("role") == "assistant" else "input"
