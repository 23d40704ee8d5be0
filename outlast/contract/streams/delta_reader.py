"""Reads a model's stream from windows and the recorded reply, without gaps or repetition."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast

from outlast.contract.streams.reply_events import TYPES_OF_DELTAS, item_events, whole_texts
from outlast.contract.streams.window import TextPlace, is_delta, place_of
from outlast.loop.values import JsonObject

RESTARTED: Final = "outlast.attempt_restarted"
"""The type of the event that voids all earlier events of a model call; `attempt` is the new one."""

GAP: Final = "outlast.gap"
"""The type of the event for missed events, `missed` in number; the recorded reply has them."""

FILLED: Final = "outlast.filled"
"""A key, with the value True, of events that fill a gap from the recorded reply."""

UNJUDGED: Final = "outlast.unjudged"
"""A key, with the value True, of the first event of an attempt whose text nobody judges: the agent,
as the worker that makes the call knows it, has no output guardrails, and no person approves its
answers."""

_ITEM_DONE: Final = "response.output_item.done"

_Begun: TypeAlias = int | tuple[int, str, int]
"""An item, or a part of an item, that a reader has partly seen."""


@dataclass
class _Text:
    """The beginning of a text that a reader has seen."""

    parts: list[str] = field(default_factory=list[str])
    length: int = 0

    def add(self, delta: str) -> None:
        self.parts.append(delta)
        self.length += len(delta)

    def begins(self, text: str) -> bool:
        return text.startswith("".join(self.parts))


class DeltaReader:
    """The part of one model call's stream that one reader has seen.

    Until the reply is complete, the returned events of an attempt are a prefix of its stream,
    whatever windows were fed: the deltas of each text always add up to the beginning of the text.
    After a gap, a reader therefore gets no more events of the attempt until the reply is recorded;
    `complete` then returns the rest, in order.

    Attributes:
        attempt: the newest attempt seen; 0 before the first.
        is_complete: whether the whole reply was returned; no further events follow.
    """

    def __init__(self) -> None:
        self.attempt: int = 0
        self.is_complete: bool = False
        self._forget()

    def feed(self, details: object) -> list[JsonObject]:
        """Return the events of a window that were not seen before.

        If an older attempt was seen, a newer attempt begins with an event of the type
        `outlast.attempt_restarted`. Missing events become one `outlast.gap`, after which the
        attempt has no further events. Details that are no window, and windows of older attempts,
        have no events.
        """
        window = _Window.of(details)
        if window is None or self.is_complete or window.attempt < self.attempt:
            return []
        events = self.restart(window.attempt)
        if self._has_gap:
            return events
        if window.first > self._position:
            return [*events, self._gap(window.first - self._position)]
        position = window.first
        for entry in window.entries:
            for event, at in _events_of(entry):
                span = len(event["delta"]) if at is not None else 1
                seen = max(self._position - position, 0)
                position += span
                if seen >= span:
                    continue
                if at is not None:
                    missed = at + seen - self._text(event).length
                    if missed != 0:
                        return [*events, self._gap(abs(missed))]
                    event["delta"] = event["delta"][seen:]
                self._note(event)
                self._position = position
                events.append(event)
        return events

    def continues(self, details: object) -> bool:
        """Whether a window continues the earlier ones without a gap."""
        window = _Window.of(details)
        if window is None or self._has_gap:
            return False
        seen = self._position if window.attempt == self.attempt else 0
        return window.attempt >= self.attempt and window.first <= seen

    def _gap(self, missed: int) -> JsonObject:
        self._has_gap = True
        return {"type": GAP, "missed": missed}

    def restart(self, attempt: int) -> list[JsonObject]:
        """Record that an attempt has begun; return the restart event, if one is due."""
        if attempt <= self.attempt or self.is_complete:
            return []
        is_read = self._position > 0 or self._has_gap
        self.attempt = attempt
        self._forget()
        return [{"type": RESTARTED, "attempt": attempt}] if is_read else []

    def complete(self, response: JsonObject) -> list[JsonObject]:
        """Return the rest of the reply, now that it is recorded.

        If the reply does not continue the seen events, it came from an attempt that this reader has
        not seen: all its events are returned, after a restart. Events that fill a gap are marked
        with `outlast.filled`.
        """
        if self.is_complete:
            return []
        output = cast("Sequence[JsonObject]", response["output"])
        whole = [event for at, item in self._placed(output) for event in item_events(item, at)]
        events: list[JsonObject] = []
        if self._contradict(whole):
            events += self.restart(self.attempt + 1)
            whole = [event for at, item in enumerate(output) for event in item_events(item, at)]
        if self._position == 0:
            begun: JsonObject = {**response, "status": "in_progress", "output": [], "usage": None}
            whole.insert(0, {"type": "response.created", "response": begun})
        mark: JsonObject = {FILLED: True} if self._has_gap else {}
        for event in whole:
            missing = self._missing(event)
            if missing is not None:
                events.append({**missing, **mark})
        end: JsonObject = {"type": "response.completed", "response": response}
        events.append({**end, "sequence_number": self._number + 1})
        self.is_complete = True
        self._forget()  # a reader of a long run keeps one of these for every model call
        return events

    def _forget(self) -> None:
        self._position = 0
        self._has_gap = False
        self._signs: set[TextPlace] = set()
        self._texts: dict[TextPlace, _Text] = {}
        self._begun: set[_Begun] = set()
        self._places: dict[str, int] = {}
        self._number = -1

    def _text(self, event: JsonObject) -> _Text:
        return self._texts.setdefault(place_of(event), _Text())

    def _note(self, event: JsonObject) -> None:
        place = place_of(event)
        index = place[1]
        if "output_index" in event:
            self._begun |= {index, _part_of(event)}
        if is_delta(event):
            self._text(event).add(event["delta"])
        else:
            self._signs.add(place)
        item_id = event.get("item_id")
        if isinstance(event.get("item"), dict):
            item_id = event["item"].get("id")
        if isinstance(item_id, str):
            self._places.setdefault(item_id, index)
        number = event.get("sequence_number")
        self._number = number if isinstance(number, int) else self._number

    def _placed(self, output: Sequence[JsonObject]) -> Iterator[tuple[int, JsonObject]]:
        for at, item in enumerate(output):
            yield self._places.get(str(item.get("id")), at), item

    def _contradict(self, whole: Sequence[JsonObject]) -> bool:
        texts = {
            (delta_type, *place_of(event)[1:]): text
            for event in whole
            for delta_type, text in whole_texts(event)
        }
        items = {place[1] for place in texts}
        return any(
            not seen.begins(texts.get(place, ""))
            for place, seen in self._texts.items()
            if place in texts or (place[1] in items and place[0] in TYPES_OF_DELTAS)
        )

    def _missing(self, event: JsonObject) -> JsonObject | None:
        """Return the unseen part of an event, and record it as seen."""
        place = place_of(event)
        if is_delta(event):
            rest = event["delta"][self._text(event).length :]
            if not rest:
                return None
            event = {**event, "delta": rest}
        elif place in self._signs or (place[0].endswith(".added") and self._has_begun(event)):
            return None
        elif place[0].endswith(".done") and (_ITEM_DONE, place[1], 0, 0, 0) in self._signs:
            return None  # the item is done, in a stream without the ends of its parts
        self._number += 1
        return {**event, "sequence_number": self._number}

    def _has_begun(self, event: JsonObject) -> bool:
        return _part_of(event) in self._begun


@dataclass(frozen=True)
class _Window:
    attempt: int
    first: int
    entries: list[JsonObject]

    @classmethod
    def of(cls, details: object) -> "_Window | None":
        """Read a heartbeat's details; None if they are no window."""
        if not isinstance(details, dict):
            return None
        fields = cast("JsonObject", details)
        attempt, first, entries = (fields.get(name) for name in ("attempt", "first", "events"))
        if not (isinstance(attempt, int) and isinstance(first, int) and isinstance(entries, list)):
            return None
        listed = cast("list[Any]", entries)
        return cls(attempt, first, listed) if all(map(_is_entry, listed)) else None


def _is_entry(value: Any) -> bool:
    match value:
        case {"event": dict(), "at": int(), "deltas": list()}:
            return all(isinstance(delta, str) for delta in cast("JsonObject", value)["deltas"])
        case {"event": dict()}:
            return "deltas" not in value
        case _:
            return False


def _events_of(entry: JsonObject) -> Iterator[tuple[JsonObject, int | None]]:
    """Yield the events of an entry; each delta with its offset in the text."""
    event = entry["event"]
    if "deltas" not in entry:
        yield dict(event), None
        return
    at, last, texts = entry["at"], event.get("sequence_number"), entry["deltas"]
    for index, delta in enumerate(texts):
        numbered = (
            {"sequence_number": last - (len(texts) - 1 - index)} if isinstance(last, int) else {}
        )
        yield {**event, **numbered, "delta": delta}, at
        at += len(delta)


def _part_of(event: JsonObject) -> "_Begun":
    _, item, content, summary, command = place_of(event)
    if "summary_index" in event:
        return item, "summary", summary
    if "command_index" in event:
        return item, "command", command
    return (item, "content", content) if "content_index" in event else item
