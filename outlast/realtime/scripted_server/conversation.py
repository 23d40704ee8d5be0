"""The items and the settings of a scripted realtime session, with the provider's errors."""

from copy import deepcopy
from dataclasses import dataclass, field
from typing import cast

from outlast.agents.json_values import as_object
from outlast.loop.values import JsonObject
from outlast.realtime.scripted_server.audio import WORD_MS

ROOT = "root"
"""The `previous_item_id` of an item that goes to the beginning."""


class RefusedMessage(Exception):
    """A client's message that the provider answers with an `error` event."""

    def __init__(self, code: str, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param


def default_session(session_id: str, model: str) -> JsonObject:
    """Return the session object of a session that nobody has configured."""
    pcm = {"type": "audio/pcm", "rate": 24000}
    detection = {
        "type": "server_vad",
        "threshold": 0.5,
        "prefix_padding_ms": 300,
        "silence_duration_ms": 200,
        "create_response": True,
        "interrupt_response": True,
    }
    return {
        "type": "realtime",
        "object": "realtime.session",
        "id": session_id,
        "model": model,
        "output_modalities": ["audio"],
        "instructions": "",
        "tools": [],
        "tool_choice": "auto",
        "max_output_tokens": "inf",
        "audio": {
            "input": {"format": pcm, "turn_detection": detection},
            "output": {"format": pcm, "voice": "alloy", "speed": 1.0},
        },
    }


@dataclass
class ScriptedConversation:
    """The items of a session, oldest first, and its settings; `RefusedMessage` says what is wrong.

    Attributes:
        number: the number of the session at its server.
        has_spoken: whether the model has spoken, so that its voice cannot change.
    """

    session: JsonObject
    number: int = 1
    items: list[JsonObject] = field(default_factory=list[JsonObject])
    has_spoken: bool = False
    _numbers: dict[str, int] = field(default_factory=dict[str, int])

    def new_id(self, prefix: str) -> str:
        """Return the next id with a prefix, such as `item_3`; `item_2_3` in the second session."""
        self._numbers[prefix] = self._numbers.get(prefix, 0) + 1
        session = "" if self.number == 1 else f"{self.number}_"
        return f"{prefix}_{session}{self._numbers[prefix]}"

    def update(self, changes: object) -> None:
        """Change the settings, if they are valid."""
        new: JsonObject = deepcopy(as_object(changes) or {})
        if new.get("type") != "realtime":
            words = "Missing required parameter: 'session.type'."
            raise RefusedMessage("missing_required_parameter", words, param="session.type")
        audio: JsonObject = new.pop("audio", None) or {}
        current: JsonObject = self.session["audio"]
        voice = (as_object(audio.get("output")) or {}).get("voice", current["output"]["voice"])
        if self.has_spoken and voice != current["output"]["voice"]:
            words = "Cannot update a conversation's voice if assistant audio is present."
            raise RefusedMessage("cannot_update_voice", words, param="session.audio.output.voice")
        for channel in ("input", "output"):
            current[channel] = {**current[channel], **(audio.get(channel) or {})}
        self.session |= new

    def create(self, item: object, after: object = None) -> tuple[JsonObject, str | None]:
        """Add an item of the client, and return it with the id of the item before it."""
        new: JsonObject = deepcopy(as_object(item) or {})
        if not isinstance(new.get("type"), str):
            words = "Missing required parameter: 'item.type'."
            raise RefusedMessage("missing_required_parameter", words, param="item.type")
        new.setdefault("id", self.new_id("item"))
        if self.find(new["id"]) is not None:
            words = f"Error adding item: an item with ID '{new['id']}' already exists."
            raise RefusedMessage("item_create_duplicate_item_id", words, param="item.id")
        if new["type"] == "function_call_output" and not self._has_call(new.get("call_id")):
            words = f"Tool call ID '{new.get('call_id')}' not found in conversation."
            raise RefusedMessage("invalid_tool_call_id", words, param="item.call_id")
        new |= {"object": "realtime.item", "status": "completed"}
        return new, self.add(new, after)

    def add(self, item: JsonObject, after: object = None) -> str | None:
        """Add an item after another one, and return the id of the item before it."""
        place = len(self.items)
        if after == ROOT:
            place = 0
        elif after is not None:
            place = self.items.index(self.get(after, "item_create_invalid_previous_item_id")) + 1
        self.items.insert(place, item)
        return self.items[place - 1]["id"] if place else None

    def find(self, item_id: object) -> JsonObject | None:
        """Return the item with an id, or None."""
        return next((item for item in self.items if item["id"] == item_id), None)

    def get(self, item_id: object, code: str) -> JsonObject:
        """Return the item with an id; `code` is the provider's for an item that is missing."""
        item = self.find(item_id)
        if item is None:
            words = f"Item with item_id '{item_id}' does not exist."
            raise RefusedMessage(code, words, param="item_id")
        return item

    def delete(self, item_id: object) -> None:
        """Delete an item."""
        self.items.remove(self.get(item_id, "item_delete_invalid_item_id"))

    def truncate(self, item_id: object, content_index: object, audio_end_ms: object) -> None:
        """Cut off the audio and the transcript of a message of the model, where it has them."""
        item = self.get(item_id, "item_truncate_invalid_item_id")
        content = cast("list[JsonObject]", item.get("content") or [])
        if not isinstance(content_index, int) or not 0 <= content_index < len(content):
            words = f"Item '{item_id}' has no content at index {content_index}."
            raise RefusedMessage("invalid_value", words, param="content_index")
        part = content[content_index]
        words = str(part.get("transcript") or "").split()
        length = len(words) * WORD_MS
        if not isinstance(audio_end_ms, int) or audio_end_ms < 0 or audio_end_ms > length:
            sentence = f"Audio content of {length}ms is already shorter than {audio_end_ms}ms"
            raise RefusedMessage("invalid_value", sentence, param="audio_end_ms")
        part["transcript"] = " ".join(words[: audio_end_ms // WORD_MS])

    def _has_call(self, call_id: object) -> bool:
        return any(
            item["type"] == "function_call" and item.get("call_id") == call_id
            for item in self.items
        )
