"""The lines of the page on other model servers do what the page says, on a server that records.

Those for LiteLLM are tested with a real proxy, in `tests/litellm_proxy`.
"""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from outlast.models import ChatCompletionsModel, MultiProvider
from outlast.models.defaults import defaults
from outlast.ports.model import ModelProvider
from outlast.testing import run_in_memory, run_in_memory_streamed
from tests.unit.docs.guides import DOCS, blocks
from tests.unit.models.chat_api import chunks, completion
from tests.unit.models.model_server import ModelServer, Received

PAGE = DOCS / "how-to" / "third-party-servers.md"
VARIABLES = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OUTLAST_MODEL", "OPENAI_DEFAULT_MODEL")


@pytest.fixture
async def recorder() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


@pytest.fixture(autouse=True)
def clean_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo what the lines set for the whole process."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name in ("api", "client"):
        monkeypatch.setattr(defaults, name, getattr(defaults, name))


def section(title: str) -> str:
    """Return the part of the page under a heading."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"^## {title}\n(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def defined_in(
    title: str, address: str, server: ModelServer, *, first: int | None = None
) -> dict[str, Any]:
    """Run the (first) Python blocks of a section, each up to an `await`, for this server."""
    names: dict[str, Any] = {}
    parts = re.findall(r"^```py\n(.*?)^```$", section(title), re.MULTILINE | re.DOTALL)
    for block in parts[:first]:
        lines = block.partition("result = await")[0].replace(address, server.base_url)
        exec(compile(lines, "page.py", "exec"), names)
    return names


def export_of(title: str, address: str, server: ModelServer, patch: pytest.MonkeyPatch) -> None:
    """Set the variables that a section exports, for this server."""
    exported = dict(re.findall(r"^export (\w+)=(\S+)$", section(title), re.MULTILINE))
    assert exported["OPENAI_BASE_URL"] == address
    for name, value in {**exported, "OPENAI_BASE_URL": server.base_url}.items():
        patch.setenv(name, value)


async def request_of(agent: Any, provider: ModelProvider, server: ModelServer) -> Received:
    """Run an agent with its model of this provider, and return the request."""
    server.answer(completion({"content": "Hi."}))
    result = await run_in_memory(agent, "Hello", model=provider.get_model(agent.model))
    await provider.aclose()
    assert result.final_output == "Hi."
    assert server.request.path == "/v1/chat/completions"
    return server.request


def test_the_sections_are_those_that_the_page_promises() -> None:
    titles = re.findall(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert titles[:5] == ["LiteLLM proxy", "vLLM", "Ollama", "Azure OpenAI", "OpenRouter"]
    assert len(blocks(PAGE, "py")) == 8


async def test_vllm_gets_the_name_with_a_slash_from_a_worker(
    recorder: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_of("vLLM", "http://localhost:8000/v1", recorder, monkeypatch)
    desk = defined_in("vLLM", "http://localhost:8000/v1", recorder)["desk"]

    request = await request_of(desk, MultiProvider(), recorder)

    assert request.body["model"] == "Qwen/Qwen3-8B"
    assert request.headers["authorization"] == "Bearer token-abc123"


async def test_vllm_gets_the_name_with_a_slash_and_is_asked_for_usage(
    recorder: ModelServer,
) -> None:
    names = defined_in("vLLM", "http://localhost:8000/v1", recorder, first=1)
    desk, provider = names["desk"], names["provider"]
    recorder.stream(chunks({"content": "Hi."}), done=True)

    result = run_in_memory_streamed(desk, "Hello", model=provider.get_model(desk.model))
    async for _ in result.stream_events():
        pass
    await provider.aclose()

    assert result.context_wrapper.usage.input_tokens == 30
    request = recorder.request
    assert (request.path, request.body["model"]) == ("/v1/chat/completions", "Qwen/Qwen3-8B")
    assert request.body["stream_options"] == {"include_usage": True}
    assert request.headers["authorization"] == "Bearer token-abc123"


async def test_ollama_needs_no_key_and_gets_nothing_that_was_not_set(
    recorder: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_of("Ollama", "http://localhost:11434/v1", recorder, monkeypatch)
    desk = defined_in("Ollama", "http://localhost:11434/v1", recorder)["desk"]

    request = await request_of(desk, MultiProvider(), recorder)

    assert request.body.keys() == {"model", "messages"}
    assert request.body["model"] == "qwen3:8b"


def test_azure_gets_chat_completions_from_the_client_in_both_ways(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "azure-key")
    names = defined_in("Azure OpenAI", "nothing to replace", ModelServer())

    for provider in (names["worker_config"]()["model_provider"], MultiProvider()):
        model = provider.get_model(names["desk"].model)
        assert isinstance(model, ChatCompletionsModel)
        target = model._connection.target("/chat/completions", model.name)
        assert target.base_url.lower() == "https://resource.openai.azure.com/openai"


async def test_openrouter_gets_the_wishes_for_its_providers(
    recorder: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-or-1")
    address = "https://openrouter.ai/api/v1"
    config = defined_in("OpenRouter", address, recorder)["worker_config"]()

    request = await request_of(config["agents"][0], config["model_provider"], recorder)

    assert request.body["model"] == "anthropic/claude-sonnet-4.5"
    assert request.body["provider"] == {"require_parameters": True}
    assert request.headers["authorization"] == "Bearer sk-or-1"


def test_openrouter_gets_its_name_from_the_environment(
    recorder: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_of("OpenRouter", "https://openrouter.ai/api/v1", recorder, monkeypatch)
    monkeypatch.setattr(defaults, "api", "chat_completions")

    model = MultiProvider().get_model(None)

    assert isinstance(model, ChatCompletionsModel)
    assert model.name == "anthropic/claude-sonnet-4.5"
