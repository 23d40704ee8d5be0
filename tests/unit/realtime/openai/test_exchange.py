"""Whatever a provider sends becomes an event, and never ends the call."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from outlast.ports.model import ModelError
from outlast.realtime.openai.exchange import Exchange
from outlast.realtime.openai.messages import event_records
from outlast.realtime.port.items import (
    AssistantMessageItem,
    InputAudio,
    InputText,
    SystemMessageItem,
    UserMessageItem,
)
from outlast.realtime.port.model_events import (
    RealtimeModelAudioEvent,
    RealtimeModelErrorEvent,
    RealtimeModelExceptionEvent,
    RealtimeModelInputAudioTimeoutTriggeredEvent,
    RealtimeModelItemUpdatedEvent,
    RealtimeModelOtherEvent,
    RealtimeModelRawServerEvent,
    RealtimeModelToolCallEvent,
    RealtimeModelTurnEndedEvent,
    RealtimeModelTurnStartedEvent,
    RealtimeModelUsageEvent,
)


class Line:
    """An exchange without a socket."""

    def __init__(self, *, broken: bool = False) -> None:
        self.sent: list[Any] = []
        self.heard: list[Any] = []
        self.broken = broken
        self.exchange = Exchange(self.send, self.emit)

    async def send(self, message: Any) -> None:
        if self.broken:
            raise ModelError("gone", code="unreachable", retryable=True)
        self.sent.append(message)

    async def emit(self, event: Any) -> None:
        if not isinstance(event, RealtimeModelRawServerEvent):
            self.heard.append(event)

    async def receive(self, *frames: Any) -> list[Any]:
        for frame in frames:
            plain = isinstance(frame, str | bytes)
            await self.exchange.receive_frame(frame if plain else json.dumps(frame))
        return self.heard


@pytest.mark.parametrize("frame", ["", "not json", b"\xff\xfe", '{"type":'])
async def test_a_frame_that_is_no_json_is_an_exception_event(frame: str | bytes) -> None:
    (event,) = await Line().receive(frame)
    assert isinstance(event, RealtimeModelExceptionEvent)
    assert isinstance(event.exception, ValueError)
    assert event.context == "Failed to parse WebSocket message as JSON"


@pytest.mark.parametrize(
    "frame", [[], 5, None, {}, {"type": 5}, {"type": "response.danced", "steps": 3}]
)
async def test_an_event_of_unknown_type_is_passed_on_as_it_is(frame: Any) -> None:
    assert await Line().receive(json.dumps(frame)) == [RealtimeModelOtherEvent(data=frame)]


def delta(**fields: Any) -> dict[str, Any]:
    whole = {
        "type": "response.output_audio.delta",
        "event_id": "e",
        "response_id": "r",
        "item_id": "i",
        "output_index": 0,
        "content_index": 0,
        "delta": "AAAA",
    }
    return {name: value for name, value in {**whole, **fields}.items() if value is not None}


@pytest.mark.parametrize(
    "frame",
    [
        delta(content_index="first"),
        delta(item_id=None),
        {"type": "conversation.item.deleted"},
        {"type": "conversation.item.input_audio_transcription.completed", "item_id": "i"},
        {"type": "conversation.item.added", "item": {"type": "message", "id": 5, "role": "user"}},
        {
            "type": "response.output_item.done",
            "item": {"type": "message", "id": "i", "role": "narrator", "content": []},
        },
        {"type": "error", "error": {"message": "no", "code": {"a": 1}}},
    ],
)
async def test_a_malformed_event_is_an_error_and_the_next_is_read(frame: Any) -> None:
    bad, good = await Line().receive(frame, delta())
    assert isinstance(bad, RealtimeModelErrorEvent)
    assert isinstance(bad.error, ValidationError)
    assert isinstance(good, RealtimeModelAudioEvent)


async def test_audio_that_is_no_base64_is_an_exception_event() -> None:
    (event,) = await Line().receive(delta(delta="A"))
    assert isinstance(event, RealtimeModelExceptionEvent)
    assert event.context == "Error handling WebSocket event response.output_audio.delta"


async def test_an_event_without_an_id_is_read() -> None:
    (event,) = await Line().receive(delta(event_id=None))
    assert isinstance(event, RealtimeModelAudioEvent)


@pytest.mark.parametrize("response", [None, "resp", {"status": "strange", "output": 5}, {"id": 7}])
async def test_the_ends_of_responses_count_even_if_they_are_malformed(response: Any) -> None:
    line = Line()
    await line.receive({"type": "response.created", "response": response})
    await line.exchange.responses.request()
    await line.receive({"type": "response.done", "response": response})
    assert line.heard == [RealtimeModelTurnStartedEvent(), RealtimeModelTurnEndedEvent()]
    assert [message["type"] for message in line.sent] == ["response.create"]


async def test_usage_that_is_malformed_is_an_error_after_the_end_of_the_turn() -> None:
    usage = {"input_tokens": "many"}
    done = {"type": "response.done", "response": {"id": "r", "usage": usage}}
    ended, error = await Line().receive(done)
    assert ended == RealtimeModelTurnEndedEvent(response_id="r")
    assert isinstance(error.error, ValidationError)


async def test_usage_without_details_is_counted() -> None:
    usage = {"input_tokens": 3, "output_tokens": 4}
    done = {"type": "response.done", "response": {"id": "r", "usage": usage}}
    event = (await Line().receive(done))[0]
    assert isinstance(event, RealtimeModelUsageEvent)
    assert (event.usage.total_tokens, event.usage.requests, event.usage.cached_tokens) == (7, 1, 0)
    assert event.input_tokens_details is event.output_tokens_details is None


async def test_an_error_without_words_is_an_error() -> None:
    line = Line()
    first, second = await line.receive({"type": "error"}, {"type": "error", "error": {"code": "c"}})
    assert (first.error.message, first.error.type) == ("", "error")
    assert second.error.code == "c"
    assert line.exchange.last_error == {"code": "c"}
    assert not line.exchange.opened.is_set()


async def test_audio_of_a_silenced_response_is_dropped_until_it_is_done() -> None:
    line = Line()
    line.exchange.playback.silenced.add("r")
    assert await line.receive(delta()) == []
    await line.receive({"type": "response.done", "response": {"id": "r"}}, delta())
    assert [type(one) for one in line.heard] == [
        RealtimeModelTurnEndedEvent,
        RealtimeModelAudioEvent,
    ]


async def test_a_reply_that_cannot_be_sent_does_not_stop_the_events() -> None:
    line = Line(broken=True)
    line.exchange.tracing = {"type": "session.update"}
    await line.receive(
        {"type": "session.created", "session": {"audio": None}},
        delta(),
        {
            "type": "conversation.item.truncated",
            "item_id": "i",
            "content_index": 0,
            "audio_end_ms": 1,
        },
        delta(),
    )
    assert [type(one) for one in line.heard] == [RealtimeModelAudioEvent] * 2


async def test_the_end_of_a_turn_is_an_event_before_the_next_response_is_requested() -> None:
    line = Line()
    await line.receive({"type": "response.created", "response": {"id": "r"}})
    await line.exchange.responses.request()
    line.broken = True
    usage = {"input_tokens": "many"}
    await line.receive({"type": "response.done", "response": {"id": "r", "usage": usage}})
    assert [one.type for one in line.heard] == ["turn_started", "turn_ended", "error"]
    assert not line.exchange.responses.in_progress


async def test_a_response_that_is_refused_makes_room_even_if_the_error_is_malformed() -> None:
    line = Line()
    await line.exchange.responses.request({"type": "response.create", "event_id": "mine"})
    await line.exchange.responses.request()
    error: Any = {"event_id": "mine", "message": "no", "param": {}}
    await line.receive({"type": "error", "error": error})
    assert isinstance(line.heard[0].error, ValidationError)
    assert len(line.sent) == 2


async def test_a_function_call_is_an_event_when_it_is_complete() -> None:
    item = {"type": "function_call", "id": "i", "call_id": "c", "name": "f", "arguments": "{}"}
    line = Line()
    await line.receive(
        {"type": "response.output_item.added", "item": {**item, "status": "in_progress"}},
        {"type": "response.output_item.done", "item": {**item, "status": "incomplete"}},
    )
    assert line.heard == []
    updated, called = await line.receive(
        {"type": "response.output_item.done", "item": {**item, "status": "completed"}}
    )
    assert (updated.item.status, updated.item.output) == ("in_progress", None)
    assert called == RealtimeModelToolCallEvent("f", "c", "{}", id="i")


async def test_messages_are_converted_with_the_content_that_is_understood() -> None:
    def added(role: str, *content: Any, **fields: Any) -> Any:
        item = {"type": "message", "id": "i", "role": role, "content": list(content), **fields}
        return {"type": "conversation.item.added", "previous_item_id": "before", "item": item}

    events = await Line().receive(
        added("user", {"type": "input_text", "text": "a"}, {"type": "input_scent"}, 5),
        added("user", {"type": "input_audio", "transcript": None, "audio": "AA"}),
        added("system", {"type": "input_text", "text": "b"}),
        added("assistant", {"type": "output_text", "text": "c"}, status="incomplete"),
        {"type": "conversation.item.added", "item": {"type": "function_call_output"}},
    )
    assert all(isinstance(one, RealtimeModelItemUpdatedEvent) for one in events)
    user, spoken, system, assistant = (one.item for one in events)
    assert isinstance(user, UserMessageItem)
    assert (user.content, user.previous_item_id) == ([InputText(text="a")], "before")
    assert isinstance(spoken, UserMessageItem)
    assert spoken.content == [InputAudio(audio="AA")]
    assert isinstance(system, SystemMessageItem)
    assert isinstance(assistant, AssistantMessageItem)
    assert assistant.status == "incomplete"


async def test_silence_of_the_user_is_an_event() -> None:
    fields = {"item_id": "i", "audio_start_ms": 1, "audio_end_ms": 2}
    events = await Line().receive({"type": "input_audio_buffer.timeout_triggered", **fields})
    assert events == [RealtimeModelInputAudioTimeoutTriggeredEvent("i", 1, 2)]


def test_the_types_of_events_are_those_of_the_openai_package() -> None:
    assert {"error", "response.done", "conversation.item.done"} <= event_records().keys()
    assert len(event_records()) > 40
