"""One embedded server for all conformance tests; each test runs on the three executors."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.client import Client

from outlast.contract import names
from outlast.dev import EmbeddedServer
from tests.conformance.executors import Executor, InMemory, OnServer

EXECUTORS = ("in_memory", "server", "replayed")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, since unknown ones are errors."""
    config.addinivalue_line("markers", "row(*numbers): rows of the conformance table")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the SDK warn where a fast tool ends while it is being cancelled; it is harmless."""
    harmless = pytest.mark.filterwarnings("ignore:Cannot find activity to cancel:UserWarning")
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(harmless)


@pytest.fixture(scope="session")
async def conformance_client() -> AsyncIterator[Client]:
    async with EmbeddedServer(ui_port=None, search_attributes=names.SEARCH_ATTRIBUTES) as server:
        yield await Client.connect(server.address)


@pytest.fixture(params=EXECUTORS)
def new_executor(request: pytest.FixtureRequest) -> Executor:
    """Make an executor; the server is started for those only that need it."""
    if request.param == "in_memory":
        return InMemory()
    client: Client = request.getfixturevalue("conformance_client")
    return OnServer(client, cached=request.param == "server")


@pytest.fixture
async def executor(new_executor: Executor) -> AsyncIterator[Executor]:
    yield new_executor
    await new_executor.close()
