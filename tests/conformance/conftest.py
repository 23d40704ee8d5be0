"""Each conformance test runs in memory; one for each row of the table also runs on the shared server.

What a row of the table promises is made by the loop, the effects and the agents' definitions, which
are the same code on both. So the first test of a file for a row stands for it on the server, with the
first of its own parameters, and so does each test that is marked `also_on_server`, because a process,
an attempt or a reader takes part there. Files that name no rows run whole.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.client import Client

from tests.conformance.executors import Executor, InMemory, OnServer


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests on the server whose rows another test of their file stands for."""
    kept, left_out = list[pytest.Item](), list[pytest.Item]()
    tested: set[tuple[Path, object]] = set()
    for item in items:
        if not _is_on_a_server(item):
            kept.append(item)
            continue
        new = {(item.path, one) for one in _stands_for(item)} - tested
        (kept if new else left_out).append(item)
        tested |= new
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def _stands_for(item: pytest.Item) -> set[object]:
    """Return the rows of a test, or the test itself where it is to run whatever its rows are."""
    rows = item.get_closest_marker("row")
    if rows is None or any(item.get_closest_marker(one) for one in ("also_on_server", "smoke")):
        return {item.nodeid.partition("[")[0]}
    return set(rows.args)


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
