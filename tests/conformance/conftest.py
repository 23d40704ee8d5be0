"""Each conformance test runs twice: in memory, and on the shared server."""

from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client

from tests.conformance.executors import Executor, InMemory, OnServer


@pytest.fixture(params=["in_memory", "server"])
def new_executor(request: pytest.FixtureRequest) -> Executor:
    """Make an executor; the server is started for those only that need it."""
    if request.param == "in_memory":
        return InMemory()
    client: Client = request.getfixturevalue("client")
    return OnServer(client)


@pytest.fixture
async def executor(new_executor: Executor) -> AsyncIterator[Executor]:
    """Run a test's agents, and check afterwards what has to hold of every run."""
    yield new_executor
    await new_executor.close()
