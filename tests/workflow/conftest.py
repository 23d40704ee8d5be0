"""Each workflow test has a desk of its own at the shared server.

After each test, the laws of `laws.py` are checked on every run that it started: the history
replays, among others. Tests marked `replayed` run a second time, with workers that keep no
workflow in memory and replay it for every task.
"""

from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client

from tests.workflow.desk import Desk
from tests.workflow.laws import check_runs, terminate_if_open


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what is marked `replayed` with a cache of workflows and without one."""
    if "cached" in metafunc.fixturenames and metafunc.definition.get_closest_marker("replayed"):
        metafunc.parametrize("cached", [True, False], ids=["cached", "replayed"])


@pytest.fixture
def cached() -> bool:
    """Whether workers keep workflows in memory between tasks."""
    return True


@pytest.fixture
async def desk(client: Client, *, cached: bool) -> AsyncIterator[Desk]:
    """A task queue and a client of the test's own at the shared server.

    What a client is told stays with it, such as its archive.
    """
    desk = Desk(Client(**client.config()), cached=cached)
    yield desk
    try:
        if not desk.serves_workflows:
            await desk.open_workflows()
        await check_runs(client, desk.ids)
    finally:
        for run_id in desk.ids:
            await terminate_if_open(client, run_id)
        await desk.close_all()
