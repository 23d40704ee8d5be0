"""What a program says once of its model provider."""

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest
from openai import AsyncOpenAI

from outlast.models import (
    ChatCompletionsModel,
    OpenAIProvider,
    ResponsesModel,
    get_default_model,
    gpt_5_reasoning_settings_required,
    is_gpt_5_default,
    set_default_openai_api,
    set_default_openai_client,
    set_default_openai_key,
)
from outlast.models.defaults import (
    DEFAULT_MODEL,
    defaults,
    get_default_openai_client,
    get_default_openai_key,
)
from outlast.ports.model import ModelRequest
from tests.unit.models.model_server import ModelServer
from tests.unit.models.responses_api import message, response

ASK = ModelRequest(instructions=None, input=[{"role": "user", "content": "hello"}])


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = replace(defaults)
    yield
    vars(defaults).update(vars(before))


async def test_the_key_goes_before_the_environments(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "OPENAI_API_KEY", "sk-environment")
    provider = OpenAIProvider(base_url=server.base_url)
    set_default_openai_key("sk-said", use_for_tracing=False)
    server.answer(response(message("hi")))
    await provider.get_model("m").get_response(ASK)
    assert server.request.headers["authorization"] == "Bearer sk-said"
    await provider.aclose()


async def test_a_key_that_is_set_later_counts_from_then_on(server: ModelServer) -> None:
    provider = OpenAIProvider(base_url=server.base_url)
    for key in ("sk-first", "sk-second", "sk-first"):
        set_default_openai_key(key)
        server.answer(response(message("hi")))
        await provider.get_model("m").get_response(ASK)
        assert server.requests[-1].headers["authorization"] == f"Bearer {key}"
    await provider.aclose()


async def test_the_client_is_used_by_providers_that_have_none(server: ModelServer) -> None:
    provider = OpenAIProvider()
    async with AsyncOpenAI(base_url=server.base_url, api_key="sk-own") as client:
        set_default_openai_client(client)
        server.answer(response(message("hi")))
        await provider.get_model("m").get_response(ASK)
    assert server.request.headers["authorization"] == "Bearer sk-own"


async def test_a_provider_with_an_address_goes_there(server: ModelServer) -> None:
    async with AsyncOpenAI(base_url="http://127.0.0.1:1", api_key="sk-own") as client:
        set_default_openai_client(client)
        provider = OpenAIProvider("sk-given", server.base_url)
        server.answer(response(message("hi")))
        await provider.get_model("m").get_response(ASK)
        await provider.aclose()
    assert server.request.headers["authorization"] == "Bearer sk-given"


def test_the_api_is_that_of_providers_that_are_not_told_one() -> None:
    set_default_openai_api("chat_completions")
    assert isinstance(OpenAIProvider().get_model("m"), ChatCompletionsModel)
    assert isinstance(OpenAIProvider(api="responses").get_model("m"), ResponsesModel)
    assert isinstance(OpenAIProvider(use_responses=True).get_model("m"), ResponsesModel)
    set_default_openai_api("responses")
    assert isinstance(OpenAIProvider().get_model("m"), ResponsesModel)
    assert isinstance(OpenAIProvider(use_responses=False).get_model("m"), ChatCompletionsModel)


def test_an_unknown_api_is_told_at_once() -> None:
    with pytest.raises(ValueError, match="one of 'responses', 'chat_completions'"):
        set_default_openai_api(cast("Any", "chat"))


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (None, None, DEFAULT_MODEL),
        ("", "", DEFAULT_MODEL),
        (None, "gpt-t", "gpt-t"),
        ("gpt-o", "gpt-t", "gpt-o"),
        ("", "gpt-t", "gpt-t"),
    ],
)
def test_the_environment_names_the_model_in_either_of_two_variables(
    monkeypatch: pytest.MonkeyPatch, ours: str | None, theirs: str | None, expected: str
) -> None:
    for variable, name in [("OUTLAST_MODEL", ours), ("OPENAI_DEFAULT_MODEL", theirs)]:
        if name is not None:
            monkeypatch.setenv(variable, name)
    assert get_default_model() == expected
    assert OpenAIProvider().get_model(None).name == expected


@pytest.mark.parametrize(
    ("name", "reasons"),
    [("gpt-5", True), ("gpt-5.4-mini", True), ("gpt-5-chat-latest", False), ("gpt-4.1", False)],
)
def test_a_program_can_ask_whether_the_default_is_a_gpt_5_that_reasons(
    monkeypatch: pytest.MonkeyPatch, name: str, reasons: bool
) -> None:
    monkeypatch.setenv("OPENAI_DEFAULT_MODEL", name)
    assert is_gpt_5_default() is reasons
    assert gpt_5_reasoning_settings_required(name) is reasons


def test_what_was_set_can_be_read() -> None:
    client = AsyncOpenAI(api_key="sk-own")
    assert (get_default_openai_key(), get_default_openai_client()) == (None, None)
    set_default_openai_key("sk-said")
    set_default_openai_client(client)
    assert get_default_openai_key() == "sk-said"
    assert get_default_openai_client() is client
