"""The model's view of the transcript: all of it, or the part that a filter kept.

The transcript only ever grows; a filter changes the view. Its result is recorded as an edit, with
ranges to keep and items to insert, so that a handoff never writes the transcript into history
again.
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from outlast.loop.items import Item
from outlast.loop.values import JsonObject

Segment: TypeAlias = tuple[int, int] | JsonObject
"""A half-open range of positions, or a raw item that stands in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewEdit:
    """A filter's change of a view.

    Attributes:
        segments: the new view: ranges of positions of the old one, and inserted raw items.
        history: how many entries of the new view count as the input of the run.
        dropped: positions of the old view whose items are no longer items of the run.
        added: raw items that became items of the run.
        arranged: the order of the turn's items in the run: positions of the old view, and -1 for
            the first of `added`, -2 for the second. Empty if what was added comes last.
    """

    segments: tuple[Segment, ...]
    history: int
    dropped: tuple[int, ...] = ()
    added: tuple[JsonObject, ...] = ()
    arranged: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The items that a model call sees.

    Attributes:
        segments: ranges of the transcript, and items that a filter inserted.
        rest: the index from which on the whole transcript is shown.
        history: the number of entries that count as the input of the current question.
    """

    segments: tuple[Segment, ...] = ()
    rest: int = 0
    history: int = 0


WHOLE = View()
"""The whole transcript."""


def shown(view: View, items: Sequence[Item], length: int) -> tuple[Item, ...]:
    """Return the items that a view shows of the first `length` items of the transcript."""
    if not view.segments:
        return tuple(items[view.rest : length])
    entries: list[Item] = []
    for segment in view.segments:
        if isinstance(segment, dict):
            entries.append(Item(_kind_of(segment), segment))
        else:
            entries.extend(items[segment[0] : segment[1]])
    return (*entries, *items[view.rest : length])


def entries(view: View, items: Sequence[Item], length: int) -> Iterator[tuple[int | None, Item]]:
    """Yield what `shown` returns, each with its index in the transcript; inserted items have none."""
    for place in _places(view, length):
        if isinstance(place, dict):
            yield None, Item(_kind_of(place), place)
        else:
            yield place, items[place]


def size(view: View, length: int) -> int:
    """Return the number of entries that a view shows of the first `length` items."""
    inside = sum(1 if isinstance(one, dict) else one[1] - one[0] for one in view.segments)
    return inside + length - view.rest


def edited(view: View, length: int, edit: ViewEdit, newest: int | None = None) -> View:
    """Return the view after an edit; all entries of the edited view are in the edit.

    Args:
        view: the view before.
        length: the length of the transcript.
        edit: the edit.
        newest: the index that the last item of the transcript gets, if others come before it.
    """
    last = length - 1
    newest = last if newest is None else newest
    places = [newest if place == last else place for place in _places(view, length)]
    segments: list[Segment] = []
    for segment in edit.segments:
        if isinstance(segment, dict):
            segments.append(segment)
        else:
            for place in places[segment[0] : segment[1]]:
                _extend(segments, place)
    return View(segments=tuple(segments), rest=length, history=edit.history)


def without(view: View, start: int, stop: int) -> View:
    """Return a view without a range at the end of the transcript."""
    segments = list(view.segments)
    if view.rest < start:
        segments.append((view.rest, start))
    return View(segments=tuple(segments), rest=stop, history=view.history)


def without_places(view: View, length: int, left_out: Container[int]) -> View:
    """Return a view without some indices of the transcript."""
    segments: list[Segment] = []
    for place in _places(view, length):
        if isinstance(place, dict) or place not in left_out:
            _extend(segments, place)
    rest = View(segments=tuple(segments), rest=length)
    removed = size(view, length) - size(rest, length)
    return View(segments=rest.segments, rest=length, history=max(view.history - removed, 0))


def places_in_transcript(view: View, length: int, positions: Sequence[int]) -> tuple[int, ...]:
    """Return the transcript indices of positions in a view; inserted items have none."""
    indices = transcript_indices(view, length)
    return tuple(indices[at] for at in positions if at in indices)


def transcript_indices(view: View, length: int) -> dict[int, int]:
    """Return the transcript index of each position in a view; inserted items have none."""
    places = enumerate(_places(view, length))
    return {at: place for at, place in places if isinstance(place, int)}


def _places(view: View, length: int) -> Iterator[int | JsonObject]:
    for segment in view.segments:
        if isinstance(segment, dict):
            yield segment
        else:
            yield from range(segment[0], segment[1])
    yield from range(view.rest, length)


def _extend(segments: list[Segment], place: int | JsonObject) -> None:
    """Add one place; neighboring places become one range, which keeps long views short."""
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
