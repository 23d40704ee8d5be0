"""A filter's change of the model's view, as an edit.

A filter returns lists. Most of their items were there before, so the edit refers to them by
position and contains only new items. An item is recognized as the same unchanged object, or else by
equal content. The search for equal content starts from the last match, so that a filter which keeps
the order yields few ranges.
"""

import json
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import UserError
from outlast.agents.handoffs.input_data import HandoffInputData
from outlast.agents.items.repair import Links
from outlast.agents.items.run_items import RunItem, RunItemBase, ToolApprovalItem, raw_of
from outlast.loop.items import only_text
from outlast.loop.values import JsonObject
from outlast.loop.view import Segment, ViewEdit


@dataclass(frozen=True, kw_only=True)
class HandoffView:
    """The view before a handoff, to whose positions an edit refers, and the filter's argument.

    `handed` is the object that the filter gets for each position: a copy, or a run item.
    """

    raws: tuple[JsonObject, ...]
    handed: tuple[object, ...]
    data: HandoffInputData

    @property
    def first_item(self) -> int:
        """The position of the first run item; the input history is before it."""
        return self.first_new_item - len(self.data.pre_handoff_items)

    @property
    def first_new_item(self) -> int:
        """The position of the first run item of the turn that hands over."""
        return len(self.raws) - len(self.data.new_items)

    @cached_property
    def keys(self) -> list[str]:
        """The content of each position, in a comparable form."""
        return [_key(raw) for raw in self.raws]


def handoff_view(
    history: Sequence[JsonObject],
    pre_items: Sequence[RunItem],
    new_items: Sequence[RunItem],
    run_context: RunContextWrapper[Any] | None = None,
    *,
    shows_items: bool = False,
) -> HandoffView:
    """Return the view before a handoff.

    The filter gets copies, because the run's own state may hold the very objects passed here. A
    history of one plain user message is a string for the filter, unless `shows_items`. Calls that
    wait for an approval have no position, so there must be none among the items.
    """
    items = (*pre_items, *new_items)
    copies = tuple(deepcopy(raw) for raw in history)
    text = None if shows_items else only_text(history)
    return HandoffView(
        raws=(*history, *(raw_of(item) for item in items)),
        handed=(*((text,) if text is not None else copies), *items),
        data=HandoffInputData(
            input_history=copies if text is None else text,
            pre_handoff_items=tuple(pre_items),
            new_items=tuple(new_items),
            run_context=run_context,
        ),
    )


def edit_of(view: HandoffView, result: object, *, handoff: str) -> ViewEdit:
    """Return a filter's result as an edit.

    The next model sees the history, the earlier items, and then `input_items` if there are any,
    else `new_items`. Items that wait for an approval are never shown.
    """
    if not isinstance(result, HandoffInputData):
        raise UserError(
            f"The input filter of the handoff {handoff!r} returned {type(result).__name__}. It "
            "must return HandoffInputData, such as data.clone(...)."
        )
    places = _Places(view, handoff)
    history = places.of(_history(result, handoff))
    pre = places.of(_items(result.pre_handoff_items, "pre_handoff_items", handoff))
    shown_items = result.new_items if result.input_items is None else result.input_items
    field = "new_items" if result.input_items is None else "input_items"
    shown = places.of(_items(shown_items, field, handoff))
    new = shown
    if result.input_items is not None:
        new = places.of(_items(result.new_items, "new_items", handoff), of_new_turn=True)
    kept, added, order = set[int](), list[JsonObject](), list[int]()
    for place in new:
        if isinstance(place, dict) or place < view.first_item:
            added.append(place if isinstance(place, dict) else view.raws[place])
            order.append(-len(added))
        elif place >= view.first_new_item and place not in kept:
            kept.add(place)
            order.append(place)
    added_last = [*sorted(kept), *range(-1, -1 - len(added), -1)]
    new_positions = range(view.first_new_item, len(view.raws))
    history, rest = _whole(view, history), _whole(view, [*pre, *shown])
    return ViewEdit(
        segments=tuple(_segments([*history, *rest])),
        history=len(history),
        dropped=tuple(at for at in new_positions if at not in kept),
        added=tuple(added),
        arranged=() if order == added_last else tuple(order),
    )


def _whole(view: HandoffView, places: Sequence[int | JsonObject]) -> list[int | JsonObject]:
    """Return places without reasoning that lost what it led to, and what lost its reasoning."""
    raws = [view.raws[place] if isinstance(place, int) else place for place in places]
    kept = Links.of(view.raws).kept_in(raws)
    return [place for place, raw in zip(places, kept, strict=True) if raw is not None]


class _Places:
    """Finds the positions of a filter's items."""

    def __init__(self, view: HandoffView, handoff: str) -> None:
        self._view = view
        self._handoff = handoff
        self._by_object = {id(item): at for at, item in enumerate(view.handed)}
        self._next = 0

    def of(
        self, entries: Sequence[tuple[object, JsonObject]], *, of_new_turn: bool = False
    ) -> list[int | JsonObject]:
        """Return the position of each entry, or its content if the entry is new."""
        if of_new_turn:
            self._next = self._view.first_new_item
        return [self._place(entry, raw) for entry, raw in entries]

    def _place(self, entry: object, raw: JsonObject) -> int | JsonObject:
        at = self._by_object.get(id(entry))
        if at is None or not self._is_same(at, raw):
            at = self._equal(raw)
        if at is None:
            return cast("JsonObject", json.loads(self._checked_key(raw)))
        self._next = at + 1
        return at

    def _is_same(self, at: int, raw: JsonObject) -> bool:
        own = self._view.raws[at]
        return own is raw or _key(own) == self._checked_key(raw)

    def _equal(self, raw: JsonObject) -> int | None:
        places = self._by_key.get(self._checked_key(raw))
        if not places:
            return None
        index = bisect_left(places, self._next)
        return places[index] if index < len(places) else places[0]

    def _checked_key(self, raw: JsonObject) -> str:
        try:
            return _key(raw, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise UserError(
                f"The input filter of the handoff {self._handoff!r} returned an item that cannot "
                f"be written as JSON: {error}. Put strings, numbers, lists and dicts in it."
            ) from None

    @cached_property
    def _by_key(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for at, key in enumerate(self._view.keys):
            found.setdefault(key, []).append(at)
        return found


def _segments(places: Iterable[int | JsonObject]) -> list[Segment]:
    segments: list[Segment] = []
    start = stop = -1
    for place in places:
        if isinstance(place, int) and place == stop:
            stop += 1
            segments[-1] = (start, stop)
        elif isinstance(place, int):
            start, stop = place, place + 1
            segments.append((start, stop))
        else:
            stop = -1
            segments.append(place)
    return segments


def _history(result: HandoffInputData, handoff: str) -> list[tuple[object, JsonObject]]:
    history = cast("object", result.input_history)
    if isinstance(history, str):
        return [(history, {"role": "user", "content": history})]
    listed = _listed(history, "input_history", handoff, "a string or a tuple of input items")
    for entry in listed:
        if not isinstance(entry, dict):
            raise UserError(
                f"The input filter of the handoff {handoff!r} put {type(entry).__name__} into "
                "input_history, which holds input items (dicts). Use item.to_input_item() for a "
                "run item."
            )
    return [(entry, cast("JsonObject", entry)) for entry in listed]


def _items(items: object, field: str, handoff: str) -> list[tuple[object, JsonObject]]:
    listed = _listed(items, field, handoff, "a tuple of run items")
    for entry in listed:
        if not isinstance(entry, RunItemBase):
            raise UserError(
                f"The input filter of the handoff {handoff!r} put {type(entry).__name__} into "
                f"{field}, which holds run items, such as MessageOutputItem. Put input items "
                "(dicts) into input_history."
            )
    items = cast("Sequence[RunItemBase]", listed)
    return [(item, raw_of(item)) for item in items if not isinstance(item, ToolApprovalItem)]


def _listed(value: object, field: str, handoff: str, expected: str) -> Sequence[object]:
    if not isinstance(value, list | tuple):
        raise UserError(
            f"The input filter of the handoff {handoff!r} returned {type(value).__name__} as "
            f"{field}. Return {expected}."
        )
    return cast("Sequence[object]", value)


def _key(raw: JsonObject, *, allow_nan: bool = True) -> str:
    return json.dumps(raw, sort_keys=True, ensure_ascii=False, allow_nan=allow_nan)
