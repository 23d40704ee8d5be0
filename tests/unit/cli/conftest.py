"""A server in a data directory of the tests' own, workers with scripted models, and the CLI."""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias
from unittest.mock import patch

import pytest
from temporalio.client import Client
from typer.testing import CliRunner, Result

from outlast.agents.agent import Agent
from outlast.agents.tools.function_tool import function_tool
from outlast.cli import terminal
from outlast.cli.app import app
from outlast.contract import names
from outlast.dev import EmbeddedServer, default_data_dir, server_process
from outlast.testing import ScriptedModel, call
from outlast.worker import AgentWorker
from tests.servers import DELETE_SOON, NAMED_ADDRESS, until_searchable

Invoke: TypeAlias = Callable[..., Awaitable[Result]]
Open: TypeAlias = Callable[..., Awaitable[str]]


@function_tool
def look_up(order_id: str) -> str:
    """Look an order up."""
    return f"{order_id} is on its way"


@function_tool(needs_approval=True)
def refund(order_id: str) -> str:
    """Refund an order."""
    return f"{order_id} is refunded"


def helper() -> Agent[Any]:
    """Return an agent with a tool, and one that a person has to approve."""
    return Agent[Any](name="Helper", instructions="Help.", tools=[look_up, refund])


@pytest.fixture(scope="package")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data directory, and no configuration but that."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(("TEMPORAL_", "OPENAI_", "OUTLAST_")):
                patch.delenv(name)
        patch.setenv("TEMPORAL_CONFIG_FILE", os.devnull)
        patch.setenv("OUTLAST_DATA_DIR", str(tmp_path_factory.mktemp("data")))
        yield default_data_dir()


@pytest.fixture(scope="package")
async def server(home: Path) -> AsyncIterator[EmbeddedServer]:
    server = EmbeddedServer(data_dir=home, search_attributes=names.SEARCH_ATTRIBUTES)
    with patch.dict(server_process._DYNAMIC_CONFIG, DELETE_SOON):
        await server.start()
    try:
        yield server
    finally:
        await server.stop()


@pytest.fixture(scope="package")
async def client(server: EmbeddedServer) -> Client:
    if NAMED_ADDRESS is None:
        return await Client.connect(server.address)
    client = await Client.connect(NAMED_ADDRESS)
    await until_searchable(client, names.SEARCH_ATTRIBUTES)
    return client


@pytest.fixture
def nowhere(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine on which no server runs."""
    monkeypatch.setenv("OUTLAST_DATA_DIR", str(tmp_path / "empty"))
    monkeypatch.setattr("outlast.client.transport.connection.DEFAULT_ADDRESS", "127.0.0.1:1")
    return tmp_path


@pytest.fixture
def cli(home: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Run a command line in a thread, so that workers in this process go on meanwhile.

    The person at it says yes to each question.
    """
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(terminal, "is_attended", lambda: True)

    async def invoke(*arguments: str, **options: Any) -> Result:
        options = {"input": "y\n", **options}
        return await asyncio.to_thread(CliRunner().invoke, app, arguments, **options)

    return invoke


@pytest.fixture
def run_id() -> str:
    return f"run-{secrets.token_hex(4)}"


@pytest.fixture
async def open_desk(client: Client) -> AsyncIterator[Open]:
    """Start a worker whose model follows a script; returns its task queue.

    Its agent is `helper()`, or another one.
    """
    async with AsyncExitStack() as stack:

        async def start(model: ScriptedModel, agent: Agent[Any] | None = None) -> str:
            queue = f"queue-{secrets.token_hex(4)}"
            worker = AgentWorker(
                client,
                agents=[agent or helper()],
                task_queue=queue,
                model_provider=model,
                graceful_shutdown_timeout=timedelta(seconds=1),
            )
            await stack.enter_async_context(worker)
            return queue

        yield start


@pytest.fixture
async def open_slow(client: Client) -> AsyncIterator[Callable[[asyncio.Event], Awaitable[str]]]:
    """Start a worker with an agent whose one tool lasts until an event; returns its task queue."""
    async with AsyncExitStack() as stack:

        async def start(gate: asyncio.Event) -> str:
            @function_tool
            async def hold() -> str:
                """Take until the gate opens."""
                await gate.wait()
                return "held"

            queue = f"queue-{secrets.token_hex(4)}"
            model = ScriptedModel([call("hold", "c1")], "Done.")
            agent = Agent[Any](name="Slow", instructions="Hold.", tools=[hold])
            worker = AgentWorker(
                client,
                agents=[agent],
                task_queue=queue,
                model_provider=model,
                graceful_shutdown_timeout=timedelta(seconds=1),
            )
            await stack.enter_async_context(worker)
            return queue

        yield start
