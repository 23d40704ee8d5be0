"""The last item of a call that another line left, which its run may not know.

A provider does not list the items of a call. It names the item before each new one, though: so a
line adds an item, deletes it, and retrieves the one before. A line that dies while the model
finishes its response loses at most what came before that item.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, cast

from outlast.agents.json_values import as_objects
from outlast.loop.items import Item, call_id_of, text_of
from outlast.loop.values import JsonObject
from outlast.realtime.openai.messages import started_call
from outlast.realtime.port.item_ids import PREFIX
from outlast.realtime.port.items import (
    AssistantAudio,
    AssistantMessageItem,
    InputAudio,
    UserMessageItem,
)
from outlast.realtime.port.model_events import (
    RealtimeModelEvent,
    RealtimeModelItemUpdatedEvent,
    RealtimeModelTurnEndedEvent,
    RealtimeModelTurnStartedEvent,
)

WAIT_SECONDS: Final = 2.0
"""How long the provider may take for each answer; without one, the line goes on."""

SendRaw = Callable[[str, JsonObject], Awaitable[None]]
"""Sends a message in the provider's format: its type, and its other fields."""


class LastItem:
    """Finds the last item of a call with a `probe`, an item that is added and deleted."""

    def __init__(self, send: SendRaw) -> None:
        self.probe: str = f"{PREFIX}probe_{secrets.token_hex(8)}"
        self._send = send
        self._before: str | None = None
        self._item: JsonObject | None = None
        self._answered = asyncio.Event()

    def take(self, frame: JsonObject) -> None:
        """Take an event of the provider, in its own format."""
        item = cast("JsonObject", frame.get("item") or {})
        match frame.get("type"):
            case "conversation.item.added" | "conversation.item.created":
                if item.get("id") == self.probe:
                    self._before = cast("str | None", frame.get("previous_item_id"))
                    self._answered.set()
            case "conversation.item.retrieved" if item.get("id") == self._before:
                self._item = item
                self._answered.set()
            case _:
                pass

    async def find(self) -> JsonObject | None:
        """Return the last item in the provider's format, or None if there is none."""
        words: JsonObject = {"type": "input_text", "text": "The connection was renewed."}
        probe = {"id": self.probe, "type": "message", "role": "system", "content": [words]}
        await self._ask("conversation.item.create", {"item": probe})
        await self._send("conversation.item.delete", {"item_id": self.probe})
        if self._before:
            await self._ask("conversation.item.retrieve", {"item_id": self._before})
        return self._item

    async def _ask(self, kind: str, fields: JsonObject) -> None:
        self._answered.clear()
        await self._send(kind, fields)
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_SECONDS):
                await self._answered.wait()


def missed_events(item: JsonObject | None, items: Sequence[Item]) -> list[RealtimeModelEvent]:
    """Return the model's events for an item that a transcript does not have."""
    if item is None or item.get("status") == "in_progress":
        return []
    if item.get("type") == "function_call":
        _, call = started_call(item)
        return [] if any(call_id_of(one.raw) == call.call_id for one in items) else [call]
    words, role, item_id = _words(item), item.get("role"), str(item.get("id"))
    newest = [text_of(one.raw) for one in items[-COMPARED:] if one.kind in {"input", "message"}]
    if item.get("type") != "message" or not words or words in newest:
        return []
    if role == "user":
        said = UserMessageItem(item_id=item_id, content=[InputAudio(transcript=words)])
        return [RealtimeModelItemUpdatedEvent(said)]
    if role != "assistant":
        return []
    answered = AssistantMessageItem(item_id=item_id, content=[AssistantAudio(transcript=words)])
    response_id = f"of-{item_id}"
    return [
        RealtimeModelTurnStartedEvent(response_id=response_id),
        RealtimeModelItemUpdatedEvent(answered),
        RealtimeModelTurnEndedEvent(response_id=response_id),
    ]


COMPARED: Final = 6
"""How many of the newest items of a transcript are compared with the last item of a call."""


def _words(item: JsonObject) -> str:
    parts = as_objects(item.get("content")) or []
    return "".join(str(part.get("transcript") or part.get("text") or "") for part in parts)
