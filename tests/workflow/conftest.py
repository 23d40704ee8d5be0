"""One real server for all workflow tests; each test runs with a workflow cache and without one.

After each test, the laws of `laws.py` are checked on every run that it started.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.client import Client

from outlast.contract import names
from outlast.dev import EmbeddedServer
from tests.workflow.desk import Desk
from tests.workflow.laws import check_run, terminate_if_open


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the SDK warn where a fast tool ends while it is being cancelled; it is harmless."""
    harmless = pytest.mark.filterwarnings("ignore:Cannot find activity to cancel:UserWarning")
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(harmless)


@pytest.fixture(scope="session")
async def server() -> AsyncIterator[EmbeddedServer]:
    async with EmbeddedServer(ui_port=None, search_attributes=names.SEARCH_ATTRIBUTES) as server:
        yield server


@pytest.fixture(scope="session")
async def client(server: EmbeddedServer) -> Client:
    return await Client.connect(server.address)


@pytest.fixture(params=["cached", "replayed"])
async def desk(request: pytest.FixtureRequest, client: Client) -> AsyncIterator[Desk]:
    desk = Desk(client, cached=request.param == "cached")
    yield desk
    try:
        if not desk.serves_workflows:
            await desk.open_workflows()
        for run_id in desk.ids:
            await check_run(client, run_id)
    finally:
        for run_id in desk.ids:
            await terminate_if_open(client, run_id)
        await desk.close_all()
