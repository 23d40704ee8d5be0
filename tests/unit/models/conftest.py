"""One server and one connection to it for all tests of the adapters, and a clean environment."""

import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import cast

import pytest
import pytest_asyncio
from openai import AsyncOpenAI

from outlast.models import (
    ChatCompletionsModel,
    OpenAIConnection,
    ResponsesModel,
    litellm,
)
from outlast.models.openai.socket_connection import SocketConnection
from tests.unit.models.model_server import ModelServer
from tests.unit.models.socket_model_server import SocketModelServer

KEY = "sk-test-4711"

over_both = pytest.mark.parametrize("transport", ["http", "client", "websocket"], indirect=True)
"""Runs a test with each transport of the Responses API."""

over_http = pytest.mark.parametrize("transport", ["http", "client"], indirect=True)
"""Runs a test with the connection's own requests, and with a client that the caller brings."""


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


@pytest_asyncio.fixture(scope="session")
async def of_client(running_server: ModelServer) -> AsyncGenerator[OpenAIConnection]:
    async with AsyncOpenAI(api_key=KEY, base_url=running_server.base_url) as client:
        yield OpenAIConnection(client=client)


@pytest_asyncio.fixture(scope="session")
async def running_sockets() -> AsyncGenerator[SocketModelServer]:
    async with SocketModelServer() as server:
        yield server


@pytest_asyncio.fixture(scope="session")
async def socket_client(running_sockets: SocketModelServer) -> AsyncGenerator[OpenAIConnection]:
    url = running_sockets.websocket_base_url
    connection = OpenAIConnection(api_key=KEY, websocket_base_url=url)
    yield connection
    await connection.aclose()


@pytest_asyncio.fixture
async def sockets(socket_client: OpenAIConnection) -> AsyncGenerator[SocketConnection]:
    sockets = SocketConnection(http=socket_client)
    yield sockets
    await sockets.aclose()


@pytest.fixture
def transport(request: pytest.FixtureRequest) -> str:
    """What carries requests to `server`: `http`, unless a test has other parameters.

    `client` is HTTP, too, through a client of the `openai` package that the caller brings.
    """
    return getattr(request, "param", "http")


@pytest.fixture
def server(
    running_server: ModelServer, running_sockets: SocketModelServer, transport: str
) -> ModelServer:
    running_server.reset()
    running_sockets.reset()
    chosen = running_sockets if transport == "websocket" else running_server
    return cast("ModelServer", chosen)


@pytest.fixture
def socket_server(running_sockets: SocketModelServer) -> SocketModelServer:
    running_sockets.reset()
    return running_sockets


@pytest.fixture
def model(
    connection: OpenAIConnection,
    of_client: OpenAIConnection,
    sockets: SocketConnection,
    transport: str,
) -> ResponsesModel:
    by_transport = {"http": connection, "client": of_client, "websocket": sockets}
    return ResponsesModel("gpt-test", by_transport[transport])


@pytest.fixture
def chat(connection: OpenAIConnection) -> ChatCompletionsModel:
    return ChatCompletionsModel("chat-test", connection)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    models = ("OUTLAST_MODEL", "OPENAI_DEFAULT_MODEL")
    for name in (
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "OPENAI_ADMIN_KEY",
        "OPENAI_WEBSOCKET_BASE_URL",
        *models,
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def litellm_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """LiteLLM where it is installed, and else what stands in for it."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(Path(__file__).parent / "stand_ins")])
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")


@pytest.fixture
def no_litellm_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing(_: str) -> None:
        pass

    monkeypatch.setattr(litellm, "find_spec", find_nothing)
