"""How programs choose WebSockets for the Responses API."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest
from openai import AsyncOpenAI

from outlast import Agent, ResponsesWebSocketSession, RunConfig, responses_websocket_session
from outlast.agents.errors import UserError
from outlast.models import (
    ChatCompletionsModel,
    MultiProvider,
    OpenAIProvider,
    OpenAIResponsesModel,
    OpenAIResponsesWSModel,
    set_default_openai_api,
    set_default_openai_client,
    set_default_openai_responses_transport,
)
from outlast.models.defaults import defaults
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedResponsesServer
from tests.unit.models.conftest import KEY
from tests.unit.models.model_server import ModelServer
from tests.unit.models.responses_api import message, response

ASK = ModelRequest(instructions=None, input=[{"role": "user", "content": "hello"}])


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = replace(defaults)
    yield
    vars(defaults).update(vars(before))


@pytest.mark.parametrize("how", [{"transport": "websocket"}, {"use_responses_websocket": True}])
async def test_a_provider_calls_over_websocket(how: dict[str, Any]) -> None:
    async with ScriptedResponsesServer("Hi.") as server:
        url = server.websocket_base_url
        provider = OpenAIProvider(KEY, websocket_base_url=url, organization="org-1", **how)
        await provider.get_model("gpt-x").get_response(ASK)
        assert server.received()[0]["model"] == "gpt-x"
        assert server.sockets[0].path == "/v1/responses"
        assert server.sockets[0].headers["authorization"] == f"Bearer {KEY}"
        assert server.sockets[0].headers["openai-organization"] == "org-1"
        await provider.aclose()


async def test_the_environment_names_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ScriptedResponsesServer("Hi.") as server:
        monkeypatch.setenv("OPENAI_WEBSOCKET_BASE_URL", server.websocket_base_url)
        provider = OpenAIProvider(KEY, transport="websocket")
        await provider.get_model(None).get_response(ASK)
        assert len(server.sockets) == 1
        await provider.aclose()


async def test_the_http_address_serves_where_no_other_is_named() -> None:
    async with ScriptedResponsesServer("Hi.") as server:
        base_url = server.websocket_base_url.replace("ws:", "http:")
        provider = OpenAIProvider(base_url=base_url, transport="websocket")  # and no key
        await provider.get_model(None).get_response(ASK)
        assert len(server.sockets) == 1
        await provider.aclose()


async def test_the_default_transport_counts_where_a_provider_names_none(
    server: ModelServer,
) -> None:
    set_default_openai_responses_transport("websocket")
    async with ScriptedResponsesServer("Hi.", "Ho.") as sockets:
        client = AsyncOpenAI(api_key=KEY, websocket_base_url=sockets.websocket_base_url)
        set_default_openai_client(client)
        provider = OpenAIProvider()
        for _ in range(2):
            await provider.get_model("m").get_response(ASK)
        assert len(sockets.sockets) == 1, "models of a default client share its sockets"
        await provider.aclose()
        await client.close()
    over_http = OpenAIProvider(base_url=server.base_url, transport="http")
    server.answer(response(message("hi")))
    await over_http.get_model("m").get_response(ASK)
    await over_http.aclose()
    set_default_openai_api("chat_completions")
    assert isinstance(OpenAIProvider().get_model("m"), ChatCompletionsModel)


async def test_all_models_of_a_provider_share_its_sockets() -> None:
    async with ScriptedResponsesServer(always="Hi.") as server:
        url = server.websocket_base_url
        provider = MultiProvider(
            openai_api_key=KEY,
            openai_websocket_base_url=url,
            openai_use_responses_websocket=True,
            openai_responses_websocket_options={"ping_interval": None, "max_size": 10_000},
        )
        for name in ("a", "openai/b", "a"):
            await provider.get_model(name).get_response(ASK)
        assert [one["model"] for one in server.received()] == ["a", "b", "a"]
        assert len(server.sockets) == 1
        await provider.aclose()
        assert server.sockets[0].is_closed


async def test_a_model_object_has_sockets_of_its_own() -> None:
    async with ScriptedResponsesServer(always="Hi.") as server:
        async with AsyncOpenAI(api_key=KEY, websocket_base_url=server.websocket_base_url) as client:
            model = OpenAIResponsesWSModel("gpt-x", client, websocket_options={"ping_timeout": 5})
            assert isinstance(model, OpenAIResponsesModel)
            assert model.model == "gpt-x"
            await model.get_response(ASK)
            await model.close()
            prompted = replace(ASK, prompt={"id": "pmpt_1"})
            default = OpenAIResponsesWSModel("gpt-x", client, model_is_explicit=False)
            await default.get_response(prompted)
            await default.close()
        assert [one.get("model") for one in server.received()] == ["gpt-x", None]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"transport": "udp"}, "one of 'http', 'websocket'"),
        ({"transport": "websocket", "api": "chat"}, "Chat Completions has no WebSockets"),
        ({"use_responses_websocket": True, "use_responses": False}, "no WebSockets"),
        ({"openai_client": object(), "websocket_base_url": "ws://x"}, "websocket_base_url"),
        (
            {"responses_websocket_options": {"pings": 1}},
            "has no option pings. Its options are ping_interval",
        ),
        ({"responses_websocket_options": {"ping_interval": "x"}}, r"ping_interval=\.\.\.\) must"),
        ({"responses_websocket_options": {"max_size": 0}}, "positive number, or None: 0"),
        ({"responses_websocket_options": {"max_size": True}}, "positive number"),
        ({"responses_websocket_options": [1]}, "is a dict, not"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_at_once(
    arguments: dict[str, Any], says: str
) -> None:
    with pytest.raises(UserError, match=says):
        OpenAIProvider(**arguments)


def test_an_unknown_default_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be 'tcp'"):
        set_default_openai_responses_transport(cast("Any", "tcp"))
    assert defaults.transport == "http"


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing(_: str) -> None:
        pass

    monkeypatch.setattr("outlast.models.openai.responses_websocket.find_spec", find_nothing)
    provider = OpenAIProvider(KEY, transport="websocket")
    with pytest.raises(UserError, match=r'pip install "outlast\[realtime\]"'):
        provider.get_model("m")
    with pytest.raises(UserError, match=r'pip install "outlast\[realtime\]"'):
        OpenAIResponsesWSModel("m", AsyncOpenAI(api_key=KEY))


async def test_a_session_needs_its_own_provider_and_sets_the_configuration() -> None:
    models = MultiProvider()
    with pytest.raises(UserError, match="openai_provider is the provider"):
        ResponsesWebSocketSession(OpenAIProvider(), RunConfig(model_provider=models))
    with pytest.raises(UserError, match="openai_provider is the provider"):
        ResponsesWebSocketSession(OpenAIProvider(), RunConfig())
    as_dict = ResponsesWebSocketSession(models.openai_provider, {"model_provider": models})
    assert as_dict.run_config == RunConfig(model_provider=models)
    await as_dict.aclose()
    async with responses_websocket_session(api_key=KEY, openai_prefix_mode="model_id") as session:
        with pytest.raises(UserError, match=r"\.run\(\) takes no run_config"):
            await session.run(Agent[None](name="A"), "Hi", run_config=RunConfig())
        with pytest.raises(UserError, match=r"run_streamed\(\) takes no run_config"):
            session.run_streamed(Agent[None](name="A"), "Hi", run_config=RunConfig())
