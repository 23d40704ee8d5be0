"""One server and one connection to it for all tests of the adapters, and a clean environment."""

import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio

from outlast.models import (
    ChatCompletionsModel,
    OpenAIConnection,
    ResponsesModel,
)
from outlast.models.gateways import connection as package_connection
from tests.unit.models.model_server import ModelServer

KEY = "sk-test-4711"


@pytest_asyncio.fixture(scope="session")
async def running_server() -> AsyncGenerator[ModelServer]:
    async with ModelServer() as server:
        yield server


@pytest_asyncio.fixture(scope="session")
async def connection(running_server: ModelServer) -> AsyncGenerator[OpenAIConnection]:
    # Shared, because opening a client reads the system's certificates each time.
    connection = OpenAIConnection(api_key=KEY, base_url=running_server.base_url)
    yield connection
    await connection.aclose()


@pytest.fixture
def server(running_server: ModelServer) -> ModelServer:
    running_server.reset()
    return running_server


@pytest.fixture
def model(connection: OpenAIConnection) -> ResponsesModel:
    return ResponsesModel("gpt-test", connection)


@pytest.fixture
def chat(connection: OpenAIConnection) -> ChatCompletionsModel:
    return ChatCompletionsModel("chat-test", connection)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    models = ("OUTLAST_MODEL", "OPENAI_DEFAULT_MODEL")
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ADMIN_KEY", *models):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def gateway_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """LiteLLM and any-llm where they are installed, and else what stands in for them."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(Path(__file__).parent / "stand_ins")])
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")


@pytest.fixture
def no_gateway_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing(_: str) -> None:
        pass

    monkeypatch.setattr(package_connection, "find_spec", find_nothing)
