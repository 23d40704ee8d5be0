"""The history of a realtime session, kept from the model's events.

A pure reducer. Providers send an item several times, each time with a part of its content, so an
item never loses a transcript, a text or an image that it had.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeVar, cast

from outlast.realtime.port.items import (
    AssistantAudio,
    AssistantMessageItem,
    AssistantText,
    InputAudio,
    InputImage,
    InputText,
    RealtimeItem,
    RealtimeToolCallItem,
    UserMessageItem,
)
from outlast.realtime.port.model_events import (
    RealtimeModelEvent,
    RealtimeModelInputAudioTranscriptionCompletedEvent,
    RealtimeModelItemDeletedEvent,
    RealtimeModelItemUpdatedEvent,
    RealtimeModelOutputTextDeltaEvent,
    RealtimeModelTranscriptDeltaEvent,
    RealtimeModelTurnEndedEvent,
)

Content: TypeAlias = InputText | InputAudio | InputImage | AssistantText | AssistantAudio


TItem = TypeVar("TItem", bound=RealtimeItem)


@dataclass(frozen=True)
class Conversation:
    """The items of a session, and by item id the transcripts that are still growing."""

    items: tuple[RealtimeItem, ...] = ()
    growing: dict[str, str] = field(default_factory=dict[str, str])

    def take(self, event: RealtimeModelEvent) -> "Conversation":
        """Return the conversation after an event of the model."""
        match event:
            case RealtimeModelItemUpdatedEvent():
                return self.with_item(event.item)
            case RealtimeModelItemDeletedEvent():
                rest = (item for item in self.items if item.item_id != event.item_id)
                return replace(self, items=tuple(rest))
            case RealtimeModelInputAudioTranscriptionCompletedEvent():
                return self._with_transcript(event.item_id, event.transcript)
            case RealtimeModelTranscriptDeltaEvent():
                return self._with_speech(event.item_id, event.delta)
            case RealtimeModelOutputTextDeltaEvent():
                text = self.growing.get(event.item_id, "") + event.delta
                return replace(self, growing={**self.growing, event.item_id: text})
            case RealtimeModelTurnEndedEvent():
                return replace(self, growing={})
            case _:
                return self

    def find(self, item_id: str) -> RealtimeItem | None:
        """Return the item with an id, or None."""
        return next((item for item in self.items if item.item_id == item_id), None)

    def with_item(self, item: RealtimeItem) -> "Conversation":
        """Return the conversation with an item added, or updated in its place."""
        for at, existing in enumerate(self.items):
            if existing.item_id == item.item_id:
                newer = merged(existing, item, self.growing.get(item.item_id))
                return replace(self, items=(*self.items[:at], newer, *self.items[at + 1 :]))
        place = len(self.items)
        if item.previous_item_id:
            before = [one.item_id for one in self.items]
            if item.previous_item_id in before:
                place = before.index(item.previous_item_id) + 1
        return replace(self, items=(*self.items[:place], item, *self.items[place:]))

    def _with_speech(self, item_id: str, delta: str) -> "Conversation":
        transcript = self.growing.get(item_id, "") + delta
        spoken = AssistantMessageItem(
            item_id=item_id, content=[AssistantAudio(transcript=transcript)]
        )
        return replace(self, growing={**self.growing, item_id: transcript}).with_item(spoken)

    def _with_transcript(self, item_id: str, transcript: str) -> "Conversation":
        existing = self.find(item_id)
        if not isinstance(existing, UserMessageItem):
            said = UserMessageItem(item_id=item_id, content=[InputText(text=transcript)])
            return self if existing is not None else self.with_item(said)
        said = with_transcript(existing, transcript)
        return self.with_item(said.model_copy(update={"status": "completed"}))


def with_transcript(item: UserMessageItem, transcript: str) -> UserMessageItem:
    """Return a message of the user with the transcript of its audio."""
    content = [
        part.model_copy(update={"transcript": transcript}) if isinstance(part, InputAudio) else part
        for part in item.content
    ]
    return item.model_copy(update={"content": content})


def merged(existing: RealtimeItem, incoming: TItem, spoken: str | None = None) -> TItem:
    """Return an item as it came, with the content that it had and that did not come again.

    `spoken` is the transcript so far, if the item is being spoken.
    """
    if isinstance(existing, RealtimeToolCallItem) or isinstance(incoming, RealtimeToolCallItem):
        return incoming
    if existing.role != incoming.role:
        return incoming
    if not incoming.content:
        return incoming.model_copy(update={"content": existing.content})
    before = cast("Sequence[Content]", existing.content)
    parts = [
        _merged_part(before[at] if at < len(before) else None, part, spoken)
        for at, part in enumerate(cast("Sequence[Content]", incoming.content))
    ]
    urls = {part.image_url for part in parts if isinstance(part, InputImage)}
    lost = [part for part in before if isinstance(part, InputImage) and part.image_url not in urls]
    return incoming.model_copy(update={"content": [*lost, *parts]})


def _merged_part(before: Content | None, part: Content, spoken: str | None) -> Content:
    name = "transcript" if isinstance(part, InputAudio | AssistantAudio) else "text"
    if getattr(part, name, "an image has neither"):
        return part
    earlier = getattr(before, name, None) or (spoken if isinstance(part, AssistantAudio) else None)
    return part.model_copy(update={name: earlier}) if earlier else part
