"""What all tests share: one server per process, and one profile of Hypothesis."""

import os
from collections.abc import AsyncIterator, Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.gate.files import FOLDER_VARIABLE, FileCosts
from tests.wire_rules import watch
from tests.wire_rules.table import RULES

if TYPE_CHECKING:
    from temporalio.client import Client

    from tests.servers import TemporalServer

os.environ.pop("COLUMNS", None)  # pytest-xdist sets it; a table does not depend on how tests run

# Temporal's server is a program in Go. It collects garbage when its heap has grown to five times its size,
# instead of twice, and its threads do not look for work that another one has: with the servers of all
# processes of tests, both would cost a sixth of their CPU. Servers, and what starts some, inherit this.
os.environ.setdefault("GOGC", "400")
os.environ.setdefault("GOMEMLIMIT", "1500MiB")
os.environ.setdefault("GOMAXPROCS", "1")

# A busy machine is slow at any moment, so examples have no deadline. `make test` and CI try the same
# ones each time: a failure there is a change's fault, and comes again. `make laws` tries others, and so
# does whoever asks for more than usual by OUTLAST_LAWS.
settings.register_profile(
    "outlast",
    deadline=None,
    derandomize=float(os.environ.get("OUTLAST_LAWS", "1")) <= 1,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("outlast")
# For `make lowest`: other versions of packages need no other examples.
settings.register_profile("versions", settings.get_profile("outlast"), max_examples=10)

# Only `make browser` installs what these tests import.
collect_ignore = [] if os.environ.get("OUTLAST_BROWSER") else ["browser"]

UNITS_WITH_SERVERS = {"cli", "demo", "docs", "examples", "visibility"}
"""Folders of `tests/unit` whose fixture `server` is a Temporal server."""


def pytest_configure(config: pytest.Config) -> None:
    """Count what each file costs, where `make` measures that."""
    if folder := os.environ.get(FOLDER_VARIABLE):
        config.pluginmanager.register(FileCosts(Path(folder)))
    watch.install()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test whose requests to models break a published rule."""
    watch.WATCH.take()
    result = yield
    broken = watch.WATCH.take()
    allowed = {name for mark in item.iter_markers(watch.MARKER) for name in mark.args}
    assert allowed <= RULES.keys(), f"There are no rules {sorted(allowed - RULES.keys())}"
    unplanned = [fault for fault in broken if fault.split(": ")[1] not in allowed]
    assert not unplanned, "A provider refuses these requests:\n" + "\n".join(unplanned)
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as `full` what is for the night, and what runs on a server and stands for no kind."""
    for item in items:
        stands = item.get_closest_marker("smoke") is not None
        if item.get_closest_marker("nightly") or (_runs_on_a_server(item) and not stands):
            item.add_marker(pytest.mark.full)


def _runs_on_a_server(item: pytest.Item) -> bool:
    assert isinstance(item, pytest.Function)
    folder, *rest = item.path.relative_to(Path(__file__).parent).parts
    if folder == "conformance" and hasattr(item, "callspec"):
        return item.callspec.params.get("new_executor") == "server"
    if folder == "unit" and UNITS_WITH_SERVERS.intersection(rest):
        return "server" in item.fixturenames
    return folder in {"attacks", "workflow"}


@pytest.fixture(scope="session")
async def server() -> "AsyncIterator[TemporalServer]":
    """A server with the search attributes of runs, for every test that needs no other one."""
    # Not imported above: tests of the loop alone take less time than these imports.
    from tests.servers import server_for_tests

    async with server_for_tests() as server:
        yield server


@pytest.fixture(scope="session")
async def client(server: "TemporalServer") -> "Client":
    """A client of that server."""
    return await server.connect()
