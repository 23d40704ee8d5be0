"""What the crash tests share: a server, a model, and the run in which nobody is killed."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import pytest_asyncio
from temporalio.client import Client

from tests.crash.conversation import ShortTasks
from tests.crash.question import ASKED
from tests.crash.trial import NewTrial, Report, Trial
from tests.servers import TemporalServer

pytest.register_assert_rewrite("tests.crash.verdict")

MODEL_DELAY_MS = 50
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
    """The offline model, in a process of its own, which ends when its standard input does."""
    command = [sys.executable, "-m", "outlast.dev.offline_model", "--until-eof"]
    command += ["--delay-ms", str(MODEL_DELAY_MS)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate()


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
