"""Messages to the provider, and what is refused before it is sent."""

from typing import Any

import pytest

from outlast.agents.errors import UserError
from outlast.realtime.openai.messages import (
    audio_message,
    finished_call,
    raw_message,
    tool_output_message,
    user_message,
)
from outlast.realtime.port.item_ids import PREFIX
from outlast.realtime.port.model_events import RealtimeModelToolCallEvent
from outlast.realtime.port.model_inputs import (
    RealtimeModelSendRawMessage,
    RealtimeModelSendToolOutput,
)

IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}


def message(*content: Any) -> Any:
    return {"type": "message", "role": "user", "content": list(content)}


def test_a_text_is_a_message() -> None:
    item = message({"type": "input_text", "text": "Hi"})
    assert user_message("Hi") == {"type": "conversation.item.create", "item": item}


@pytest.mark.parametrize("detail", ["auto", "low", "high"])
def test_a_message_may_have_texts_and_images(detail: str) -> None:
    text = {"type": "input_text", "text": ""}
    given = message(text, {**IMAGE, "detail": detail}, {**IMAGE, "detail": "sharp"})
    expected = message(text, {**IMAGE, "detail": detail}, IMAGE)
    assert user_message(given)["item"] == expected


@pytest.mark.parametrize("wrong", [None, 5, [], {}, {"content": "Hi"}, message()])
def test_input_that_is_neither_is_refused(wrong: Any) -> None:
    with pytest.raises(UserError, match="The user's input is a text, or a message such as"):
        user_message(wrong)


@pytest.mark.parametrize(
    "part",
    [
        "Hi",
        {"type": "input_text"},
        {"type": "input_text", "text": 5},
        {"type": "input_image", "image_url": ""},
        {"type": "input_audio", "audio": "AA=="},
    ],
)
def test_content_that_is_neither_text_nor_image_is_refused(part: Any) -> None:
    with pytest.raises(UserError, match="The content of a message to a realtime model is"):
        user_message(message({"type": "input_text", "text": "Hi"}, part))


@pytest.mark.parametrize("audio", [b"\x01\x02", bytearray(b"\x01\x02"), memoryview(b"\x01\x02")])
def test_audio_is_sent_in_base64(audio: Any) -> None:
    assert audio_message(audio) == {"type": "input_audio_buffer.append", "audio": "AQI="}


@pytest.mark.parametrize(
    ("audio", "words"),
    [
        (b"RIFF\x24\0\0\0WAVEfmt ", "a WAV file"),
        (b"OggS\0\x02", "an Ogg file"),
        (b"fLaC\0\0", "a FLAC file"),
        ("AQI=", "not str"),
        ([1, 2], "not list"),
    ],
)
def test_audio_that_is_no_samples_is_refused(audio: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        audio_message(audio)


def test_a_raw_message_keeps_its_fields() -> None:
    event = RealtimeModelSendRawMessage({"type": "x", "other_data": {"a": 1, "event_id": "e"}})
    assert raw_message(event) == {"type": "x", "a": 1, "event_id": "e"}


@pytest.mark.parametrize("wrong", [{}, {"type": ""}, {"type": 5}, {"type": "x", "other_data": 5}])
def test_a_raw_message_without_a_type_or_fields_is_refused(wrong: Any) -> None:
    with pytest.raises(UserError, match="A raw message to a realtime model"):
        raw_message(RealtimeModelSendRawMessage(wrong))


def test_the_output_of_a_call_is_the_same_item_each_time() -> None:
    call = RealtimeModelToolCallEvent("f", "c1", "{}", id="i", previous_item_id="before")
    output = RealtimeModelSendToolOutput(call, "done", start_response=True)
    item = tool_output_message(output)["item"]
    assert item == tool_output_message(output)["item"]
    assert item["id"].startswith(PREFIX)
    assert {name: item[name] for name in ("type", "call_id", "output")} == {
        "type": "function_call_output",
        "call_id": "c1",
        "output": "done",
    }
    record = finished_call(output)
    assert (record.item_id, record.previous_item_id, record.output) == ("i", "before", "done")
