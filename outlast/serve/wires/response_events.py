"""Answers as responses of OpenAI's Responses API: objects, events and their numbers."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, cast

from outlast.agents.errors import UserError
from outlast.edges.rendering import head
from outlast.serve.wires.ids import RequestId, ResponseId
from outlast.serve.wires.steps import (
    Finished,
    Place,
    Reasoned,
    Seen,
    Step,
    TextBegun,
    TextDone,
    TextHidden,
    TextPiece,
    TextVoid,
    ToolAnswered,
    text_check,
)
from outlast.views.records import JsonObject
from outlast.views.transcript import as_text, name_of

# --- Sequence numbers ----------------------------------------------------------------------------

_EVENT_BITS, _VOID_BITS, _OFFSET_BITS, _LOW_BITS = 14, 4, 20, 15
"""Together 53 bits: what the numbers of JavaScript hold."""

_VOID_LOW: Final = 16_384
"""The low number of the event that voids a message."""

_BEGIN_LOW: Final = 16_385
"""Low numbers of the events that begin a message."""

_FINISH_LOW: Final = 32_000
"""Low numbers of the last events."""


class SequenceTooLong(UserError):
    """An answer has more events than there are numbers."""


def packed(place: Place, low: int) -> int:
    """Return the sequence number of an event: larger than that of every event before it.

    The same event has the same number in every process. Only the count of void texts is the
    client's own, so a client brings it along in the number.
    """
    if place.event >> _EVENT_BITS or place.offset >> _OFFSET_BITS or low >> _LOW_BITS:
        raise SequenceTooLong("The answer has too many events to be streamed. Retrieve it instead.")
    high = (place.event << _VOID_BITS) + min(place.voids, (1 << _VOID_BITS) - 1)
    return ((high << _OFFSET_BITS) + place.offset << _LOW_BITS) + low


def seen_at(number: int) -> Seen:
    """Return the position of a client from the sequence number of its last event."""
    rest, low = divmod(number, 1 << _LOW_BITS)
    rest, offset = divmod(rest, 1 << _OFFSET_BITS)
    event, voids = divmod(rest, 1 << _VOID_BITS)
    place = Place(event, voids, offset)
    if offset:
        return Seen(place, "text", low)
    if _BEGIN_LOW <= low < _BEGIN_LOW + 2:
        return Seen(place, "text", text_check(""))
    if low == _VOID_LOW:
        return Seen(place, "void")
    return Seen(place, "finish" if low >= _FINISH_LOW else "other")


LARGEST_NUMBER: Final = (1 << _EVENT_BITS + _VOID_BITS + _OFFSET_BITS + _LOW_BITS) - 1

# --- Responses -----------------------------------------------------------------------------------

Status: TypeAlias = Literal[
    "queued", "in_progress", "completed", "incomplete", "failed", "cancelled"
]

_STATUSES: Final[dict[str, Status]] = {
    "answered": "completed",
    "asks": "completed",
    "failed": "failed",
    "ended": "failed",
    "cancelled": "cancelled",
}
_LAST_EVENTS: Final[dict[Status, str]] = {
    "completed": "response.completed",
    "incomplete": "response.incomplete",
    "failed": "response.failed",
    "cancelled": "response.incomplete",  # the API has no event of its own for it
}


LONGEST_METADATA: Final = 512
"""How many characters a value of a response's metadata has at most: a limit of OpenAI's API."""

_CUT_SHORT: Final[JsonObject] = {"reason": "max_output_tokens"}


@dataclass
class ResponseEvents:
    """Makes the events of one response from the steps of an answer.

    Attributes:
        id: the response.
        model: the agent that the client named.
        is_team: whether the caller may read why an answer failed.
        output: the items that are complete.
        status: the status.
        error: why it failed.
        trouble: what keeps the run from going on, in a sentence; or nothing.
    """

    id: ResponseId
    model: str
    is_team: bool = False
    output: list[JsonObject] = field(default_factory=list[JsonObject])
    status: Status = "in_progress"
    error: JsonObject | None = None
    trouble: str = ""
    _place: Place = field(default_factory=Place)
    _low: int = 0
    _index: int = 0
    _is_open: bool = False
    _inner: int = 0
    _hidden: int = 0
    _hidden_before: int = 0

    def response(self, **more: Any) -> JsonObject:
        """Return the response as it is now."""
        return {
            "id": str(self.id),
            "object": "response",
            "created_at": self.id.created_at,
            "status": self.status,
            "error": self.error,
            "incomplete_details": _CUT_SHORT if self.status == "incomplete" else None,
            "instructions": None,
            "metadata": self._metadata(),
            "model": self.model,
            "output": list(self.output),
            "parallel_tool_calls": True,
            "temperature": None,
            "top_p": None,
            "tool_choice": "auto",
            "tools": [],
            "conversation": {"id": self.id.run_id},
            **more,
        }

    def _metadata(self) -> JsonObject:
        if not self.trouble or self.status != "in_progress":
            return {}
        return {"trouble": head(self.trouble, LONGEST_METADATA)}

    def tell(self, trouble: str) -> Iterator[JsonObject]:
        """Yield the event that says what keeps the run from going on, if that is another thing now.

        It is no part of the answer, and has no number of its own.
        """
        if trouble != self.trouble:
            self.trouble = trouble
            yield {"type": "response.in_progress", "response": self.response()}

    def begin(self) -> Iterator[JsonObject]:
        """Yield the first events."""
        place = Place()
        yield self._event(place, "response.created", response=self.response())
        yield self._event(place, "response.in_progress", response=self.response())

    def take(self, step: Step) -> Iterator[JsonObject]:
        """Yield the events of a step."""
        match step:
            case TextBegun(place=place):
                yield from self._begin_message(place)
            case TextPiece(place=place, text=text, whole=whole):
                self._index = self._index_of_message(place.voids)
                fields: JsonObject = {**self._part, "delta": text, "logprobs": []}
                number = packed(place, text_check(whole))
                yield {"type": "response.output_text.delta", "sequence_number": number, **fields}
            case TextVoid(place=place):
                # It has no text, and is no part of the response: the next message has another index.
                self._low_from(place, _VOID_LOW)
                self._message_index(place.voids - 1)
                yield self._item_event(place, "done", self._message(None, "incomplete"))
            case TextHidden():
                self._hidden += 1  # a client that read it from another process has its index
            case TextDone(place=place, text=text, is_cut_short=is_cut):
                yield from self._end_message(place, text, "incomplete" if is_cut else "completed")
            case Reasoned(place=place, text=text):
                summary = [{"type": "summary_text", "text": text}] if text else []
                yield from self._whole_item(place, "rs", {"type": "reasoning", "summary": summary})
            case ToolAnswered():
                yield from self._call(step)
            case Finished():
                yield from self._finish(step)
            case _:
                pass

    # --- Items ----------------------------------------------------------------------------------

    def _next_index(self, place: Place) -> None:
        """Take the next index; void messages have had some, and a message in progress has one."""
        self._index = len(self.output) + place.voids + self._hidden + self._is_open
        self._inner += self._is_open

    def _message_index(self, voids: int) -> int:
        """Return the index of the message in progress; items that it was open for come after it."""
        self._index = self._index_of_message(voids)
        position, self._inner, self._is_open = len(self.output) - self._inner, 0, False
        return position

    def _index_of_message(self, voids: int) -> int:
        return len(self.output) - self._inner + voids + self._hidden_before

    def _item_id(self, prefix: str) -> str:
        own = hashlib.sha256(str(self.id).encode()).hexdigest()[:16]
        return f"{prefix}_{own}{self._index:04}"

    @property
    def _part(self) -> JsonObject:
        return {"item_id": self._item_id("msg"), "output_index": self._index, "content_index": 0}

    def _message(self, text: str | None, status: str) -> JsonObject:
        content = [] if text is None else [_text_part(text)]
        return {
            "id": self._item_id("msg"),
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": content,
        }

    def _begin_message(self, place: Place) -> Iterator[JsonObject]:
        self._low_from(place, _BEGIN_LOW)
        self._next_index(place)
        self._is_open, self._inner, self._hidden_before = True, 0, self._hidden
        yield self._item_event(place, "added", self._message(None, "in_progress"))
        yield self._event(place, "response.content_part.added", part=_text_part(""), **self._part)

    def _end_message(self, place: Place, text: str, status: str) -> Iterator[JsonObject]:
        position = self._message_index(place.voids)
        done: JsonObject = {"text": text, "logprobs": [], **self._part}
        yield self._event(place, "response.output_text.done", **done)
        part = {"part": _text_part(text), **self._part}
        yield self._event(place, "response.content_part.done", **part)
        message = self._message(text, status)
        yield self._item_event(place, "done", message)
        self.output.insert(position, message)

    def _whole_item(self, place: Place, prefix: str, fields: JsonObject) -> Iterator[JsonObject]:
        self._next_index(place)
        item: JsonObject = {"id": self._item_id(prefix), **fields}
        yield self._item_event(place, "added", item)
        yield self._item_event(place, "done", item)
        self.output.append(item)

    def _call(self, step: ToolAnswered) -> Iterator[JsonObject]:
        if step.call is None:
            return
        self._next_index(step.place)
        request = step.request
        item: JsonObject = {
            "id": self._item_id("mcp"),
            "type": "mcp_call",
            "name": name_of(step.call.raw),
            "server_label": step.call.agent,
            "arguments": step.arguments,
            "approval_request_id": None if request is None else str(RequestId.of(request)),
            "error": None,
            "output": None,
            "status": "in_progress",
        }
        own = {"item_id": item["id"], "output_index": self._index}
        yield self._item_event(step.place, "added", {**item, "arguments": ""})
        yield self._event(step.place, "response.mcp_call.in_progress", **own)
        yield self._event(
            step.place, "response.mcp_call_arguments.done", arguments=item["arguments"], **own
        )
        yield self._event(step.place, "response.mcp_call.completed", **own)
        output = step.item.raw.get("output")
        item |= {"output": None if output is None else as_text(output), "status": "completed"}
        yield self._item_event(step.place, "done", item)
        self.output.append(item)

    def _finish(self, step: Finished) -> Iterator[JsonObject]:
        self._low_from(step.place, _FINISH_LOW)
        for request in step.requests:
            self._next_index(step.place)
            item: JsonObject = {
                "id": str(RequestId.of(request)),
                "type": "mcp_approval_request",
                "name": request.name,
                "server_label": request.source or request.agent,
                "arguments": request.arguments,
            }
            yield self._item_event(step.place, "added", item)
            yield self._item_event(step.place, "done", item)
            self.output.append(item)
        self.status = "incomplete" if step.is_cut_short else _STATUSES[step.reason]
        if self.status == "failed":
            self.error = {"code": "server_error", "message": step.words(is_team=self.is_team)}
        yield self._event(step.place, _LAST_EVENTS[self.status], response=self.response())

    # --- Events ---------------------------------------------------------------------------------

    def _item_event(
        self, place: Place, what: Literal["added", "done"], item: JsonObject
    ) -> JsonObject:
        kind = f"response.output_item.{what}"
        return self._event(place, kind, output_index=self._index, item=item)

    def _low_from(self, place: Place, low: int) -> None:
        self._place, self._low = place, low

    def _event(self, place: Place, kind: str, **fields: Any) -> JsonObject:
        if place != self._place:
            self._place, self._low = place, 0
        number = packed(place, self._low)
        self._low += 1
        return {"type": kind, "sequence_number": number, **fields}


def _text_part(text: str) -> JsonObject:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def is_terminal(event: JsonObject) -> bool:
    """Whether an event is the last one of a response."""
    return cast("str", event["type"]) in _LAST_EVENTS.values()
