"""LiteLLM where it is installed, and else what stands in for it: both send over HTTP."""

from datetime import timedelta

import pytest

from outlast.agents.agent import Agent
from outlast.agents.config.model_settings import ModelSettings
from outlast.agents.errors import UserError
from outlast.loop.values import Usage
from outlast.models import LitellmModel, LitellmProvider
from outlast.ports.model import Model, ModelError, ModelProvider, ModelRequest, ToolSpec
from tests.unit.models.chat_api import CALL, chunks, completion
from tests.unit.models.model_server import ModelServer
from tests.unit.models.streams import collect, collect_until_failure

pytestmark = [
    pytest.mark.usefixtures("litellm_package"),
    # LiteLLM itself does it, with every chunk of a stream.
    pytest.mark.filterwarnings(
        "ignore:Accessing the 'model_(computed_)?fields':DeprecationWarning"
    ),
]

KEY = "sk-test-4711"
ASK = ModelRequest(
    instructions="Be kind.",
    input=[{"role": "user", "content": "hello"}],
    tools=[
        ToolSpec(
            name="look",
            description="",
            parameters={
                "type": "object",
                "properties": {},
                "required": [],
                "additionalProperties": False,
            },
        )
    ],
)


@pytest.fixture
def model(server: ModelServer) -> LitellmModel:
    return LitellmModel("openai/gpt-test", server.base_url, KEY)


async def fail(model: Model, request: ModelRequest = ASK) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await model.get_response(request)
    return caught.value


async def test_an_answer_comes_back_as_responses_items(
    model: LitellmModel, server: ModelServer
) -> None:
    said = {"content": "Let me see.", "tool_calls": [CALL]}
    server.answer(completion(said, "tool_calls"))
    answer = await model.get_response(ASK)
    message, call = answer.output
    assert message["content"][0]["text"] == "Let me see."
    assert (call["type"], call["name"], call["call_id"]) == ("function_call", "look", "call_1")
    assert call["arguments"] == '{"at": 1}'
    assert answer.response_id == "chatcmpl-1"
    assert answer.usage == Usage(
        requests=1, input_tokens=30, output_tokens=7, total_tokens=37, cached_tokens=20
    )
    sent = server.request
    assert (sent.path, sent.headers["authorization"]) == ("/v1/chat/completions", f"Bearer {KEY}")
    assert sent.body["model"] == "gpt-test"
    assert sent.body["messages"][0] == {"role": "system", "content": "Be kind."}
    assert sent.body["tools"][0]["function"]["name"] == "look"


async def test_a_stream_comes_back_as_responses_events(
    model: LitellmModel, server: ModelServer
) -> None:
    server.stream(
        chunks(
            {"role": "assistant", "content": "h"},
            {"content": "i"},
            {"tool_calls": [CALL]},
            finish_reason="tool_calls",
        ),
        done=True,
    )
    events = await collect(model.stream_response(ASK))
    deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    assert deltas == ["h", "i"]
    response = events[-1]["response"]
    assert [item["type"] for item in response["output"]] == ["message", "function_call"]
    assert response["usage"]["total_tokens"] == 37
    assert "stream_options" not in server.request.body


async def test_settings_reach_the_server(model: LitellmModel, server: ModelServer) -> None:
    server.answer(completion({"content": "hi"}))
    settings = ModelSettings(
        temperature=0.5,
        tool_choice="look",
        extra_headers={"x-team": "blue"},
        extra_body={"top_k": 3},
        extra_args={"seed": 7},
        timeout=timedelta(seconds=30),
    )
    await model.get_response(
        ModelRequest(instructions=None, input=ASK.input, tools=ASK.tools, settings=settings)
    )
    sent = server.request
    assert (sent.body["temperature"], sent.body["top_k"], sent.body["seed"]) == (0.5, 3, 7)
    assert sent.body["tool_choice"] == {"type": "function", "function": {"name": "look"}}
    assert sent.headers["x-team"] == "blue"


@pytest.mark.parametrize(
    ("status", "code", "retryable"),
    [
        (400, "invalid_request", False),
        (401, "unauthorized", False),
        (404, "not_found", False),
        (408, "timeout", True),
        (429, "rate_limited", True),
        (500, "server_error", True),
        (503, "overloaded", True),
    ],
)
async def test_a_refusal_has_the_code_of_its_status_and_is_not_retried(
    model: LitellmModel, server: ModelServer, status: int, code: str, retryable: bool
) -> None:
    report = {"error": {"message": f"No, with {KEY}."}}
    server.answer(report, status=status, headers={"retry-after": "7"})
    failure = await fail(model)
    assert (failure.code, failure.retryable, failure.status) == (code, retryable, status)
    assert failure.retry_after == timedelta(seconds=7)
    assert "No, with [API key]." in failure.message
    assert len(server.requests) == 1


async def test_a_refused_key_says_where_the_key_comes_from(
    model: LitellmModel, server: ModelServer
) -> None:
    server.answer({"error": {"message": "Wrong key."}}, status=401)
    failure = await fail(model)
    assert "LitellmModel(api_key=...)" in failure.message
    assert "OPENAI_API_KEY" not in failure.message


async def test_a_server_that_says_nothing_is_a_time_out(
    model: LitellmModel, server: ModelServer
) -> None:
    server.hang()
    settings = ModelSettings(timeout=timedelta(seconds=0.3))
    failure = await fail(model, ModelRequest(instructions=None, input=ASK.input, settings=settings))
    assert (failure.code, failure.retryable) == ("timeout", True)


async def test_a_dropped_connection_may_be_tried_again(
    model: LitellmModel, server: ModelServer
) -> None:
    server.drop()
    assert (await fail(model)).retryable


async def test_a_stream_that_breaks_fails_after_what_was_said(
    model: LitellmModel, server: ModelServer
) -> None:
    first = chunks({"role": "assistant", "content": "h"})[0]
    server.stream([first, {"error": {"message": "Sorry.", "code": 500}}])
    said, failure = await collect_until_failure(model.stream_response(ASK))
    assert said[-1]["delta"] == "h"
    assert failure.retryable
    assert "Sorry." in failure.message


async def test_what_only_responses_can_do_is_refused(model: LitellmModel) -> None:
    failure = await fail(model, ModelRequest(instructions=None, input=[], conversation_id="c"))
    assert (failure.code, failure.retryable) == ("invalid_request", False)
    assert "`conversation_id`" in failure.message


def test_it_is_a_model_for_an_agent() -> None:
    model = LitellmModel(model="anthropic/claude", base_url="http://here", api_key="k")
    assert Agent(name="A", model=model).model is model
    assert (model.model, model.base_url, model.api_key) == ("anthropic/claude", "http://here", "k")


async def test_the_provider_finds_models_by_litellms_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    provider = LitellmProvider()
    assert isinstance(provider, ModelProvider)
    assert provider.get_model("anthropic/claude").model == "anthropic/claude"
    assert provider.get_model("litellm/anthropic/claude").model == "anthropic/claude"
    monkeypatch.setenv("OUTLAST_MODEL", "litellm/groq/llama")
    assert provider.get_model(None).model == "groq/llama"
    await provider.aclose()


@pytest.mark.usefixtures("no_litellm_package")
def test_without_the_package_the_extra_is_named() -> None:
    with pytest.raises(UserError, match=r"'anthropic/claude'.*outlast\[litellm\]"):
        LitellmProvider().get_model("anthropic/claude")
