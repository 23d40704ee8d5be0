"""A realtime model of OpenAI against a scripted server, over real sockets."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from outlast.agents.errors import UserError
from outlast.models.defaults import defaults
from outlast.ports.model import ModelError, ToolSpec
from outlast.realtime.openai.model import (
    OpenAIRealtimeSIPModel,
    OpenAIRealtimeWebSocketModel,
    get_api_key,
)
from outlast.realtime.port.item_ids import output_item_id
from outlast.realtime.port.items import (
    AssistantAudio,
    AssistantMessageItem,
    AssistantText,
    RealtimeToolCallItem,
    UserMessageItem,
)
from outlast.realtime.port.model import RealtimeModelListener
from outlast.realtime.port.model_events import (
    RealtimeModelAudioDoneEvent,
    RealtimeModelAudioEvent,
    RealtimeModelConnectionStatusEvent,
    RealtimeModelEndOfStreamEvent,
    RealtimeModelErrorEvent,
    RealtimeModelEvent,
    RealtimeModelExceptionEvent,
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
from outlast.realtime.port.model_inputs import (
    RealtimeModelSendAudio,
    RealtimeModelSendInterrupt,
    RealtimeModelSendRawMessage,
    RealtimeModelSendSessionUpdate,
    RealtimeModelSendToolOutput,
    RealtimeModelSendUserInput,
)
from outlast.realtime.scripted_server.server import ScriptedRealtimeServer
from outlast.testing import call
from tests.unit.realtime.openai.realtime_client import Recorder, connected

LOOK_UP = ToolSpec(name="look_up", description="Look up an order.", parameters={"type": "object"})

LOUD = (2000).to_bytes(2, "little") * 24 * 100
QUIET = bytes(48 * 250)


def kinds(server: ScriptedRealtimeServer) -> list[str]:
    return [frame["type"] for frame in server.received()]


def ask(text: str) -> RealtimeModelSendUserInput:
    return RealtimeModelSendUserInput(user_input=text)


async def test_a_question_is_answered_in_speech() -> None:
    async with (
        ScriptedRealtimeServer("It is on its way.") as server,
        connected(server) as (model, heard),
    ):
        await model.send_event(ask("Where is my order?"))
        await heard.turns(1)
        words = [event.delta for event in heard.of(RealtimeModelTranscriptDeltaEvent)]
        assert "".join(words) == "It is on its way."
        audio = heard.of(RealtimeModelAudioEvent)
        assert sum(len(event.data) for event in audio) == 5 * 100 * 48
        item_id = audio[0].item_id
        assert heard.of(RealtimeModelAudioDoneEvent) == [RealtimeModelAudioDoneEvent(item_id, 0)]
        last = heard.of(RealtimeModelItemUpdatedEvent)[-1].item
        assert isinstance(last, AssistantMessageItem)
        assert (last.item_id, last.status) == (item_id, "completed")
        assert last.content == [AssistantAudio(transcript="It is on its way.")]
        usage = heard.of(RealtimeModelUsageEvent)[0]
        assert (usage.usage.requests, usage.usage.total_tokens, usage.usage.cached_tokens) == (
            1,
            15,
            2,
        )
        assert usage.input_tokens_details is not None
        assert usage.input_tokens_details.audio_tokens == 4
        assert usage.output_tokens_details is not None
        assert usage.output_tokens_details.text_tokens == 2
        started, ended = (
            heard.of(RealtimeModelTurnStartedEvent),
            heard.of(RealtimeModelTurnEndedEvent),
        )
        assert started[0].response_id == ended[0].response_id == "resp_1"
        assert kinds(server) == [
            "session.update",
            "session.update",
            "conversation.item.create",
            "response.create",
        ]


async def test_an_answer_may_be_text() -> None:
    settings = {"output_modalities": ["text"]}
    async with (
        ScriptedRealtimeServer("Soon.") as server,
        connected(server, initial_model_settings=settings) as (model, heard),
    ):
        await model.send_event(ask("When?"))
        await heard.turns(1)
        assert [one.delta for one in heard.of(RealtimeModelOutputTextDeltaEvent)] == ["Soon."]
        last = heard.of(RealtimeModelItemUpdatedEvent)[-1].item
        assert isinstance(last, AssistantMessageItem)
        assert last.content == [AssistantText(text="Soon.")]
        assert heard.of(RealtimeModelAudioEvent) == []


async def test_a_tool_is_called_and_its_output_answered() -> None:
    script = [call("look_up", "c1", order_id="A-17")], "It is on its way."
    async with (
        ScriptedRealtimeServer(*script) as server,
        connected(server, initial_model_settings={"tools": [LOOK_UP]}) as (model, heard),
    ):
        await model.send_event(ask("Where is A-17?"))
        await heard.turns(1)
        tool_call = await heard.until(RealtimeModelToolCallEvent)
        assert (tool_call.name, tool_call.call_id) == ("look_up", "c1")
        assert tool_call.arguments == '{"order_id": "A-17"}'
        await model.send_event(
            RealtimeModelSendToolOutput(tool_call, "shipped", start_response=True)
        )
        await heard.turns(2)
        calls = [
            event.item
            for event in heard.of(RealtimeModelItemUpdatedEvent)
            if isinstance(event.item, RealtimeToolCallItem)
        ]
        assert [(one.status, one.output) for one in calls] == [
            ("in_progress", None),
            ("completed", "shipped"),
        ]
        output = server.received("conversation.item.create")[1]["item"]
        assert output == {
            "type": "function_call_output",
            "id": output_item_id("c1"),
            "output": "shipped",
            "call_id": "c1",
        }
        assert server.received("session.update")[0]["session"]["tools"][0]["name"] == "look_up"


async def test_outputs_that_do_not_start_a_response_start_none() -> None:
    script = [call("look_up", "c1"), call("look_up", "c2")], "Both."
    async with ScriptedRealtimeServer(*script) as server, connected(server) as (model, heard):
        await model.send_event(ask("Both, please."))
        await heard.turns(1)
        first, second = heard.of(RealtimeModelToolCallEvent)
        await model.send_event(RealtimeModelSendToolOutput(first, "1", start_response=False))
        await model.send_event(RealtimeModelSendToolOutput(second, "2", start_response=True))
        await heard.turns(2)
        assert kinds(server)[-3:] == [
            "conversation.item.create",
            "conversation.item.create",
            "response.create",
        ]


async def test_spoken_input_is_detected_transcribed_and_answered() -> None:
    async with (
        ScriptedRealtimeServer("Hello.", heard=["Good morning."]) as server,
        connected(server) as (model, heard),
    ):
        await model.send_event(RealtimeModelSendAudio(LOUD))
        await model.send_event(RealtimeModelSendAudio(QUIET))
        await heard.turns(1)
        said = heard.of(RealtimeModelInputAudioTranscriptionCompletedEvent)[0]
        assert said.transcript == "Good morning."
        first = heard.of(RealtimeModelItemUpdatedEvent)[0].item
        assert isinstance(first, UserMessageItem)
        assert first.item_id == said.item_id
        assert "response.create" not in kinds(server), "the server starts the response by itself"


async def test_without_turn_detection_the_program_ends_the_turn() -> None:
    settings = {"turn_detection": None}
    async with (
        ScriptedRealtimeServer("Hello.", heard=["Good morning."]) as server,
        connected(server, initial_model_settings=settings) as (model, heard),
    ):
        await model.send_event(RealtimeModelSendAudio(LOUD, commit=True))
        await heard.until(RealtimeModelInputAudioTranscriptionCompletedEvent)
        raw = RealtimeModelSendRawMessage({"type": "response.create"})
        await model.send_event(raw)
        await heard.turns(1)
        assert kinds(server)[2:] == [
            "input_audio_buffer.append",
            "input_audio_buffer.commit",
            "response.create",
        ]


async def test_the_key_and_the_headers_are_sent() -> None:
    async def key() -> str:
        return "from a function"

    async with ScriptedRealtimeServer() as server:
        async with connected(server, api_key=key):
            assert server.sockets[0].headers["authorization"] == "Bearer from a function"
            assert server.sockets[0].headers["user-agent"].startswith("outlast/")
        async with connected(server, headers={"api-key": "azure"}):
            assert server.sockets[1].headers["api-key"] == "azure"
            assert "authorization" not in server.sockets[1].headers


async def test_a_key_comes_from_a_function_the_default_or_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "environment")
    assert await get_api_key(None) == "environment"
    assert await get_api_key("given") == "given"
    assert await get_api_key(lambda: "sync") == "sync"
    monkeypatch.setattr(defaults, "api_key", "default")
    assert await get_api_key(None) == "default"


async def test_without_a_key_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UserError, match="API key is required for the realtime model"):
        await OpenAIRealtimeWebSocketModel().connect({"url": "ws://127.0.0.1:9"})


async def test_invalid_settings_open_no_connection() -> None:
    async with ScriptedRealtimeServer() as server:
        model = OpenAIRealtimeWebSocketModel()
        with pytest.raises(UserError, match="no audio format 'mp3'"):
            await model.connect(
                {
                    "url": server.url,
                    "api_key": "key",
                    "initial_model_settings": {
                        "model_name": "other",
                        "input_audio_format": "mp3",
                    },
                }
            )
        assert server.sockets == []
        assert model.model == "gpt-realtime-2.1"


async def test_a_model_connects_once_at_a_time_and_again_after_close() -> None:
    async with ScriptedRealtimeServer("One.", "Two.") as server:
        model = OpenAIRealtimeWebSocketModel()
        async with connected(server, model) as (_, heard):
            with pytest.raises(UserError, match="is connected"):
                await model.connect({"url": server.url, "api_key": "key"})
            await model.send_event(ask("One?"))
            await heard.turns(1)
        with pytest.raises(UserError, match="not connected"):
            await model.send_event(ask("Between?"))
        async with connected(server, model) as (_, heard):
            await model.send_event(ask("Two?"))
            await heard.turns(1)
            text = "".join(one.delta for one in heard.of(RealtimeModelTranscriptDeltaEvent))
            assert text == "Two."
        assert heard.of(RealtimeModelConnectionStatusEvent) == [], "close() was ours"


async def test_responses_wait_for_the_one_in_progress() -> None:
    async with (
        ScriptedRealtimeServer(*["word " * 20] * 3, pause_s=0.005) as server,
        connected(server) as (model, heard),
    ):
        await model.send_event(ask("First"))
        await heard.until(RealtimeModelTurnStartedEvent)
        await model.send_event(ask("Second"))
        await model.send_event(ask("Third"))
        await heard.turns(2)
        assert len(server.received("response.create")) == 2, "two waiting requests become one"
        order = [kind for kind in kinds(server) if kind != "session.update"]
        assert order[:2] == ["conversation.item.create", "response.create"]
        assert [one.error for one in heard.of(RealtimeModelErrorEvent)] == []


async def test_a_response_that_another_client_of_the_call_started_is_waited_for() -> None:
    async with ScriptedRealtimeServer(*["word " * 20] * 2, pause_s=0.005) as server:
        server.start_call("call-1")
        async with connected(server, call_id="call-1") as (one, _):
            await one.send_event(ask("One"))
            await server.until_received("response.create")
            async with connected(server, call_id="call-1") as (two, heard):
                await two.send_event(ask("Two"))
                await heard.turns(2)
                assert len(server.received("response.create")) == 3, "refused once, then repeated"
                assert heard.of(RealtimeModelErrorEvent) == []


async def test_settings_change_during_the_session() -> None:
    async with ScriptedRealtimeServer() as server, connected(server) as (model, heard):
        settings: Any = {"instructions": "Be brief.", "tools": [LOOK_UP]}
        await model.send_event(RealtimeModelSendSessionUpdate(settings))
        changed = await heard.until_raw("session.updated", 3)
        assert changed["session"]["instructions"] == "Be brief."
        assert changed["session"]["model"] == "gpt-realtime-2.1"


async def test_the_providers_trace_is_set_up_when_the_session_exists() -> None:
    async with ScriptedRealtimeServer() as server:
        async with connected(server):
            await server.until_received("session.update", 2)
        async with connected(server, initial_model_settings={"tracing": {"group_id": "g"}}):
            await server.until_received("session.update", 4)
        async with connected(server, initial_model_settings={"tracing": None}) as (model, heard):
            await model.send_event(
                RealtimeModelSendRawMessage({"type": "input_audio_buffer.clear"})
            )
            await heard.until_raw("input_audio_buffer.cleared")
        traces = [one["session"].get("tracing") for one in server.received("session.update")]
        assert [one for one in traces if one] == ["auto", {"group_id": "g"}]
        assert len(traces) == 5


async def test_an_item_is_deleted() -> None:
    async with ScriptedRealtimeServer() as server, connected(server) as (model, heard):
        item: Any = {"type": "message", "role": "user", "id": "mine", "content": []}
        await model.send_event(
            RealtimeModelSendRawMessage(
                {"type": "conversation.item.create", "other_data": {"item": item}}
            )
        )
        await model.send_event(
            RealtimeModelSendRawMessage(
                {"type": "conversation.item.delete", "other_data": {"item_id": "mine"}}
            )
        )
        deleted = await heard.until(RealtimeModelItemDeletedEvent)
        assert deleted.item_id == "mine"


async def test_the_providers_errors_are_events() -> None:
    async with ScriptedRealtimeServer("Fine.") as server, connected(server) as (model, heard):
        await model.send_event(RealtimeModelSendRawMessage({"type": "response.dance"}))
        error = (await heard.until(RealtimeModelErrorEvent)).error
        assert (error.code, error.param) == ("invalid_value", "type")
        await model.send_event(ask("Still there?"))
        await heard.turns(1)


async def test_input_on_a_condition_is_sent_while_nothing_else_waits() -> None:
    async with (
        ScriptedRealtimeServer("One.", "word " * 20, "Three.", pause_s=0.005) as server,
        connected(server) as (model, heard),
    ):
        assert not await model.send_event_if(ask("No"), lambda: False)
        assert not await model.send_event_if(RealtimeModelSendInterrupt(), lambda: True)
        assert await model.send_event_if(ask("Yes"), lambda: True)
        await heard.turns(1)
        await model.send_event(ask("Two"))
        await heard.until(RealtimeModelTurnStartedEvent, 2)
        await model.send_event(ask("Three"))
        assert not await model.send_event_if(ask("Four"), lambda: True), "a request waits"
        await heard.turns(3)
        assert len(server.received("conversation.item.create")) == 3


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (ask(5), "The user's input is a text"),  # pyright: ignore[reportArgumentType]
        (RealtimeModelSendAudio("AAAA"), "is bytes, not str"),  # pyright: ignore[reportArgumentType]
        (RealtimeModelSendAudio(b"RIFF\0\0\0\0WAVE"), "a WAV file"),
        (RealtimeModelSendRawMessage({}), "with the text `type`"),  # pyright: ignore[reportArgumentType]
        ("hello", "cannot send 'hello'"),
        (RealtimeModelSendInterrupt(cancel_response_only=True), "needs a response_id"),
        (
            RealtimeModelSendInterrupt(playback_only=True, force_response_cancel=True),
            "cannot be combined",
        ),
    ],
)
async def test_a_bad_message_is_refused_and_the_session_goes_on(event: Any, words: str) -> None:
    async with ScriptedRealtimeServer("Fine.") as server, connected(server) as (model, heard):
        sent = len(server.received())
        with pytest.raises(UserError, match=words):
            await model.send_event(event)
        assert len(server.received()) == sent
        await model.send_event(ask("Go on"))
        await heard.turns(1)


async def test_a_listener_that_fails_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Recorder):
        async def on_event(self, event: RealtimeModelEvent) -> None:
            raise RuntimeError("broken")

    async with ScriptedRealtimeServer("Fine.") as server, connected(server) as (model, heard):
        broken = Broken()
        model.add_listener(broken)
        model.add_listener(broken)
        await model.send_event(ask("Go on"))
        await heard.turns(1)
        assert "A listener of a realtime model failed at turn_started" in caplog.text
        model.remove_listener(broken)
        model.remove_listener(broken)


@pytest.mark.parametrize(
    ("status", "body", "code", "words"),
    [
        (
            401,
            {"error": {"code": "invalid_api_key", "message": "Wrong key."}},
            "unauthorized",
            "Wrong key",
        ),
        (
            403,
            {"error": {"message": "No access to realtime."}},
            "unauthorized",
            "No access to realtime",
        ),
        (404, "", "not_found", "url= of the model's configuration"),
        (429, {"error": {"message": "Slow down."}}, "rate_limited", "Slow down"),
        (503, "<html>", "overloaded", "an HTML page"),
    ],
)
async def test_a_refused_connection_names_the_reason_and_not_the_key(
    status: int, body: object, code: str, words: str
) -> None:
    async with ScriptedRealtimeServer() as server:
        server.refuse_connection(status, body)
        with pytest.raises(ModelError, match=words) as refused:
            async with connected(server, api_key="sk-secret"):
                pass
        assert (refused.value.code, refused.value.status) == (code, status)
        assert "sk-secret" not in str(refused.value)


async def test_a_session_that_is_refused_after_the_handshake_is_not_opened() -> None:
    async with ScriptedRealtimeServer() as server:
        server.refuse_session("model_not_found", "No such model.", close_code=4000)
        model, heard = OpenAIRealtimeWebSocketModel(), Recorder()
        model.add_listener(heard)
        with pytest.raises(ModelError, match="No such model") as refused:
            await model.connect({"url": server.url, "api_key": "key"})
        assert (refused.value.code, refused.value.retryable) == ("not_found", False)
        assert [one.error.code for one in heard.events] == ["model_not_found"]
        async with connected(server, model):
            pass  # it can connect again


async def test_a_connection_that_ends_before_the_session_begins_is_not_opened() -> None:
    async with ScriptedRealtimeServer() as server:
        server.close_before("session.created", 1011)
        with pytest.raises(ModelError, match="the server failed"):
            async with connected(server):
                pass
        server.close_before("session.created", 1000)
        with pytest.raises(ModelError, match="closed before the session began"):
            async with connected(server):
                pass


async def test_a_server_that_is_not_there_is_unreachable() -> None:
    with pytest.raises(ModelError, match="Cannot reach the model provider") as missing:
        await OpenAIRealtimeWebSocketModel().connect({"url": "ws://127.0.0.1:9", "api_key": "key"})
    assert (missing.value.code, missing.value.retryable) == ("unreachable", True)


@pytest.mark.parametrize(
    ("code", "words", "retryable"),
    [
        (1006, "the connection was lost", True),
        (1008, "the server refused the session", False),
        (1011, "the server failed", True),
        (1012, "the server restarts", True),
        (4321, "no reason is known", True),
    ],
)
async def test_a_lost_connection_is_an_exception_event(
    code: int, words: str, retryable: bool
) -> None:
    async with (
        ScriptedRealtimeServer("One two three.") as server,
        connected(server) as (model, heard),
    ):
        server.close_before("response.output_audio.delta", code, skip=1)
        await model.send_event(ask("Count."))
        failed = await heard.until(RealtimeModelExceptionEvent)
        assert isinstance(failed.exception, ModelError)
        assert f"{words} (code {code})" in str(failed.exception)
        assert failed.exception.retryable is retryable
        assert heard.of(RealtimeModelConnectionStatusEvent)[0].status == "disconnected"
        with pytest.raises(ModelError, match=f"code {code}"):
            await model.send_event(ask("Still there?"))


SERVER_FRAMES = (
    "session.updated",
    "conversation.item.added",
    "conversation.item.done",
    "response.created",
    "response.output_item.added",
    "response.content_part.added",
    "response.output_audio_transcript.delta",
    "response.output_audio.delta",
    "response.output_audio.done",
    "response.output_audio_transcript.done",
    "response.content_part.done",
    "response.output_item.done",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "response.done",
)
CLIENT_FRAMES = ("session.update", "conversation.item.create", "response.create")


class Answering(RealtimeModelListener):
    """Answers each tool call at once."""

    def __init__(self, model: OpenAIRealtimeWebSocketModel) -> None:
        self.model = model

    async def on_event(self, event: RealtimeModelEvent) -> None:
        if isinstance(event, RealtimeModelToolCallEvent):
            with suppress(ModelError):
                output = RealtimeModelSendToolOutput(event, "shipped", start_response=True)
                await self.model.send_event(output)


@pytest.mark.parametrize("code", [1001, 1006, 1011])
@pytest.mark.parametrize("frame", [*SERVER_FRAMES, *CLIENT_FRAMES])
async def test_a_connection_that_ends_at_any_frame_ends_with_one_event(
    frame: str, code: int
) -> None:
    script = [call("look_up", "c1")], "It is on its way."
    async with ScriptedRealtimeServer(*script) as server:
        if frame in CLIENT_FRAMES:
            server.close_after(frame, code, skip=1)
        else:
            server.close_before(frame, code, skip=frame == "session.updated")
        async with connected(server) as (model, heard):
            model.add_listener(Answering(model))
            with suppress(ModelError):
                await model.send_event(ask("Where is A-17?"))
            end = RealtimeModelEndOfStreamEvent if code == 1001 else RealtimeModelExceptionEvent
            await heard.until(end)
            assert type(heard.events[-1]) is end
            assert [one.status for one in heard.of(RealtimeModelConnectionStatusEvent)] == [
                "disconnected"
            ]
            with pytest.raises(ModelError, match=f"code {code}"):
                await model.send_event(RealtimeModelSendAudio(LOUD))


@pytest.mark.parametrize("code", [1000, 1001])
async def test_an_orderly_end_is_the_end_of_the_stream(code: int) -> None:
    async with ScriptedRealtimeServer() as server, connected(server) as (model, heard):
        server.close_after("input_audio_buffer.cleared", code)
        await model.send_event(RealtimeModelSendRawMessage({"type": "input_audio_buffer.clear"}))
        await heard.until(RealtimeModelEndOfStreamEvent)
        assert heard.of(RealtimeModelConnectionStatusEvent)[0].status == "disconnected"
        assert heard.of(RealtimeModelExceptionEvent) == []


async def test_a_session_ends_at_the_providers_limit() -> None:
    async with ScriptedRealtimeServer(session_s=0.5) as server, connected(server) as (_, heard):
        await heard.until(RealtimeModelEndOfStreamEvent)
        assert heard.of(RealtimeModelErrorEvent)[0].error.code == "session_expired"


async def test_a_call_is_attached_to_by_its_id() -> None:
    async with ScriptedRealtimeServer("Hello.") as server:
        call_of_phone = server.start_call("call-77")
        model = OpenAIRealtimeSIPModel()
        async with connected(server, model, call_id="call-77") as (_, heard):
            await call_of_phone.user_says("Good morning.")
            await heard.turns(1)
            said = heard.of(RealtimeModelInputAudioTranscriptionCompletedEvent)
            assert [one.transcript for one in said] == ["Good morning."]
            assert heard.of(RealtimeModelAudioEvent) == [], "the sound goes to the phone"
            assert "model" not in server.received("session.update")[0]["session"]
            assert "format" not in server.received("session.update")[0]["session"]["audio"]["input"]
            await server.hang_up("call-77")
            await heard.until(RealtimeModelEndOfStreamEvent)


async def test_a_call_goes_on_without_its_socket_and_another_attaches() -> None:
    async with ScriptedRealtimeServer("One.", "Two.") as server:
        call_of_phone = server.start_call("call-77")
        async with connected(server, call_id="call-77"):
            await call_of_phone.user_says("One?")
        await call_of_phone.idle()
        async with connected(server, call_id="call-77") as (_, heard):
            await call_of_phone.user_says("Two?")
            await heard.turns(1)
            assert len(call_of_phone.conversation.items) == 4


async def test_a_call_that_is_over_cannot_be_attached_to() -> None:
    async with ScriptedRealtimeServer() as server:
        with pytest.raises(ModelError, match="No session found for call_id 'gone'") as missing:
            async with connected(server, call_id="gone"):
                pass
        assert missing.value.status == 404


async def test_a_phone_model_needs_a_call() -> None:
    with pytest.raises(UserError, match="needs the call_id"):
        await OpenAIRealtimeSIPModel().connect({"api_key": "key"})


async def test_the_model_of_a_call_cannot_be_chosen() -> None:
    with pytest.raises(UserError, match="both `call_id` and `model_name`"):
        await OpenAIRealtimeWebSocketModel().connect(
            {
                "call_id": "c",
                "api_key": "key",
                "initial_model_settings": {"model_name": "gpt-realtime"},
            }
        )


async def test_close_during_an_answer_leaves_no_task_behind() -> None:
    before = asyncio.all_tasks()
    async with (
        ScriptedRealtimeServer("word " * 50, pause_s=0.01) as server,
        connected(server) as (model, heard),
    ):
        await model.send_event(ask("Go"))
        await heard.until(RealtimeModelAudioEvent)
        await model.close()
        await model.close()
    assert {task for task in asyncio.all_tasks() - before if "Realtime" in repr(task)} == set()
