from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from openai import AsyncOpenAI

from outlast.agents.agent import Agent
from outlast.agents.config.model_settings import ModelSettings
from outlast.loop.items import refusal_of, text_of
from outlast.loop.phrases import left_out
from outlast.loop.values import JsonObject, Usage
from outlast.models import ChatCompletionsModel, OpenAIConnection
from outlast.models.failures import Target
from outlast.models.openai.chat_reply import response_from_chat
from outlast.models.openai.responses import FILTERED
from outlast.ports.model import Model, ModelError, ModelRequest, ToolSpec, response_of_stream
from outlast.testing import run_in_memory
from outlast.views.run import loop_state
from tests.unit.models.model_server import ModelServer
from tests.unit.models.streams import collect, collect_until_failure

NOTHING: JsonObject = {
    "type": "object",
    "properties": {},
    "required": [],
    "additionalProperties": False,
}
ASK = ModelRequest(
    instructions="Be kind.",
    input=[{"role": "user", "content": "hello"}],
    tools=[ToolSpec(name="look", description="", parameters=NOTHING)],
    settings=ModelSettings(max_tokens=5, tool_choice="look", extra_query={"version": "2"}),
)
SENT: JsonObject = {
    "model": "chat-test",
    "messages": [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "hello"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {"name": "look", "description": "", "parameters": NOTHING, "strict": True},
        }
    ],
    "tool_choice": {"type": "function", "function": {"name": "look"}},
    "max_tokens": 5,
}
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def completion(message: JsonObject) -> JsonObject:
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "chatcmpl-1", "created": 1, "model": "m", "choices": [choice], "usage": USAGE}


def chunk(delta: JsonObject, finish_reason: str | None = None) -> JsonObject:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {"id": "chatcmpl-1", "created": 1, "model": "m", "choices": [choice]}


async def test_an_answer_comes_back_as_responses_items(
    chat: ChatCompletionsModel, server: ModelServer
) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    server.answer(
        completion({"role": "assistant", "content": "hi", "tool_calls": [call]}),
        headers={"x-request-id": "req_1"},
    )
    answer = await chat.get_response(ASK)
    assert [item["type"] for item in answer.output] == ["message", "function_call"]
    assert answer.usage == Usage(requests=1, input_tokens=3, output_tokens=2, total_tokens=5)
    assert (answer.response_id, answer.request_id) == ("chatcmpl-1", "req_1")
    assert server.request.path == "/v1/chat/completions"
    assert server.request.query == {"version": ["2"]}
    assert server.request.body == SENT


async def test_an_answer_can_be_sent_back(chat: ChatCompletionsModel, server: ModelServer) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    said = {"role": "assistant", "content": "hi", "tool_calls": [call]}
    server.answer(completion(said))
    first = await chat.get_response(ASK)
    output = {"type": "function_call_output", "call_id": "a", "output": "seen"}
    server.answer(completion({"content": "done"}))
    await chat.get_response(
        ModelRequest(instructions=None, input=[*ASK.input, *first.output, output])
    )
    assert server.requests[-1].body["messages"][1:] == [
        said,
        {"role": "tool", "tool_call_id": "a", "content": "seen"},
    ]


async def test_a_stream_comes_back_as_responses_events(
    chat: ChatCompletionsModel, server: ModelServer
) -> None:
    usage: JsonObject = {"id": "chatcmpl-1", "choices": [], "usage": USAGE}
    server.stream(
        [chunk({"content": "h"}), chunk({"content": "i"}), chunk({}, "stop"), usage], done=True
    )
    events = await collect(chat.stream_response(ASK))
    deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    assert deltas == ["h", "i"]
    assert events[0]["type"] == "response.created"
    assert events[-1]["type"] == "response.completed"
    server.answer(completion({"content": "hi"}))
    whole = await chat.get_response(ASK)
    assert events[-1]["response"]["output"] == whole.output
    assert events[-1]["response"]["usage"]["total_tokens"] == whole.usage.total_tokens
    assert server.requests[0].body == {**SENT, "stream": True}


async def test_a_stream_has_the_providers_id_of_the_request(
    chat: ChatCompletionsModel, server: ModelServer
) -> None:
    server.stream([chunk({"content": "h"}), chunk({"content": "i"}, "stop")], done=True)
    assert (await response_of_stream(chat.stream_response(ASK))).request_id == "req_s"


@pytest.mark.parametrize("wanted", [True, False])
async def test_a_stream_has_usage_options_where_the_setting_says_so(
    chat: ChatCompletionsModel, server: ModelServer, *, wanted: bool
) -> None:
    server.stream([chunk({"content": "hi"}, "stop")], done=True)
    request = replace(ASK, settings=replace(ASK.settings, include_usage=wanted))
    await response_of_stream(chat.stream_response(request))
    options = {"include_usage": wanted}
    assert server.request.body == {**SENT, "stream": True, "stream_options": options}


class Recorded(OpenAIConnection):
    """A connection to OpenAI's own server that sends nothing."""

    def __init__(self) -> None:
        super().__init__(api_key="sk-test")
        self.bodies: list[JsonObject] = []

    async def stream(
        self,
        target: Target,
        body: JsonObject,
        settings: ModelSettings,
        *,
        is_last: Callable[[JsonObject], bool],
    ) -> AsyncGenerator[JsonObject]:
        self.bodies.append(body)
        yield chunk({"content": "hi"}, "stop")


async def test_openais_own_server_is_always_asked_for_usage() -> None:
    connection = Recorded()
    model = ChatCompletionsModel("m", connection)
    await collect(model.stream_response(ASK))
    await collect(
        model.stream_response(replace(ASK, settings=replace(ASK.settings, include_usage=False)))
    )
    asked = [body["stream_options"]["include_usage"] for body in connection.bodies]
    assert asked == [True, False]


async def test_usage_is_there_in_the_servers_own_words_too(
    chat: ChatCompletionsModel, server: ModelServer
) -> None:
    server.answer(completion({"content": "hi"}))
    assert (await chat.get_response(ASK)).raw_usage == USAGE
    server.stream([{**chunk({"content": "hi"}, "stop"), "usage": USAGE}], done=True)
    assert (await response_of_stream(chat.stream_response(ASK))).raw_usage == USAGE
    server.answer({**completion({"content": "hi"}), "usage": None})
    assert (await chat.get_response(ASK)).raw_usage is None


async def test_a_stream_without_the_closing_mark_is_complete_by_its_finish_reason(
    chat: ChatCompletionsModel, server: ModelServer
) -> None:
    server.stream([chunk({"content": "hi"}), chunk({}, "stop")])
    events = await collect(chat.stream_response(ASK))
    assert events[-1]["type"] == "response.completed"


async def test_streams_read_to_their_end_share_a_connection(
    chat: ChatCompletionsModel, server: ModelServer
) -> None:
    for _ in range(3):
        server.stream([chunk({"content": "hi"}, "stop")], done=True)
        await collect(chat.stream_response(ASK))
    assert server.connections <= 1


@pytest.mark.parametrize(
    ("last", "code"),
    [
        ({"error": {"message": "Sorry.", "code": 503}}, "overloaded"),
        ({"error": {"message": "Sorry.", "type": "server_error"}}, "server_error"),
        ({"error": "Sorry."}, "server_error"),
        ([{"error": {"message": "Sorry.", "code": 503}}], "overloaded"),
        ({"object": "error", "message": "Sorry.", "code": 503}, "overloaded"),
        ({"choices": "x"}, "bad_response"),
        (b"not json", "bad_response"),
        ([], "bad_response"),
    ],
)
async def test_a_failure_in_the_middle_of_a_stream_comes_after_what_was_said(
    chat: ChatCompletionsModel, server: ModelServer, last: object, code: str
) -> None:
    server.stream([chunk({"content": "h"}), last])
    said, failure = await collect_until_failure(chat.stream_response(ASK))
    assert said[-1]["delta"] == "h"
    assert failure.code == code


async def test_a_stream_that_ends_early_is_a_bad_response(
    chat: ChatCompletionsModel, server: ModelServer
) -> None:
    server.stream([chunk({"content": "h"})], done=True)
    said, failure = await collect_until_failure(chat.stream_response(ASK))
    assert said[-1]["delta"] == "h"
    assert (failure.code, failure.retryable) == ("bad_response", True)


async def test_a_stream_that_falls_silent_ends_at_the_time_out(
    chat: ChatCompletionsModel, server: ModelServer
) -> None:
    server.stream([chunk({"content": "h"})], hang=True)
    settings = ModelSettings(timeout=timedelta(milliseconds=50))
    request = ModelRequest(instructions=None, input=ASK.input, settings=settings)
    said, failure = await collect_until_failure(chat.stream_response(request))
    assert said[-1]["delta"] == "h"
    assert failure.code == "timeout"


@pytest.mark.parametrize(
    "body", [{}, {"choices": []}, {"choices": [{"message": 7}]}, {"output": []}, "text", [1]]
)
async def test_json_that_is_no_completion_is_a_bad_response(
    chat: ChatCompletionsModel, server: ModelServer, body: object
) -> None:
    server.answer(body)
    with pytest.raises(ModelError) as caught:
        await chat.get_response(ASK)
    assert (caught.value.code, caught.value.retryable) == ("bad_response", True)


async def test_a_request_that_the_api_has_no_words_for_is_not_sent(
    chat: ChatCompletionsModel, server: ModelServer
) -> None:
    request = ModelRequest(instructions=None, input=[{"type": "item_reference", "id": "msg_1"}])
    with pytest.raises(ModelError, match="item_reference") as caught:
        await chat.get_response(request)
    assert (caught.value.code, caught.value.retryable) == ("invalid_request", False)
    said, failure = await collect_until_failure(chat.stream_response(request))
    assert (said, failure.code) == ([], "invalid_request")
    assert server.requests == []


@pytest.mark.breaks_rules("item-type")
async def test_what_the_api_has_no_words_for_is_left_out_and_the_conversation_goes_on(
    chat: ChatCompletionsModel, server: ModelServer
) -> None:
    """As after a handoff, a fallback or a deploy from a model of the Responses API."""
    page: JsonObject = {"type": "input_file", "file_url": "https://shop.example/a.pdf"}
    asked: list[JsonObject] = [
        {"role": "user", "content": [{"type": "input_text", "text": "Read this."}, page]},
        {"type": "daydream", "id": "dd_1"},
    ]
    server.answer(completion({"content": "I cannot read it."}))
    result = await run_in_memory(Agent(name="Desk"), asked, model=chat)
    assert result.final_output == "I cannot read it."
    [request] = server.requests
    [message] = request.body["messages"]
    assert message["content"] == f"Read this.\n{left_out('a file')}"
    assert result.snapshot is not None
    assert [(one.item, one.part) for one in loop_state(result.snapshot).aside] == [
        (0, 1),
        (1, None),
    ]


@pytest.mark.parametrize(
    ("base_url", "field"),
    [
        ("https://api.openai.com/v1", "max_completion_tokens"),
        ("https://eu.api.openai.com/v1", "max_completion_tokens"),
        ("https://mine.openai.azure.com/openai", "max_completion_tokens"),
        ("https://mine.cognitiveservices.azure.com/openai/v1", "max_completion_tokens"),
        ("https://mine.services.ai.azure.com/openai/v1", "max_completion_tokens"),
        ("https://api.notopenai.com/v1", "max_tokens"),
        ("http://localhost:11434/v1", "max_tokens"),
    ],
)
async def test_the_bound_of_tokens_goes_by_the_name_that_the_server_knows(
    base_url: str, field: str
) -> None:
    client = AsyncOpenAI(api_key="sk", base_url=base_url)
    model = ChatCompletionsModel("m", OpenAIConnection(client=client))
    target = model._connection.target("/chat/completions", "m")
    body = model._body(ASK, target)
    assert {name for name in body if name.startswith("max_")} == {field}
    await client.close()


def test_it_is_a_model(chat: ChatCompletionsModel) -> None:
    port: Model = chat
    assert port is chat


async def test_lines_of_a_stream_that_say_nothing_are_skipped(
    chat: ChatCompletionsModel, server: ModelServer
) -> None:
    ping: JsonObject = {"type": "ping"}
    usage: JsonObject = {"usage": USAGE}
    server.stream(
        [
            *(ping, {}, chunk({"content": "h"}), {"choices": None}),
            *(ping, chunk({"content": "i"}), chunk({}, "stop"), usage, ping),
        ],
        done=True,
    )
    *_, last = await collect(chat.stream_response(ASK))
    server.answer(completion({"content": "hi"}))
    whole = await chat.get_response(ASK)
    assert last["response"]["id"] == "chatcmpl-1"
    assert last["response"]["output"] == whole.output
    assert last["response"]["usage"]["total_tokens"] == 5


async def test_a_character_that_two_chunks_share_is_one_and_half_a_one_is_dropped(
    chat: ChatCompletionsModel, server: ModelServer
) -> None:
    pieces = ("h\ud83d", "\ude00", "i\ud83d")
    server.stream([*(chunk({"content": piece}) for piece in pieces), chunk({}, "stop")])
    events = await collect(chat.stream_response(ASK))
    deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    assert deltas == ["h", "\U0001f600", "i"]
    server.answer(completion({"content": "h\ud83d\ude00i\ud83d"}))
    assert (await chat.get_response(ASK)).output == events[-1]["response"]["output"]


LISTED = [{"error": {"message": "Sorry.", "code": 503, "status": "UNAVAILABLE"}}]


@pytest.mark.parametrize("status", [200, 400, 503])
async def test_an_error_in_a_list_is_an_error(
    chat: ChatCompletionsModel, server: ModelServer, status: int
) -> None:
    server.answer(LISTED, status=status)
    with pytest.raises(ModelError, match=r"Sorry\.") as caught:
        await chat.get_response(ASK)
    assert caught.value.code == ("invalid_request" if status == 400 else "overloaded")


@pytest.mark.parametrize(
    ("reason", "code", "attempts"),
    [
        ("error", "server_error", None),
        ("network_error", "server_error", None),
        ("abort", "server_error", None),
        ("FinishReason.ERROR", "server_error", None),
        ("function_call_filter: MALFORMED_FUNCTION_CALL", "server_error", None),
        ("insufficient_system_resource", "server_error", None),
        ("OTHER", "bad_response", 2),
        ("out_of_ink", "bad_response", 2),
    ],
)
@pytest.mark.parametrize("said", ["", "Half a sen"])
async def test_an_answer_that_failed_on_the_way_is_tried_again(
    chat: ChatCompletionsModel,
    server: ModelServer,
    reason: str,
    code: str,
    attempts: int | None,
    said: str,
) -> None:
    whole = completion({"content": said})
    whole["choices"][0]["finish_reason"] = reason
    server.answer(whole)
    with pytest.raises(ModelError, match=reason) as caught:
        await chat.get_response(ASK)
    server.stream([chunk({"content": said}, reason)], done=True)
    _, failure = await collect_until_failure(chat.stream_response(ASK))
    for error in (caught.value, failure):
        assert (error.code, error.retryable, error.attempts) == (code, True, attempts)


async def test_an_error_inside_a_choice_is_an_error(
    chat: ChatCompletionsModel, server: ModelServer
) -> None:
    error = {"code": 502, "message": "Provider returned error"}
    choice = {"index": 0, "finish_reason": "error", "error": error}
    server.answer({"choices": [{**choice, "message": {"content": "Half a sen"}}]})
    with pytest.raises(ModelError) as caught:
        await chat.get_response(ASK)
    server.stream([chunk({"content": "Half a sen"}), {"choices": [choice]}], done=True)
    _, failure = await collect_until_failure(chat.stream_response(ASK))
    for raised in (caught.value, failure):
        assert (raised.code, raised.retryable) == ("server_error", True)
        assert "Provider returned error" in raised.message


@pytest.mark.parametrize("reason", ["content_filter", "SAFETY", "RECITATION", "sensitive"])
@pytest.mark.parametrize("said", ["", "Half a sen"])
async def test_a_filtered_answer_is_a_refusal(
    chat: ChatCompletionsModel, server: ModelServer, reason: str, said: str
) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    whole = completion({"content": said, "tool_calls": [call]})
    whole["choices"][0]["finish_reason"] = reason
    server.answer(whole)
    [item] = (await chat.get_response(ASK)).output
    assert refusal_of(item) == FILTERED
    assert text_of(item) == said
    delta = chunk({"content": said, "tool_calls": [{"index": 0, **call}]}, reason)
    server.stream([delta], done=True)
    *_, last = await collect(chat.stream_response(ASK))
    assert last["response"]["output"] == [item]


def test_the_providers_own_word_for_a_filter_outranks_that_of_its_gateway() -> None:
    choice = {"message": {"content": "Half a sen"}, "finish_reason": "stop"}
    for beside in (
        {"native_finish_reason": "RECITATION"},
        {"provider_specific_fields": {"native_finish_reason": "SAFETY"}},
    ):
        [item] = response_from_chat({"choices": [{**choice, **beside}]}, turn=1)["output"]
        assert refusal_of(item) == FILTERED
    for unknown in ("done_and_dusted", "OTHER", None):
        given = {**choice, "native_finish_reason": unknown}
        [item] = response_from_chat({"choices": [given]}, turn=1)["output"]
        assert refusal_of(item) is None


@pytest.mark.parametrize("reason", ["stop", "length", "tool_calls"])
@pytest.mark.parametrize(
    "message", [{"content": None}, {"content": " \n"}, {"reasoning_content": "Hm."}]
)
async def test_an_answer_of_nothing_is_no_answer(
    chat: ChatCompletionsModel, server: ModelServer, message: JsonObject, reason: str
) -> None:
    whole = completion(message)
    whole["choices"][0]["finish_reason"] = reason
    server.answer(whole)
    with pytest.raises(ModelError, match="answered with nothing") as caught:
        await chat.get_response(ASK)
    server.stream([chunk(message, reason)], done=True)
    _, failure = await collect_until_failure(chat.stream_response(ASK))
    for error in (caught.value, failure):
        assert (error.code, error.retryable, error.attempts) == ("empty_answer", True, 2)
        assert ("max_tokens" in error.message) == (reason == "length")


async def test_thoughts_that_a_limit_cut_off_are_no_answer_where_they_come_again_as_its_text(
    chat: ChatCompletionsModel, server: ModelServer
) -> None:
    thought = "The user asks"
    server.stream(
        [chunk({"reasoning_content": thought}), chunk({"content": thought}, "length")], done=True
    )
    _, failure = await collect_until_failure(chat.stream_response(ASK))
    assert failure.code == "empty_answer"
    server.stream(
        [chunk({"reasoning_content": thought}), chunk({"content": "Half a sen"}, "length")],
        done=True,
    )
    answer = await response_of_stream(chat.stream_response(ASK))
    assert text_of(answer.output[0]) == "Half a sen"
