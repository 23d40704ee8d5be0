"""The last item of a call that another line left."""

import asyncio
from typing import Any

import pytest

from outlast.loop.items import Item
from outlast.loop.values import JsonObject
from outlast.realtime import last_item
from outlast.realtime.last_item import LastItem, missed_events
from outlast.realtime.port import model_events as events


class Provider:
    """Answers messages as the provider does."""

    def __init__(self, *items: JsonObject) -> None:
        self.items = list(items)
        self.sent: list[str] = []
        self.listener: LastItem | None = None

    async def send(self, kind: str, fields: JsonObject) -> None:
        self.sent.append(kind)
        assert self.listener is not None
        if kind == "conversation.item.create":
            before = self.items[-1]["id"] if self.items else None
            added = {"type": "conversation.item.added", "item": fields["item"]}
            self.listener.take({**added, "previous_item_id": before})
        if kind == "conversation.item.retrieve":
            found = next(item for item in self.items if item["id"] == fields["item_id"])
            self.listener.take({"type": "conversation.item.retrieved", "item": found})


async def found(provider: Provider) -> JsonObject | None:
    provider.listener = LastItem(provider.send)
    return await provider.listener.find()


CALL: JsonObject = {
    "id": "i2",
    "type": "function_call",
    "call_id": "c1",
    "name": "track",
    "arguments": "{}",
    "status": "completed",
}


def message(role: str, text: str) -> JsonObject:
    return {
        "id": "i9",
        "type": "message",
        "role": role,
        "content": [{"type": "audio", "transcript": text}],
    }


async def test_it_is_the_one_before_an_item_that_is_added_and_deleted() -> None:
    provider = Provider(message("user", "Hi"), CALL)
    assert await found(provider) == CALL
    assert provider.sent == [
        "conversation.item.create",
        "conversation.item.delete",
        "conversation.item.retrieve",
    ]
    assert await found(Provider()) is None


async def test_a_provider_that_does_not_answer_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(last_item, "WAIT_SECONDS", 0.01)

    async def silent(kind: str, fields: JsonObject) -> None:
        del kind, fields

    async with asyncio.timeout(5):
        assert await LastItem(silent).find() is None


def test_a_call_that_the_run_does_not_have_is_a_turn() -> None:
    [event] = missed_events(CALL, [])
    assert event == events.RealtimeModelToolCallEvent("track", "c1", "{}", "i2")
    known = Item("tool_call", {"type": "function_call", "call_id": "c1"})
    assert missed_events(CALL, [known]) == []
    assert missed_events({**CALL, "status": "in_progress"}, []) == []


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_words_that_the_run_does_not_have_are_reported(role: str) -> None:
    kinds = [event.type for event in missed_events(message(role, "Hello."), [])]
    expected = {
        "user": ["item_updated"],
        "assistant": ["turn_started", "item_updated", "turn_ended"],
    }
    assert kinds == expected[role]
    content: Any = "Hello."
    known = [Item("input" if role == "user" else "message", {"role": role, "content": content})]
    assert missed_events(message(role, "Hello."), known) == []


def test_nothing_else_is_reported() -> None:
    assert missed_events(None, []) == []
    assert missed_events(message("system", "Be brief."), []) == []
    assert missed_events(message("user", ""), []) == []
    assert missed_events({"id": "o", "type": "function_call_output"}, []) == []
