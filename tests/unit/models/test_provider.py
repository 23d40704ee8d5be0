"""Models behind a client of the caller's own."""

import subprocess
import sys
from typing import Any, Literal, cast

import openai
import pytest

from outlast import AsyncOpenAI
from outlast.agents.agent import Agent
from outlast.agents.errors import UserError
from outlast.loop.values import JsonObject
from outlast.models import (
    DEFAULT_MODEL,
    OpenAIChatCompletionsModel,
    OpenAIConnection,
    OpenAIProvider,
    OpenAIResponsesModel,
    OpenAIResponsesWSModel,
    ResponsesModel,
)
from outlast.models.multi_provider import MultiProvider
from outlast.ports.model import ModelError, ModelProvider, ModelRequest
from tests.unit.models.chat_api import completion
from tests.unit.models.model_server import ModelServer
from tests.unit.models.responses_api import message, response

ASK = ModelRequest(instructions=None, input=[{"role": "user", "content": "hello"}])


def test_it_is_a_model_provider() -> None:
    assert isinstance(OpenAIProvider(), ModelProvider)


def test_it_speaks_the_responses_api_unless_told_otherwise() -> None:
    assert type(OpenAIProvider().get_model("m")) is OpenAIResponsesModel
    assert type(OpenAIProvider(api="responses").get_model("m")) is OpenAIResponsesModel
    assert type(OpenAIProvider(api="chat").get_model("m")) is OpenAIChatCompletionsModel
    over_socket = OpenAIProvider(transport="websocket").get_model("m")
    assert (type(over_socket), over_socket.model) == (OpenAIResponsesWSModel, "m")


def test_an_unknown_api_is_told_at_once() -> None:
    with pytest.raises(UserError, match="one of 'responses', 'chat'"):
        OpenAIProvider(api=cast("Any", "completions"))


@pytest.mark.parametrize(
    ("name", "default", "environment", "expected"),
    [
        ("gpt-x", "gpt-d", "gpt-e", "gpt-x"),
        ("openai/gpt-x", None, None, "gpt-x"),
        ("meta/llama", None, None, "meta/llama"),
        ("openai/openai/gpt-x", None, None, "openai/gpt-x"),
        (None, "gpt-d", "gpt-e", "gpt-d"),
        (None, "openai/gpt-d", None, "gpt-d"),
        (None, None, "gpt-e", "gpt-e"),
        (None, None, "", DEFAULT_MODEL),
        ("", None, None, DEFAULT_MODEL),
        (None, None, None, DEFAULT_MODEL),
    ],
)
def test_the_name_beats_the_default_beats_the_environment(
    monkeypatch: pytest.MonkeyPatch,
    name: str | None,
    default: str | None,
    environment: str | None,
    expected: str,
) -> None:
    if environment is not None:
        monkeypatch.setenv("OUTLAST_MODEL", environment)
    assert OpenAIProvider(default_model=default).get_model(name).name == expected


async def test_only_the_call_finds_that_the_key_is_missing() -> None:
    provider = OpenAIProvider()
    model = provider.get_model(None)
    with pytest.raises(ModelError) as caught:
        await model.get_response(ASK)
    assert caught.value.code == "no_api_key"
    await provider.aclose()


async def test_all_its_models_share_one_connection(server: ModelServer) -> None:
    provider = OpenAIProvider(base_url=server.base_url)
    for name in ("a", "b"):
        server.answer(response(message("hi")))
        await provider.get_model(name).get_response(ASK)
    await provider.aclose()
    assert [request.body["model"] for request in server.requests] == ["a", "b"]
    assert server.connections == 1


async def test_a_default_model_leaves_the_choice_to_a_prompt(server: ModelServer) -> None:
    provider = OpenAIProvider(base_url=server.base_url)
    request = ModelRequest(instructions=None, input=[], prompt={"id": "pmpt_1"})
    for name in (None, "a"):
        server.answer(response(message("hi")))
        await provider.get_model(name).get_response(request)
    await provider.aclose()
    assert ["model" in request.body for request in server.requests] == [False, True]


@pytest.mark.parametrize("what", ["api_key", "base_url", "organization", "project"])
async def test_a_client_comes_instead_of_what_one_is_made_of(what: str) -> None:
    client = AsyncOpenAI(api_key="sk-own", base_url="http://127.0.0.1:9/v1")
    with pytest.raises(UserError, match="openai_client="):
        OpenAIProvider(**cast("Any", {what: "http://127.0.0.1", "openai_client": client}))
    with pytest.raises(UserError, match="openai_client="):
        MultiProvider(
            **cast("Any", {f"openai_{what}": "http://127.0.0.1", "openai_client": client})
        )
    await client.close()


def test_importing_the_models_does_not_import_the_client_package() -> None:
    program = (
        "import sys; from outlast.models import OpenAIProvider;"
        "OpenAIProvider().get_model(None);"
        "print({'openai', 'httpx2'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"


def test_a_connection_does_not_show_its_key() -> None:
    connection = OpenAIConnection(api_key="sk-test-hush")
    assert "hush" not in repr(connection)
    assert "hush" not in repr(connection._access())


def test_the_name_of_a_model_may_be_said_by_keyword() -> None:
    assert OpenAIProvider().get_model(model_name="openai/m").name == "m"
    assert isinstance(MultiProvider().get_model(model_name="m"), ResponsesModel)


@pytest.mark.parametrize(
    ("kind", "path", "answer"),
    [
        (OpenAIResponsesModel, "/v1/responses", response(message("hi"))),
        (
            OpenAIChatCompletionsModel,
            "/v1/chat/completions",
            {"choices": [{"message": {"role": "assistant", "content": "hi"}}]},
        ),
    ],
)
async def test_it_asks_through_the_client_that_it_is_given(
    server: ModelServer,
    kind: type[OpenAIResponsesModel | OpenAIChatCompletionsModel],
    path: str,
    answer: object,
) -> None:
    async with AsyncOpenAI(base_url=server.base_url, api_key="sk-own") as client:
        model = kind(model="gpt-x", openai_client=client)
        assert Agent(name="A", model=model).model.model == "gpt-x"
        server.answer(answer)
        await model.get_response(ASK)
    assert (server.request.path, server.request.body["model"]) == (path, "gpt-x")
    assert server.request.headers["authorization"] == "Bearer sk-own"


def test_it_is_the_packages_own() -> None:
    assert AsyncOpenAI is openai.AsyncOpenAI
    client = AsyncOpenAI(api_key="k", base_url="http://127.0.0.1:9/v1")
    assert OpenAIChatCompletionsModel("m", openai_client=client).name == "m"


@pytest.mark.parametrize(
    ("api", "answer", "path"),
    [
        ("chat", completion({"content": "Hi."}), "/openai/deployments/desk/chat/completions"),
        ("responses", response(message("Hi.")), "/openai/responses"),
    ],
)
async def test_a_client_of_azure_calls_the_deployment_that_the_model_names(
    server: ModelServer, api: Literal["chat", "responses"], answer: JsonObject, path: str
) -> None:
    client = openai.AsyncAzureOpenAI(
        azure_endpoint=server.base_url.removesuffix("/v1"),
        api_key="azure-key",
        api_version="2025-04-01-preview",
    )
    model = OpenAIProvider(openai_client=client, api=api).get_model("desk")
    server.answer(answer)
    server.answer({"data": []})

    assert (await model.get_response(ASK)).output[0]["content"][0]["text"] == "Hi."
    await model.check_access()

    call, check = server.requests
    assert (call.path, check.path) == (path, "/openai/models")
    for one in server.requests:
        assert one.query == {"api-version": ["2025-04-01-preview"]}
        assert one.headers["api-key"] == "azure-key"
        assert "authorization" not in one.headers
    assert call.body["model"] == "desk"
    await client.close()


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (401, ["refused the API key. Check the api_key of your client,"]),
        (404, ["Check the name of the model and the base_url of your client.", 'api="chat"']),
    ],
)
async def test_a_refusal_names_the_settings_of_the_callers_client(
    server: ModelServer, status: int, says: list[str]
) -> None:
    client = AsyncOpenAI(api_key="k", base_url=server.base_url)
    server.answer({"error": {"message": "No."}}, status=status)

    with pytest.raises(ModelError) as caught:
        await OpenAIProvider(openai_client=client).get_model("m").get_response(ASK)

    assert all(one in caught.value.message for one in says)
    assert "OPENAI_" not in caught.value.message
    await client.close()
