"""Turns of a line: the user's words and the model's answer, from the model's events.

A pure reducer. The run gets one record, without audio, for each response of the model.
"""

import json
from dataclasses import dataclass, field
from typing import cast

from outlast.agents.items.raw_items import NO_ID
from outlast.agents.usage import plain_usage
from outlast.loop.values import NO_USAGE, JsonObject, Usage
from outlast.realtime.conversation import merged, with_transcript
from outlast.realtime.openai.messages import message_item, user_message
from outlast.realtime.port.items import (
    AssistantMessageItem,
    InputAudio,
    InputImage,
    InputText,
    RealtimeItem,
    UserMessageItem,
)
from outlast.realtime.port.model_events import (
    RealtimeModelAudioEvent,
    RealtimeModelEvent,
    RealtimeModelInputAudioTranscriptionCompletedEvent,
    RealtimeModelItemDeletedEvent,
    RealtimeModelItemUpdatedEvent,
    RealtimeModelOutputTextDeltaEvent,
    RealtimeModelToolCallEvent,
    RealtimeModelTranscriptDeltaEvent,
    RealtimeModelTurnEndedEvent,
    RealtimeModelTurnStartedEvent,
    RealtimeModelUsageEvent,
)
from outlast.realtime.port.model_inputs import RealtimeModelUserInput

NO_TRANSCRIPT = "[The user spoke. There is no transcript.]"
"""What the run records of speech whose transcript did not arrive."""


@dataclass(frozen=True)
class FinishedTurn:
    """One response of the model, and the user's words before it.

    Attributes:
        heard: the ids of the user's items before it; `Turns.take_said` returns their content.
    """

    response_id: str
    heard: tuple[str, ...] = ()
    output: tuple[JsonObject, ...] = ()
    usage: Usage = NO_USAGE

    @property
    def calls_tools(self) -> bool:
        """Whether the response has a call."""
        return any(raw["type"] == "function_call" for raw in self.output)


@dataclass
class _Response:
    """A response in progress: its messages by id, its calls, in the order of their arrival."""

    id: str
    heard: tuple[str, ...]
    parts: dict[str, "AssistantMessageItem | JsonObject"] = field(
        default_factory=dict[str, "AssistantMessageItem | JsonObject"]
    )
    texts: dict[str, str] = field(default_factory=dict[str, str])
    usage: Usage = NO_USAGE


class Turns:
    """Collects finished turns from the model's events.

    Args:
        prefix: makes ids for responses of models without ids, such as the id of the line.
    """

    def __init__(self, prefix: str = "line") -> None:
        self._prefix = prefix
        self._count = 0
        self._open: _Response | None = None
        self._said: dict[str, UserMessageItem] = {}
        self._sent: dict[str, str] = {}
        self._claimed: set[str] = set()
        self._taken: set[str] = set()
        self._ignored: set[str] = set()
        self._calls: set[str] = set()

    @property
    def speaks(self) -> bool:
        """Whether a response is in progress."""
        return self._open is not None

    def ignore_item(self, item_id: str) -> None:
        """Leave out an item that the transcript has already, such as a message sent to the run."""
        self._ignored.add(item_id)

    def send(self, message: RealtimeModelUserInput) -> None:
        """Record a message that the program sends to the model.

        The provider repeats it as an item, which is then not counted twice.
        """
        self._count += 1
        item_id = f"{self._prefix}-sent-{self._count}"
        raw = {**user_message(message)["item"], "id": item_id}
        item = cast("UserMessageItem", message_item(raw, status="completed"))
        self._said[item_id] = item
        self._sent[item_id] = _fingerprint(item)

    def take(self, event: RealtimeModelEvent) -> list[FinishedTurn]:
        """Take an event, and return the turns that it finishes."""
        match event:
            case RealtimeModelTurnStartedEvent():
                return self._start(event.response_id)
            case RealtimeModelTurnEndedEvent():
                return self.end()
            case RealtimeModelItemUpdatedEvent():
                self._take_item(event.item)
            case RealtimeModelItemDeletedEvent():
                self._said.pop(event.item_id, None)
            case RealtimeModelInputAudioTranscriptionCompletedEvent():
                self._transcribe(event.item_id, event.transcript)
            case RealtimeModelTranscriptDeltaEvent() | RealtimeModelOutputTextDeltaEvent():
                texts = self._response(event.response_id).texts
                texts[event.item_id] = texts.get(event.item_id, "") + event.delta
            case RealtimeModelAudioEvent():
                self._response(event.response_id)
            case RealtimeModelToolCallEvent():
                return self._take_call(event)
            case RealtimeModelUsageEvent():
                if self._open is not None:
                    self._open.usage = plain_usage(event.usage)
            case _:
                pass
        return []

    def end(self) -> list[FinishedTurn]:
        """End the turn in progress, and return it."""
        response, self._open = self._open, None
        if response is None:
            return []
        output = [
            part if isinstance(part, dict) else assistant_raw(part, response.texts.get(item_id))
            for item_id, part in response.parts.items()
        ]
        output += [
            _message(text)
            for item_id, text in response.texts.items()
            if item_id not in response.parts
        ]
        turn = FinishedTurn(
            response_id=response.id,
            heard=response.heard,
            output=tuple(raw for raw in output if raw is not None),
            usage=response.usage,
        )
        if not turn.output:  # cut off before it said a word: the user's words go to the next turn
            self._claimed.difference_update(response.heard)
        return [turn]

    def waits(self, turn: FinishedTurn) -> bool:
        """Whether the transcript of something that the user said before a turn is still missing."""
        return any(
            item_id in self._said and _is_silent(self._said[item_id]) for item_id in turn.heard
        )

    def take_said(self, turn: FinishedTurn | None = None) -> tuple[JsonObject, ...]:
        """Take the user's words before a turn, or all that they have said, as Responses items."""
        ids = list(self._said) if turn is None else [one for one in turn.heard if one in self._said]
        said = [(item_id, self._said.pop(item_id)) for item_id in ids]
        for item_id, item in said:
            self._claimed.discard(item_id)
            self._ignored.add(item_id)
            if _is_silent(item):
                self._taken.add(item_id)
        return tuple(raw for _, item in said if (raw := user_raw(item)) is not None)

    def unanswered(self) -> tuple[JsonObject, ...]:
        """Return the user's words without an answer, for a new connection."""
        return tuple(raw for item in self._said.values() if (raw := user_raw(item)) is not None)

    def _start(self, response_id: str | None) -> list[FinishedTurn]:
        if self._open is not None and response_id in {None, self._open.id}:
            return []
        finished = self.end()  # a response whose end did not arrive
        self._count += 1
        heard = tuple(item_id for item_id in self._said if item_id not in self._claimed)
        self._claimed.update(heard)
        self._open = _Response(response_id or f"{self._prefix}-{self._count}", heard)
        return finished

    def _response(self, response_id: str) -> _Response:
        """Return the response in progress; one without a start event starts here."""
        if self._open is None:
            self._start(response_id)
        return cast("_Response", self._open)

    def _take_item(self, item: RealtimeItem) -> None:
        if isinstance(item, UserMessageItem):
            self._take_user_item(item)
        elif isinstance(item, AssistantMessageItem) and self._open is not None:
            if item.item_id in self._ignored:
                return
            existing = self._open.parts.get(item.item_id)
            is_known = isinstance(existing, AssistantMessageItem)
            self._open.parts[item.item_id] = merged(existing, item) if is_known else item

    def _take_user_item(self, item: UserMessageItem) -> None:
        if item.item_id in self._ignored:
            if item.item_id in self._taken and not _is_silent(item):
                self._late(item.item_id, item)
            return
        if item.item_id in self._said:
            self._said[item.item_id] = merged(self._said[item.item_id], item)
            return
        echo = _fingerprint(item)
        for sent_id, fingerprint in self._sent.items():
            if fingerprint == echo:
                del self._sent[sent_id]
                self._ignored.add(item.item_id)
                return
        self._said[item.item_id] = item

    def _transcribe(self, item_id: str, transcript: str) -> None:
        spoken = UserMessageItem(item_id=item_id, content=[InputAudio(transcript=transcript)])
        if item_id in self._said:
            self._said[item_id] = with_transcript(self._said[item_id], transcript)
        elif item_id in self._taken:
            self._late(item_id, spoken)
        elif item_id not in self._ignored:
            self._said[item_id] = spoken

    def _late(self, item_id: str, item: UserMessageItem) -> None:
        self._taken.discard(item_id)
        self._said[item_id] = item

    def _take_call(self, event: RealtimeModelToolCallEvent) -> list[FinishedTurn]:
        if event.call_id in self._calls:
            return []
        self._calls.add(event.call_id)
        raw = call_raw(event.call_id, event.name, event.arguments)
        # Where a model sends no turns, the call is a turn of its own.
        is_turn = self._open is None
        self._response(f"call-{event.call_id}").parts[f"call {event.call_id}"] = raw
        return self.end() if is_turn else []


def call_raw(call_id: str, name: str, arguments: str = "{}") -> JsonObject:
    """Return a tool call as a Responses item."""
    return {
        "type": "function_call",
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
        "status": "completed",
    }


def user_raw(item: UserMessageItem) -> JsonObject | None:
    """Return a user's item as a Responses item, without audio; None if it is empty."""
    parts: list[JsonObject] = []
    for part in item.content:
        if isinstance(part, InputAudio):
            parts.append({"type": "input_text", "text": part.transcript or NO_TRANSCRIPT})
        elif isinstance(part, InputText) and part.text:
            parts.append({"type": "input_text", "text": part.text})
        elif isinstance(part, InputImage) and part.image_url:
            image: JsonObject = {"type": "input_image", "image_url": part.image_url}
            parts.append(image | ({"detail": part.detail} if part.detail else {}))
    if not parts:
        return None
    if len(parts) == 1 and parts[0]["type"] == "input_text":
        return {"role": "user", "content": parts[0]["text"]}
    return {"type": "message", "role": "user", "content": parts}


def assistant_raw(item: AssistantMessageItem, spoken: str | None = None) -> JsonObject | None:
    """Return a message of the model as a Responses item; None if it has no text.

    `spoken` is its text as it came in deltas, for an item without a transcript.
    """
    words = [
        (part.transcript if part.type == "audio" else part.text) or "" for part in item.content
    ]
    text = "".join(words) or spoken or ""
    return _message(text) if text else None


def _message(text: str) -> JsonObject:
    return {
        "type": "message",
        "role": "assistant",
        "id": NO_ID,
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def _is_silent(item: UserMessageItem) -> bool:
    return any(isinstance(part, InputAudio) and not part.transcript for part in item.content)


def _fingerprint(item: UserMessageItem) -> str:
    return json.dumps(
        [
            [part.type, part.text if isinstance(part, InputText) else part.image_url]
            for part in item.content
            if isinstance(part, InputText | InputImage)
        ]
    )
