"""A window on a model's stream, which travels in heartbeats and not in history.

The worker keeps the newest events of the provider's stream in a window and sends it with its
heartbeats; the server shows the last heartbeat to clients.

Every event has a position in its stream. A delta counts as many positions as it has characters, any
other event counts one, so a reader that has half of a delta knows which half.
"""

import json
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast

from outlast.loop.values import JsonObject

WINDOW_BYTES: Final = 16_000
"""The maximum size of a window as JSON, unless the newest events need more."""

BURST_BYTES: Final = 128_000
"""The maximum size of a window as JSON, whatever the newest events need."""

KEPT_SECONDS: Final = 3.0
KEPT_SENDS: Final = 3
"""Events stay in the window for this long and for this many sends, unless they exceed three
quarters of `BURST_BYTES`. Readers poll more often than that and so miss nothing."""

LARGEST_EVENT_SHARE: Final = 1 / 16
"""An event larger than this share of a window, unless it is a delta, is not sent: it repeats the
text of the deltas, and would push them out."""

KEPT_APART: Final = 32
"""How many of a text's newest deltas stay separate when older ones are merged."""

TEXTS: Final = frozenset(
    {
        "response.output_text.delta",
        "response.reasoning_summary_text.delta",
        "response.reasoning_text.delta",
        "response.refusal.delta",
    }
)
"""The events with text that people read as it is written."""

SHOWN: Final = "shown"
"""The key in a heartbeat's details that says so, for the attempts after it."""

_SHRUNK_TO: Final = 0.75
_WITH_RESPONSE = frozenset({"response.created", "response.in_progress", "response.queued"})
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed", "error"})
_OF_RESPONSE = ("id", "object", "created_at", "model", "status")
_NOT_SENT = frozenset({"delta", "obfuscation"})

TextPlace: TypeAlias = tuple[str, int, int, int, int]
"""A text or a sign of a stream: its event's type; numbers of item, content, summary, command."""

_PARTS = ("output_index", "content_index", "summary_index", "command_index")


def is_delta(event: JsonObject) -> bool:
    """Whether an event is the next piece of a text."""
    return str(event.get("type")).endswith(".delta") and isinstance(event.get("delta"), str)


def place_of(event: JsonObject) -> TextPlace:
    """Return the place of an event in its stream."""
    numbers = (event.get(name) for name in _PARTS)
    item, content, summary, command = (one if isinstance(one, int) else 0 for one in numbers)
    return str(event.get("type")), item, content, summary, command


def _json_bytes(value: Any) -> int:
    return len(json.dumps(value)) + 2


@dataclass
class _Entry:
    """An event, or consecutive deltas of one text that differ in nothing else."""

    event: JsonObject
    """Without `delta`; for several deltas, with the `sequence_number` of the last."""

    size: int
    """The approximate size as JSON."""

    deltas: list[str] = field(default_factory=list[str])
    at: int = 0
    """The offset of the deltas in their text, in characters."""

    def span(self) -> int:
        return sum(map(len, self.deltas)) if self.deltas else 1

    def takes(self, event: JsonObject) -> bool:
        """Whether a delta continues this entry."""
        if not self.deltas:
            return False
        number, last = event.get("sequence_number"), self.event.get("sequence_number")
        if isinstance(last, int) and number != last + 1:
            return False
        return {**event, "sequence_number": 0} == {**self.event, "sequence_number": 0}

    def wire(self) -> JsonObject:
        if not self.deltas:
            return {"event": self.event}
        return {"event": self.event, "at": self.at, "deltas": list(self.deltas)}


class DeltaWindow:
    """The newest events of one attempt of a model call, for the sender.

    Attributes:
        effect: the number of the model call's effect.
        execution: the execution that makes the call; empty if that is not known.
        fed_bytes: the size of all events so far as JSON; it changes with each that is shown.
        has_news: whether there are events that were not sent yet.
    """

    def __init__(
        self, *, effect: int, attempt: int, limit_bytes: int = BURST_BYTES, execution: str = ""
    ) -> None:
        self.effect = effect
        self.execution = execution
        self._attempt = attempt
        self._usual = min(WINDOW_BYTES, limit_bytes)
        self._longest = limit_bytes
        self.fed_bytes: int = 0
        self._sends = deque([(0.0, 0)])
        self._first = 0
        self._entries: list[_Entry] = []
        self._size = self._empty = _json_bytes(self.details())
        self._said: dict[TextPlace, int] = {}
        self._halves: dict[TextPlace, str] = {}
        self.has_news: bool = False

    def feed(self, raw_event: JsonObject) -> None:
        """Add the next event of the provider's stream; the event is not changed."""
        kind = raw_event.get("type")
        if kind in _ENDS:
            return  # history has the end, with the whole reply
        if is_delta(raw_event):
            self._feed_delta(raw_event)
        else:
            self._feed_other(raw_event)
        recent = self._empty + self.fed_bytes - self._sends[0][1]
        goal = min(max(recent, int(self._usual * _SHRUNK_TO)), int(self._longest * _SHRUNK_TO))
        if self._size > goal / _SHRUNK_TO:
            self._shrink(goal)

    def details(self) -> JsonObject:
        """Return the window as heartbeat details."""
        return {
            "effect": self.effect,
            "attempt": self._attempt,
            "first": self._first,
            "events": [entry.wire() for entry in self._entries],
        }

    @property
    def weight(self) -> int:
        """How many times as rarely a large window is sent, so that it sends no more bytes."""
        return self._size // WINDOW_BYTES + 1

    def note_sent(self, now: float) -> None:
        """Record that the window is being sent at a time in seconds, on any clock."""
        self.has_news = False
        self._sends.append((now, self.fed_bytes))
        while len(self._sends) > KEPT_SENDS and self._sends[1][0] <= now - KEPT_SECONDS:
            self._sends.popleft()

    def _feed_delta(self, raw_event: JsonObject) -> None:
        event = {name: value for name, value in raw_event.items() if name not in _NOT_SENT}
        place = place_of(event)
        delta = self._whole_characters(place, str(raw_event["delta"]))
        if not delta:
            return
        at = self._said.get(place, 0)
        self._said[place] = at + len(delta)
        size = _json_bytes(delta)
        last = self._entries[-1] if self._entries else None
        if last is not None and last.takes(event):
            last.event = event
            last.deltas.append(delta)
            last.size += size
        else:
            size += _json_bytes({"event": event, "at": at, "deltas": []})
            self._entries.append(_Entry(event, size, [delta], at))
        self._size += size
        self.fed_bytes += size
        self.has_news = True

    def _whole_characters(self, place: TextPlace, delta: str) -> str:
        """Hold a high surrogate back until the low one arrives, which JSON writes in two."""
        if half := self._halves.pop(place, ""):
            pair = (half + delta[:1]).encode("utf-16", "surrogatepass")
            delta = pair.decode("utf-16", "surrogatepass") + delta[1:]
        if "\ud800" <= delta[-1:] <= "\udbff":
            self._halves[place] = delta[-1]
            return delta[:-1]
        return delta

    def _feed_other(self, raw_event: JsonObject) -> None:
        event = raw_event
        response = event.get("response")
        if event.get("type") in _WITH_RESPONSE and isinstance(response, dict):
            fields = cast("JsonObject", response)
            slim: JsonObject = {name: fields[name] for name in _OF_RESPONSE if name in fields}
            event = {**event, "response": {**slim, "output": list[Any]()}}
        size = _json_bytes({"event": event})
        if size <= self._usual * LARGEST_EVENT_SHARE:
            self._entries.append(_Entry(event, size))
            self._size += size
            self.fed_bytes += size
            self.has_news = True

    def _shrink(self, goal: int) -> None:
        for entry in self._entries:
            self._merge(entry)
        while self._size > goal and self._entries:
            oldest = self._entries[0]
            if sum(map(_json_bytes, oldest.deltas)) > self._size - goal:
                self._cut(oldest, self._size - goal)
                return
            self._entries.pop(0)
            self._first += oldest.span()
            self._size -= oldest.size

    def _merge(self, entry: _Entry) -> None:
        older = entry.deltas[:-KEPT_APART]
        if len(older) < 2:
            return
        merged = "".join(older)
        saved = sum(map(_json_bytes, older)) - _json_bytes(merged)
        entry.deltas[:-KEPT_APART] = [merged]
        entry.size -= saved
        self._size -= saved

    def _cut(self, entry: _Entry, excess: int) -> None:
        """Drop characters from the beginning of a text until `excess` bytes are saved.

        The text has more bytes than that.
        """
        while excess > 0:
            delta = entry.deltas[0]
            size = _json_bytes(delta)
            if size <= excess:
                rest, saved = "", size
                entry.deltas.pop(0)
            else:
                # Escaped characters differ in size, so measure the rest.
                keep = max(1, len(delta) * (size - excess) // size)
                rest = delta[-keep:]
                entry.deltas[0] = rest
                saved = size - _json_bytes(rest)
            cut = len(delta) - len(rest)
            entry.at += cut
            entry.size -= saved
            self._first += cut
            self._size -= saved
            excess -= saved
            if cut == 0:
                return


@dataclass
class ShownText:
    """Whether text of a model call has left, on this attempt or one before it.

    Attributes:
        has_left: text has left.
        decides: another model would follow if none had.
    """

    has_left: bool = False
    decides: bool = False

    @classmethod
    def before(cls, details: object) -> "ShownText":
        """Return what the details of the last heartbeat of an earlier attempt say."""
        known = isinstance(details, dict) and cast("JsonObject", details).get(SHOWN) is True
        return cls(has_left=known)

    def note(self, event: JsonObject) -> None:
        """Note an event that readers get."""
        if event.get("type") in TEXTS:
            self.has_left = True

    def details(self) -> JsonObject:
        """Return what a heartbeat says of it."""
        return {SHOWN: True} if self.has_left else {}
