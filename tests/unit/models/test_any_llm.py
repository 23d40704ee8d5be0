"""any-llm where it is installed, and else what stands in for it: both send over HTTP."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from datetime import timedelta
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest
import pytest_asyncio

from outlast.agents.config.settings import ModelSettings
from outlast.agents.errors import UserError
from outlast.loop.values import JsonObject, Usage
from outlast.models import AnyLLMModel, AnyLLMProvider
from outlast.ports.model import ModelError, ModelProvider, ModelRequest, ToolSpec
from tests.unit.models.chat_api import CALL, chunks, completion
from tests.unit.models.model_server import ModelServer
from tests.unit.models.responses_api import message, response
from tests.unit.models.streams import collect, collect_until_failure

pytestmark = pytest.mark.usefixtures("gateway_packages")

KEY = "sk-test-4711"
ASK = ModelRequest(
    instructions="Be kind.",
    input=[{"role": "user", "content": "hello"}],
    tools=[ToolSpec(name="look", description="", parameters={"type": "object", "properties": {}})],
)


def whole(*output: JsonObject) -> JsonObject:
    """Return a response with all that the API promises."""
    return response(
        *output,
        created_at=1,
        model="gpt-test",
        tools=[],
        tool_choice="auto",
        parallel_tool_calls=True,
        metadata={},
    )


@pytest_asyncio.fixture
async def model(server: ModelServer) -> AsyncGenerator[AnyLLMModel]:
    model = AnyLLMModel("openai/gpt-test", server.base_url, KEY)
    yield model
    await model.aclose()


@pytest_asyncio.fixture
async def chat(server: ModelServer) -> AsyncGenerator[AnyLLMModel]:
    model = AnyLLMModel("openai/gpt-test", server.base_url, KEY, "chat_completions")
    yield model
    await model.aclose()


async def fail(model: AnyLLMModel, request: ModelRequest = ASK) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await model.get_response(request)
    return caught.value


async def test_a_provider_with_the_responses_api_is_asked_through_it(
    model: AnyLLMModel, server: ModelServer
) -> None:
    server.answer(whole(message("hi")))
    answer = await model.get_response(ASK)
    assert answer.output[0]["content"][0]["text"] == "hi"
    assert (answer.usage.input_tokens, answer.usage.cached_tokens) == (30, 20)
    sent = server.request
    assert (sent.path, sent.headers["authorization"]) == ("/v1/responses", f"Bearer {KEY}")
    assert (sent.body["model"], sent.body["instructions"]) == ("gpt-test", "Be kind.")
    assert sent.body["input"] == ASK.input


async def test_its_stream_is_that_of_the_responses_api(
    model: AnyLLMModel, server: ModelServer
) -> None:
    server.stream(
        [
            {
                "type": "response.output_text.delta",
                "delta": "hi",
                "item_id": "msg_1",
                "output_index": 0,
                "content_index": 0,
                "sequence_number": 0,
                "logprobs": [],
            },
            {
                "type": "response.completed",
                "sequence_number": 1,
                "response": whole(message("hi")),
            },
        ]
    )
    events = await collect(model.stream_response(ASK))
    assert events[0]["delta"] == "hi"
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "hi"
    assert server.request.body["stream"] is True


async def test_an_answer_of_chat_completions_comes_back_as_responses_items(
    chat: AnyLLMModel, server: ModelServer
) -> None:
    said = {"content": "Let me see.", "tool_calls": [CALL]}
    server.answer(completion(said, "tool_calls"))
    answer = await chat.get_response(ASK)
    text, call = answer.output
    assert text["content"][0]["text"] == "Let me see."
    assert (call["type"], call["name"], call["call_id"]) == ("function_call", "look", "call_1")
    assert answer.usage == Usage(
        requests=1, input_tokens=30, output_tokens=7, total_tokens=37, cached_tokens=20
    )
    assert server.request.path == "/v1/chat/completions"
    assert "reasoning_effort" not in server.request.body


async def test_a_stream_of_chat_completions_comes_back_as_responses_events(
    chat: AnyLLMModel, server: ModelServer
) -> None:
    deltas = [{"role": "assistant", "content": "h"}, {"content": "i"}, {"tool_calls": [CALL]}]
    server.stream(chunks(*deltas, finish_reason="tool_calls"), done=True)
    events = await collect(chat.stream_response(ASK))
    texts = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    assert texts == ["h", "i"]
    last = events[-1]["response"]
    assert [item["type"] for item in last["output"]] == ["message", "function_call"]
    assert last["usage"]["total_tokens"] == 37


async def test_a_provider_without_the_responses_api_is_asked_through_the_other(
    server: ModelServer,
) -> None:
    model = AnyLLMModel("moonshot/chat", server.base_url, KEY)
    server.answer(completion({"content": "hi"}))
    settings = ModelSettings(timeout=timedelta(seconds=30))
    answer = await model.get_response(
        ModelRequest(instructions=None, input=ASK.input, settings=settings)
    )
    assert answer.output[0]["content"][0]["text"] == "hi"
    assert server.request.path == "/v1/chat/completions"
    await model.aclose()


async def test_a_provider_without_the_responses_api_cannot_be_asked_for_it(
    server: ModelServer,
) -> None:
    model = AnyLLMModel("moonshot/chat", server.base_url, KEY, "responses")
    failure = await fail(model)
    assert (failure.code, failure.retryable) == ("invalid_request", False)
    assert "'moonshot' has no Responses API" in failure.message
    await model.aclose()


async def test_settings_reach_the_server(chat: AnyLLMModel, server: ModelServer) -> None:
    server.answer(completion({"content": "hi"}))
    settings = ModelSettings(
        max_tokens=5,
        extra_headers={"x-team": "blue"},
        extra_body={"top_k": 3},
        extra_args={"seed": 7},
        extra_query={"version": "2"},
        timeout=timedelta(seconds=30),
    )
    await chat.get_response(ModelRequest(instructions=None, input=ASK.input, settings=settings))
    sent = server.request
    assert (sent.body["max_completion_tokens"], sent.body["top_k"], sent.body["seed"]) == (5, 3, 7)
    assert (sent.headers["x-team"], sent.query) == ("blue", {"version": ["2"]})


@pytest.mark.parametrize(
    ("status", "code", "retryable"),
    [
        (400, "invalid_request", False),
        (401, "unauthorized", False),
        (403, "unauthorized", False),
        (404, "not_found", False),
        (409, "overloaded", True),
        (429, "rate_limited", True),
        (500, "server_error", True),
        (503, "overloaded", True),
    ],
)
async def test_a_refusal_has_the_code_of_its_status_and_is_not_retried(
    model: AnyLLMModel, server: ModelServer, status: int, code: str, retryable: bool
) -> None:
    report = {"error": {"message": f"No, with {KEY}."}}
    server.answer(report, status=status, headers={"retry-after": "7"})
    failure = await fail(model)
    assert (failure.code, failure.retryable, failure.status) == (code, retryable, status)
    assert failure.retry_after == timedelta(seconds=7)
    assert "No, with [API key]." in failure.message
    assert len(server.requests) == 1


async def test_the_providers_own_name_of_an_error_counts(
    model: AnyLLMModel, server: ModelServer
) -> None:
    server.answer({"error": {"message": "Pay.", "code": "insufficient_quota"}}, status=429)
    failure = await fail(model)
    assert (failure.code, failure.retryable) == ("quota_exceeded", False)


async def test_a_server_that_says_nothing_is_a_time_out(
    model: AnyLLMModel, server: ModelServer
) -> None:
    server.hang()
    settings = ModelSettings(timeout=timedelta(seconds=0.2))
    failure = await fail(model, ModelRequest(instructions=None, input=ASK.input, settings=settings))
    assert (failure.code, failure.retryable) == ("timeout", True)


async def test_a_dropped_connection_is_unreachable(model: AnyLLMModel, server: ModelServer) -> None:
    server.drop()
    failure = await fail(model)
    assert (failure.code, failure.retryable) == ("unreachable", True)
    assert "AnyLLMModel(base_url=...)" in failure.message


async def test_a_stream_that_breaks_fails_after_what_was_said(
    chat: AnyLLMModel, server: ModelServer
) -> None:
    first = chunks({"role": "assistant", "content": "h"})[0]
    server.stream([first, {"error": {"message": "Sorry.", "code": 500}}])
    said, failure = await collect_until_failure(chat.stream_response(ASK))
    assert said[-1]["delta"] == "h"
    assert failure.retryable
    assert "Sorry." in failure.message


async def test_a_missing_key_names_the_variable() -> None:
    failure = await fail(AnyLLMModel("gpt-test"))
    assert (failure.code, failure.retryable) == ("no_api_key", False)
    assert "OPENAI_API_KEY" in failure.message


async def test_an_unknown_provider_is_refused() -> None:
    failure = await fail(AnyLLMModel("nobody/m"))
    assert (failure.code, failure.retryable) == ("invalid_request", False)
    assert "'nobody' is not a supported provider" in failure.message


async def test_a_stored_prompt_is_refused(model: AnyLLMModel) -> None:
    failure = await fail(model, ModelRequest(instructions=None, input=[], prompt={"id": "p"}))
    assert (failure.code, failure.retryable) == ("invalid_request", False)


@pytest.mark.parametrize("name", ["", "/m", "mistral/"])
def test_a_name_that_is_none_is_told_at_once(name: str) -> None:
    with pytest.raises(UserError, match="write the provider"):
        AnyLLMModel(name)


def test_an_unknown_api_is_told_at_once() -> None:
    with pytest.raises(UserError, match="'responses' or 'chat_completions', not 'chat'"):
        AnyLLMModel("openai/m", api="chat")  # pyright: ignore[reportArgumentType]  on purpose


async def test_one_client_serves_an_event_loop_and_another_loop_has_its_own(
    server: ModelServer,
) -> None:
    model = AnyLLMModel("openai/gpt-test", server.base_url, KEY)
    for _ in range(2):
        server.answer(whole(message("hi")))
        await model.get_response(ASK)
    await model.aclose()
    assert server.connections == 1

    async def in_a_loop_of_its_own() -> None:
        await model.get_response(ASK)
        await model.aclose()

    server.answer(whole(message("hi")))
    await asyncio.to_thread(asyncio.run, in_a_loop_of_its_own())
    assert server.connections == 2


async def test_many_first_calls_at_once_open_one_client(
    model: AnyLLMModel, monkeypatch: pytest.MonkeyPatch, server: ModelServer
) -> None:
    for _ in range(3):
        server.answer(whole(message("hi")))
    opened: list[Any] = []
    create: Any = AnyLLMModel._create

    def count(self: AnyLLMModel, any_llm: Any) -> Any:
        opened.append(any_llm)
        return create(self, any_llm)

    monkeypatch.setattr(AnyLLMModel, "_create", count)
    await asyncio.gather(*(model.get_response(ASK) for _ in range(3)))
    assert len(opened) == 1


async def test_a_failed_opening_is_tried_again_by_the_next_call(
    monkeypatch: pytest.MonkeyPatch, server: ModelServer
) -> None:
    model = AnyLLMModel("openai/gpt-test", server.base_url)
    assert (await fail(model)).code == "no_api_key"
    await model.aclose()
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert (await fail(model)).code == "unreachable"
    await model.aclose()


async def test_the_provider_finds_models_by_any_llms_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    provider = AnyLLMProvider(api_key="k", base_url="http://here", api="responses")
    assert isinstance(provider, ModelProvider)
    model = provider.get_model("any-llm/mistral/large")
    assert provider.get_model("mistral/large") is model
    assert (model.model, model.base_url, model.api_key, model.api) == (
        "mistral/large",
        "http://here",
        "k",
        "responses",
    )
    monkeypatch.setenv("OUTLAST_MODEL", "any-llm/groq/llama")
    assert provider.get_model(None).model == "groq/llama"
    await provider.aclose()


async def test_a_programs_stand_in_for_the_package_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[JsonObject] = []

    class Provider:
        async def acompletion(self, **fields: Any) -> JsonObject:
            asked.append(fields)
            message = {"role": "assistant", "content": "Hello."}
            return {"choices": [{"index": 0, "finish_reason": "stop", "message": message}]}

    class Factory:
        @staticmethod
        def create(name: str, api_key: str | None = None, api_base: str | None = None) -> Provider:
            asked.append({"create": name, "key": api_key, "url": api_base})
            return Provider()

    package: Any = ModuleType("any_llm")
    package.AnyLLM = Factory
    monkeypatch.setitem(sys.modules, "any_llm", package)

    module: Any = import_module("outlast.extensions.models.any_llm_model")
    model = module.AnyLLMModel("house/small", api_key="k")
    reply = await model.get_response(ModelRequest(instructions=None, input=[]))

    assert module.AnyLLM is Factory
    assert reply.output[0]["content"][0]["text"] == "Hello."
    assert asked[0] == {"create": "house", "key": "k", "url": None}
    assert asked[1]["model"] == "small"
    with pytest.raises(AttributeError, match="no attribute 'Other'"):
        _ = import_module("outlast.models.gateways.any_llm").Other


@pytest.mark.usefixtures("no_gateway_packages")
def test_without_the_package_the_extra_is_named() -> None:
    with pytest.raises(UserError, match=r"'mistral/large'.*outlast\[any-llm\]"):
        AnyLLMProvider().get_model("mistral/large")
