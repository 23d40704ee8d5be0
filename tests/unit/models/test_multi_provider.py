import subprocess
import sys
from typing import Any, cast

import pytest

from outlast.agents.errors import UserError
from outlast.models import (
    ChatCompletionsModel,
    LitellmModel,
    MultiProvider,
    MultiProviderMap,
    ResponsesModel,
)
from outlast.models.defaults import DEFAULT_MODEL
from outlast.ports.model import Model, ModelProvider, ModelRequest
from outlast.testing.scripted_model import ScriptedModel
from tests.unit.models.model_server import ModelServer

ASK = ModelRequest(instructions=None, input=[{"role": "user", "content": "hello"}])


class Closing(ScriptedModel):
    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.asked: list[str | None] = []
        self.closed = 0
        self.error = error

    def get_model(self, name: str | None = None) -> Model:
        self.asked.append(name)
        return super().get_model(name)

    async def aclose(self) -> None:
        self.closed += 1
        if self.error is not None:
            raise self.error


def mapped(**providers: ModelProvider) -> MultiProviderMap:
    mapping = MultiProviderMap()
    for prefix, provider in providers.items():
        mapping.add_provider(prefix, provider)
    return mapping


def name_of(model: object) -> str:
    assert isinstance(model, ResponsesModel | ChatCompletionsModel)
    return model.name


def test_it_is_a_model_provider() -> None:
    assert isinstance(MultiProvider(), ModelProvider)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gpt-x", "gpt-x"),
        ("openai/gpt-x", "gpt-x"),
        ("openai/openai/gpt-oss", "openai/gpt-oss"),
        ("openai/meta/llama", "meta/llama"),
        ("", DEFAULT_MODEL),
        (None, DEFAULT_MODEL),
    ],
)
def test_openai_has_what_has_its_prefix_or_none(name: str | None, expected: str) -> None:
    model = MultiProvider().get_model(name)
    assert isinstance(model, ResponsesModel)
    assert model.name == expected


@pytest.mark.usefixtures("litellm_package")
def test_litellm_has_what_has_its_prefix() -> None:
    provider = MultiProvider()
    claude = provider.get_model("litellm/anthropic/claude")
    assert isinstance(claude, LitellmModel)
    assert claude.model == "anthropic/claude"


@pytest.mark.usefixtures("no_litellm_package")
def test_litellm_names_its_extra_where_it_is_not_installed() -> None:
    with pytest.raises(UserError, match=r"'x/m'.*outlast\[litellm\]"):
        MultiProvider().get_model("litellm/x/m")


@pytest.mark.parametrize("prefix", ["house", "openai", "litellm"])
def test_a_provider_of_ones_own_comes_first(prefix: str) -> None:
    house = Closing()
    model = MultiProvider(provider_map=mapped(**{prefix: house})).get_model(f"{prefix}/a/b")
    assert model is house
    assert house.asked == ["a/b"]


def test_an_unknown_prefix_is_refused_with_the_ways_out() -> None:
    provider = MultiProvider(provider_map=mapped(house=Closing()))
    with pytest.raises(UserError) as caught:
        provider.get_model("meta/llama")
    words = str(caught.value)
    assert "Unknown prefix: meta, of the model 'meta/llama'" in words
    assert "house/, openai/, litellm/." in words
    assert "'openai/meta/llama'" in words
    assert "unknown_prefix_mode='model_id'" in words


async def test_a_prefix_can_belong_to_the_name_of_the_model(server: ModelServer) -> None:
    provider = MultiProvider(
        openai_base_url=server.base_url,
        openai_api_key="sk-own",
        openai_use_responses=False,
        openai_organization="org-a",
        openai_project="proj-b",
        openai_prefix_mode="model_id",
        unknown_prefix_mode="model_id",
    )
    for name in ("openai/gpt-oss", "meta/llama"):
        server.answer({"choices": [{"message": {"role": "assistant", "content": "hi"}}]})
        await provider.get_model(name).get_response(ASK)
    await provider.aclose()
    assert [request.body["model"] for request in server.requests] == [
        "openai/gpt-oss",
        "meta/llama",
    ]
    headers = server.requests[0].headers
    assert headers["authorization"] == "Bearer sk-own"
    assert (headers["openai-organization"], headers["openai-project"]) == ("org-a", "proj-b")


@pytest.mark.parametrize("option", ["openai_prefix_mode", "unknown_prefix_mode"])
def test_an_unknown_mode_is_told_at_once(option: str) -> None:
    with pytest.raises(UserError, match=rf"{option}=\.\.\.\) must be .*not 'maybe'"):
        MultiProvider(**cast("Any", {option: "maybe"}))


def test_the_environments_model_may_have_a_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    house = Closing()
    provider = MultiProvider(provider_map=mapped(house=house))
    monkeypatch.setenv("OUTLAST_MODEL", "house/a/b")
    assert provider.get_model(None) is house
    assert house.asked == ["a/b"]
    for name, expected in [("gpt-x", "gpt-x"), ("openai/gpt-x", "gpt-x"), ("meta/l", "meta/l")]:
        monkeypatch.setenv("OUTLAST_MODEL", name)
        assert name_of(provider.get_model(None)) == expected


async def test_closing_it_closes_every_provider_once(monkeypatch: pytest.MonkeyPatch) -> None:
    house, broken = Closing(), Closing(error=RuntimeError("no"))
    provider = MultiProvider(provider_map=mapped(a=broken, b=house, c=house))
    assert provider.provider_map is not None
    provider.provider_map.add_provider("self", provider)
    closed: list[bool] = []

    async def close() -> None:
        closed.append(True)

    monkeypatch.setattr(provider.openai_provider, "aclose", close)
    with pytest.raises(RuntimeError, match="no"):
        await provider.aclose()
    assert (broken.closed, house.closed, closed) == (1, 1, [True])


def test_the_map_keeps_providers_by_prefix() -> None:
    first, second = Closing(), Closing()
    mapping = mapped(a=first)
    copy = mapping.get_mapping()
    mapping.add_provider("b", second)
    assert (mapping.has_prefix("b"), mapping.get_provider("b")) == (True, second)
    assert copy == {"a": first}
    mapping.remove_provider("a")
    assert (mapping.has_prefix("a"), mapping.get_provider("a")) == (False, None)
    with pytest.raises(KeyError):
        mapping.remove_provider("a")
    mapping.set_mapping({"c": first})
    assert mapping.get_mapping() == {"c": first}


def test_making_one_imports_no_package_of_a_provider() -> None:
    program = (
        "import sys; from outlast.models import MultiProvider;"
        "MultiProvider().get_model('openai/m');"
        "print({'openai', 'httpx2', 'litellm'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"
