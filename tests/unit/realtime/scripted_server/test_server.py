"""The scripted realtime server speaks the provider's protocol, also where clients err."""

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from outlast.realtime.openai.messages import event_records
from outlast.realtime.scripted_server.audio import InputBuffer, is_speech, silence
from outlast.realtime.scripted_server.server import ScriptedRealtimeServer
from outlast.testing import call, raw_call

PCM = {"type": "audio/pcm", "rate": 24000}
ULAW = {"type": "audio/pcmu"}
LOUD = (2000).to_bytes(2, "little") * 24
"""A millisecond of loud PCM."""


class Caller:
    """A client that checks every event of the server against the provider's types."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.heard: list[Any] = []

    async def send(self, kind: str, **fields: Any) -> None:
        await self.socket.send(json.dumps({"type": kind, **fields}))

    async def until(self, kind: str, count: int = 1) -> Any:
        """Receive events until there are `count` of a type, and return the last."""
        async with asyncio.timeout(5):
            while len(self.of(kind)) < count:
                event = json.loads(await self.socket.recv())
                event_records()[event["type"]].model_validate(event)
                self.heard.append(event)
        return self.of(kind)[count - 1]

    async def error(self, kind: str, **fields: Any) -> Any:
        """Send a message, and return the error that answers it."""
        count = len(self.of("error"))
        await self.send(kind, event_id="mine", **fields)
        error = (await self.until("error", count + 1))["error"]
        assert (error["event_id"], error["type"]) == ("mine", "invalid_request_error")
        return error["code"]

    async def say(self, text: str) -> None:
        content = [{"type": "input_text", "text": text}]
        item = {"type": "message", "role": "user", "content": content}
        await self.send("conversation.item.create", item=item)
        await self.send("response.create")

    def of(self, kind: str) -> list[Any]:
        return [event for event in self.heard if event["type"] == kind]

    @property
    def kinds(self) -> list[str]:
        return [event["type"] for event in self.heard]


def closed(error: pytest.ExceptionInfo[ConnectionClosed]) -> tuple[int, str]:
    """Return the code and the reason of a connection that the server has closed."""
    frame = error.value.rcvd
    assert frame is not None
    return frame.code, frame.reason


@asynccontextmanager
async def caller(server: ScriptedRealtimeServer, query: str = "model=m") -> AsyncGenerator[Caller]:
    async with connect(f"{server.url}?{query}") as socket:
        one = Caller(socket)
        await one.until("session.created")
        yield one


async def test_a_text_is_spoken_word_by_word() -> None:
    async with ScriptedRealtimeServer("Hello there.") as server, caller(server) as one:
        assert one.heard[0]["session"]["model"] == "m"
        await one.say("Hi")
        done = await one.until("response.done")
        assert one.kinds == [
            "session.created",
            "conversation.item.added",
            "conversation.item.done",
            "response.created",
            "response.output_item.added",
            "conversation.item.added",
            "response.content_part.added",
            "response.output_audio_transcript.delta",
            "response.output_audio.delta",
            "response.output_audio_transcript.delta",
            "response.output_audio.delta",
            "response.output_audio.done",
            "response.output_audio_transcript.done",
            "response.content_part.done",
            "response.output_item.done",
            "conversation.item.done",
            "response.done",
        ]
        assert done["response"]["status"] == "completed"
        assert done["response"]["usage"]["total_tokens"] == 15
        (item,) = done["response"]["output"]
        assert item["content"] == [{"type": "output_audio", "transcript": "Hello there."}]
        assert one.of("conversation.item.added")[1]["previous_item_id"] == "item_1"
        assert len({event["event_id"] for event in one.heard}) == len(one.heard)


async def test_functions_are_called() -> None:
    script = [call("f", "c1", a=1), raw_call("g", "c2", "not json")]
    async with ScriptedRealtimeServer(script) as server, caller(server) as one:
        await one.say("Call")
        done = await one.until("response.done")
        first, second = one.of("response.function_call_arguments.done")
        assert (first["name"], first["arguments"]) == ("f", '{"a": 1}')
        assert second["arguments"] == "not json"
        assert [item["status"] for item in done["response"]["output"]] == ["completed"] * 2
        output = {"type": "function_call_output", "output": "1"}
        await one.send("conversation.item.create", item={**output, "call_id": "c1"})
        await one.until("conversation.item.done", 4)
        wrong = {**output, "call_id": "c9"}
        assert await one.error("conversation.item.create", item=wrong) == "invalid_tool_call_id"


async def test_a_rule_answers_by_the_items_of_the_conversation() -> None:
    async def rule(items: list[Any]) -> str:
        await asyncio.sleep(0)
        return f"{len(items)} items, last: {items[-1]['content'][0]['text']}"

    async with ScriptedRealtimeServer(always=rule) as server, caller(server) as one:
        server.then("First.")
        await one.send(
            "session.update", session={"type": "realtime", "output_modalities": ["text"]}
        )
        for number, text in enumerate(["a", "b"], start=1):
            await one.say(text)
            await one.until("response.done", number)
        texts = [event["text"] for event in one.of("response.output_text.done")]
        assert texts == ["First.", "3 items, last: b"]


async def test_a_script_that_has_ended_makes_responses_fail() -> None:
    async with ScriptedRealtimeServer() as server, caller(server) as one:
        await one.say("Anyone?")
        response = (await one.until("response.done"))["response"]
        assert response["status"] == "failed"
        assert response["status_details"]["error"]["code"] == "no_step"


async def test_one_response_at_a_time_and_cancellation() -> None:
    async with ScriptedRealtimeServer("word " * 50, pause_s=0.01) as server, caller(server) as one:
        assert await one.error("response.cancel") == "response_cancel_not_active"
        await one.say("Go")
        await one.until("response.output_audio.delta")
        assert await one.error("response.create") == "conversation_already_has_active_response"
        await one.send("response.cancel")
        response = (await one.until("response.done"))["response"]
        assert response["status"] == "cancelled"
        assert response["status_details"] == {"type": "cancelled", "reason": "client_cancelled"}
        assert one.of("response.output_item.done")[0]["item"]["status"] == "incomplete"
        spoken = response["output"][0]["content"][0]["transcript"]
        assert 0 < len(spoken.split()) < 50


async def test_a_response_can_be_cancelled_while_its_step_waits() -> None:
    async def stuck(items: list[Any]) -> str:
        await asyncio.Event().wait()
        return "never"

    async with ScriptedRealtimeServer(stuck, "Then.") as server, caller(server) as one:
        await one.say("Go")
        await one.until("response.created")
        await one.send("response.cancel")
        assert (await one.until("response.done"))["response"]["output"] == []
        await one.say("Again")
        assert (await one.until("response.done", 2))["response"]["status"] == "completed"


async def test_items_are_created_retrieved_truncated_and_deleted() -> None:
    async with ScriptedRealtimeServer("One two three.") as server, caller(server) as one:
        message: Any = {"type": "message", "id": "mine", "role": "user", "content": []}
        await one.send("conversation.item.create", item=message)
        before = {**message, "id": "before"}
        await one.send("conversation.item.create", item=before, previous_item_id="root")
        after = {**message, "id": "after"}
        await one.send("conversation.item.create", item=after, previous_item_id="before")
        await one.until("conversation.item.done", 3)
        items = server.calls[0].conversation.items
        assert [item["id"] for item in items] == ["before", "after", "mine"]
        assert [event["previous_item_id"] for event in one.of("conversation.item.added")] == [
            None,
            None,
            "before",
        ]
        await one.send("response.create")
        spoken = (await one.until("response.done"))["response"]["output"][0]["id"]
        place = {"item_id": spoken, "content_index": 0}
        await one.send("conversation.item.truncate", **place, audio_end_ms=250)
        await one.until("conversation.item.truncated")
        await one.send("conversation.item.retrieve", item_id=spoken)
        item = (await one.until("conversation.item.retrieved"))["item"]
        assert item["content"][0]["transcript"] == "One two"
        await one.send("conversation.item.delete", item_id="mine")
        assert (await one.until("conversation.item.deleted"))["item_id"] == "mine"
        assert await one.error("conversation.item.truncate", **place, audio_end_ms=250) == (
            "invalid_value"
        )
        assert "shorter than 250ms" in one.of("error")[-1]["error"]["message"]


@pytest.mark.parametrize(
    ("kind", "fields", "code"),
    [
        ("response.dance", {}, "invalid_value"),
        ("session.update", {}, "missing_required_parameter"),
        ("session.update", {"session": {"type": "transcription"}}, "missing_required_parameter"),
        ("conversation.item.create", {"item": {}}, "missing_required_parameter"),
        (
            "conversation.item.create",
            {"item": {"type": "message", "id": "there"}},
            "item_create_duplicate_item_id",
        ),
        (
            "conversation.item.create",
            {"item": {"type": "message"}, "previous_item_id": "gone"},
            "item_create_invalid_previous_item_id",
        ),
        ("conversation.item.retrieve", {"item_id": "gone"}, "item_retrieve_invalid_item_id"),
        ("conversation.item.delete", {"item_id": "gone"}, "item_delete_invalid_item_id"),
        ("conversation.item.truncate", {"item_id": "gone"}, "item_truncate_invalid_item_id"),
        ("conversation.item.truncate", {"item_id": "there"}, "invalid_value"),
        ("input_audio_buffer.append", {"audio": "?"}, "invalid_value"),
        ("input_audio_buffer.commit", {}, "input_audio_buffer_commit_empty"),
    ],
)
async def test_a_wrong_message_is_an_error_that_names_it(kind: str, fields: Any, code: str) -> None:
    async with ScriptedRealtimeServer() as server, caller(server) as one:
        there: Any = {"type": "message", "id": "there", "role": "user", "content": []}
        await one.send("conversation.item.create", item=there)
        assert await one.error(kind, **fields) == code
        assert len(server.calls[0].conversation.items) == 1


async def test_a_frame_that_is_no_object_is_an_error() -> None:
    async with ScriptedRealtimeServer() as server, caller(server) as one:
        await one.socket.send("hello")
        assert (await one.until("error"))["error"]["code"] == "invalid_value"


async def test_settings_are_merged_and_the_voice_stays_after_it_was_heard() -> None:
    async with ScriptedRealtimeServer("Hello.") as server, caller(server) as one:
        audio = {"output": {"voice": "cedar"}, "input": {"turn_detection": None}}
        await one.send("session.update", session={"type": "realtime", "audio": audio})
        session = (await one.until("session.updated"))["session"]
        assert session["audio"]["output"]["voice"] == "cedar"
        assert session["audio"]["output"]["format"] == PCM
        assert session["audio"]["input"]["turn_detection"] is None
        await one.say("Hi")
        await one.until("response.done")
        changed = {"type": "realtime", "audio": {"output": {"voice": "ash"}}}
        assert await one.error("session.update", session=changed) == "cannot_update_voice"


TRANSCRIBED = {"type": "realtime", "audio": {"input": {"transcription": {"model": "whisper-1"}}}}


async def append(one: Caller, data: bytes) -> None:
    audio = b64encode(data).decode()
    await one.send("input_audio_buffer.append", audio=audio)


async def test_loud_audio_is_speech_and_silence_ends_it() -> None:
    async with (
        ScriptedRealtimeServer("Hello.", heard=["Good morning."]) as server,
        caller(server) as one,
    ):
        await one.send("session.update", session=TRANSCRIBED)
        for data in (bytes(4800), LOUD * 300, bytes(4800), LOUD * 100, silence(PCM, 200)):
            await append(one, data)
        await one.until("response.done")
        start = one.kinds.index("input_audio_buffer.speech_started")
        assert one.kinds[start : start + 7] == [
            "input_audio_buffer.speech_started",
            "input_audio_buffer.speech_stopped",
            "input_audio_buffer.committed",
            "conversation.item.added",
            "conversation.item.done",
            "conversation.item.input_audio_transcription.completed",
            "response.created",
        ]
        heard = one.of("conversation.item.input_audio_transcription.completed")[0]
        assert heard["transcript"] == "Good morning."
        assert heard["item_id"] == one.heard[start]["item_id"]
        assert one.of("input_audio_buffer.speech_stopped")[0]["audio_end_ms"] == 800


async def test_a_transcript_may_come_after_the_response() -> None:
    async with (
        ScriptedRealtimeServer("Hello.", heard=["Hi."], late_transcripts=True) as server,
        caller(server) as one,
    ):
        await one.send("session.update", session=TRANSCRIBED)
        await append(one, LOUD * 200)
        await append(one, silence(PCM, 200))
        await one.until("conversation.item.input_audio_transcription.completed")
        assert "response.done" in one.kinds


async def test_without_turn_detection_clients_commit_the_audio() -> None:
    async with ScriptedRealtimeServer(heard=["One.", "Two."]) as server, caller(server) as one:
        settings = {"turn_detection": None, "transcription": {"model": "whisper-1"}}
        session = {"type": "realtime", "audio": {"input": settings}}
        await one.send("session.update", session=session)
        await append(one, LOUD * 50)
        await one.send("input_audio_buffer.clear")
        await one.until("input_audio_buffer.cleared")
        assert await one.error("input_audio_buffer.commit") == "input_audio_buffer_commit_empty"
        for number in (1, 2, 3):
            await append(one, LOUD * 200)
            await one.send("input_audio_buffer.commit")
            await one.until("conversation.item.input_audio_transcription.completed", number)
        heard = one.of("conversation.item.input_audio_transcription.completed")
        assert [event["transcript"] for event in heard] == ["One.", "Two.", "(inaudible)"]
        assert "response.created" not in one.kinds
        assert "input_audio_buffer.speech_started" not in one.kinds


async def test_speech_interrupts_the_response() -> None:
    async with ScriptedRealtimeServer("word " * 50, "Yes?", pause_s=0.005) as server:
        phone = server.start_call("c")
        async with caller(server, "call_id=c") as one:
            await phone.user_says("Tell me everything.")
            await one.until("response.output_audio_transcript.delta", 2)
            await phone.start_speaking()
            response = (await one.until("response.done"))["response"]
            assert response["status_details"]["reason"] == "turn_detected"


async def test_a_call_has_several_sockets_and_goes_on_without_them() -> None:
    async with ScriptedRealtimeServer("One.", "Two.") as server:
        phone = server.start_call("c")
        assert server.call("c") is phone
        async with caller(server, "call_id=c") as one, caller(server, "call_id=c") as two:
            await phone.user_says("One?")
            for each in (one, two):
                await each.until("response.done")
                assert "response.output_audio.delta" not in each.kinds, "the phone has the sound"
            assert one.heard[1:] == two.heard[1:]
        await phone.user_says("Two?")
        await phone.idle()
        assert len(phone.conversation.items) == 4
        async with caller(server, "call_id=c") as three:
            await server.hang_up("c")
            with pytest.raises(ConnectionClosed) as end:
                await three.socket.recv()
            assert closed(end)[0] == 1000
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"{server.url}?call_id=c")
        assert refused.value.response.status_code == 404


async def test_a_socket_that_ends_does_not_disturb_the_other() -> None:
    async with ScriptedRealtimeServer("One two three.") as server:
        phone = server.start_call("c")
        async with caller(server, "call_id=c") as one, caller(server, "call_id=c") as two:
            server.close_before("response.output_audio_transcript.delta", 1011)
            await phone.user_says("Count.")
            await two.until("response.done")
            with pytest.raises(ConnectionClosed) as end:
                await one.until("response.done")
            assert closed(end)[0] == 1011


async def test_sessions_end_at_their_limit() -> None:
    async with ScriptedRealtimeServer(session_s=0.05) as server, caller(server) as one:
        error = (await one.until("error"))["error"]
        assert error["code"] == "session_expired"
        with pytest.raises(ConnectionClosed) as end:
            await one.socket.recv()
        assert closed(end) == (1001, error["message"])


async def test_a_session_is_refused_with_an_error_and_a_close_code() -> None:
    async with ScriptedRealtimeServer() as server:
        server.refuse_session("invalid_api_key", "Wrong key.")
        async with connect(server.url) as socket:
            assert json.loads(await socket.recv())["error"]["code"] == "invalid_api_key"
            with pytest.raises(ConnectionClosed) as end:
                await socket.recv()
            assert closed(end) == (3000, "invalid_request_error.invalid_api_key")
        async with caller(server):
            pass


async def test_a_socket_that_is_lost_stops_its_response() -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    async def stuck(items: list[Any]) -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    async with ScriptedRealtimeServer(stuck) as server, caller(server) as one:
        await one.say("Go")
        await asyncio.wait_for(started.wait(), 5)
        await one.socket.close()
        await asyncio.wait_for(stopped.wait(), 5)


def test_silence_and_speech_in_each_format() -> None:
    for audio_format in (PCM, ULAW, {"type": "audio/pcma"}):
        assert not is_speech(audio_format, silence(audio_format, 10))
    assert is_speech(PCM, LOUD)
    assert is_speech(ULAW, b"\xff\x10")
    assert not is_speech(PCM, b"\x01")
    audio = InputBuffer()
    assert audio.append(ULAW, b"\x10" * 80, 20) == "started"
    assert audio.append(ULAW, b"\x10" * 80, 20) is None
    assert audio.append(ULAW, silence(ULAW, 10), 20) is None
    assert audio.append(ULAW, silence(ULAW, 10), 20) == "stopped"
    assert audio.buffered_ms == 40
