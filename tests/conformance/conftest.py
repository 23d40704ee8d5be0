"""Each conformance test runs twice: in memory with each of its rows, and on the shared server with one.

The rows of a parametrised test differ in what the loop, the effects and the agents' definitions make
of them, which is the same code on both. What a server adds is the same for all of them.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.client import Client

from tests.conformance.executors import Executor, InMemory, OnServer


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out further rows of a test that runs on the server with a row already."""
    kept, further = list[pytest.Item](), list[pytest.Item]()
    tested: set[str] = set()
    for item in items:
        name = item.nodeid.partition("[")[0]
        (further if _is_on_a_server(item) and name in tested else kept).append(item)
        if _is_on_a_server(item):
            tested.add(name)
    if further:
        config.hook.pytest_deselected(items=further)
        items[:] = kept


def _is_on_a_server(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function) or item.path.parent != Path(__file__).parent:
        return False
    return hasattr(item, "callspec") and item.callspec.params.get("new_executor") == "server"


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
