"""What the crash tests share: a server, a model, and the run in which nobody is killed."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
from temporalio.client import Client

from outlast.testing.demo.desk_model import answer
from outlast.testing.demo.responses_server import ResponsesServer
from tests.crash.conversation import ShortTasks
from tests.crash.question import ASKED
from tests.crash.trial import NewTrial, Report, Trial
from tests.servers import TemporalServer

pytest.register_assert_rewrite("tests.crash.verdict")

MODEL_DELAY = timedelta(milliseconds=50)
"""Long enough that a worker killed when its model call has started is killed during it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--every-event",
        action="store_true",
        help="kill the worker at every event of the run instead of a sample of them",
    )


@pytest.fixture(scope="session")
def every_event(pytestconfig: pytest.Config) -> bool:
    return bool(pytestconfig.getoption("--every-event", default=False))


@pytest.fixture(scope="session")
def model_url() -> Iterator[str]:
    """A server whose scripted answers at the desk take a moment."""
    with ResponsesServer(answer, delay=MODEL_DELAY) as model:
        yield model.base_url


@pytest_asyncio.fixture(scope="session")
async def client(server: TemporalServer) -> Client:
    return await server.connect(interceptors=[ShortTasks()])


@pytest.fixture(scope="session")
def new_trial(
    client: Client, server: TemporalServer, model_url: str, tmp_path_factory: pytest.TempPathFactory
) -> NewTrial:
    folder = tmp_path_factory.mktemp("crash")

    def make(**options: Any) -> Trial:
        return Trial(
            client=client, address=server.address, model_url=model_url, folder=folder, **options
        )

    return make


@pytest_asyncio.fixture(scope="session")
async def baseline(new_trial: NewTrial) -> Report:
    """The conversation as it goes when nobody is killed."""
    return await new_trial().hold()


@pytest_asyncio.fixture(scope="session")
async def asked(new_trial: NewTrial) -> Report:
    """The question to the team as it goes when nobody is killed."""
    return await new_trial(talk=ASKED).hold()
