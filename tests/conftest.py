"""What all tests share: one server per process, and one profile of Hypothesis."""

import os
from collections.abc import AsyncIterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from temporalio.client import Client

    from tests.servers import TemporalServer

os.environ.pop("COLUMNS", None)  # pytest-xdist sets it; a table does not depend on how tests run

# A busy machine is slow at any moment, so examples have no deadline. CI tries the same ones each
# time: a failure there is a change's fault, and comes again here.
settings.register_profile(
    "outlast",
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("outlast")
# For `make lowest`: other versions of packages need no other examples.
settings.register_profile("versions", settings.get_profile("outlast"), max_examples=10)

# Only `make browser` installs what these tests import.
collect_ignore = [] if os.environ.get("OUTLAST_BROWSER") else ["browser"]

UNITS_WITH_SERVERS = {"cli", "demo", "docs", "examples", "visibility"}
"""Folders of `tests/unit` whose fixture `server` is a Temporal server."""


LONGEST_FIRST = ("crash", "clients", "workflow", "unit/cli", "architecture", "conformance")
"""Folders whose files take long. Several processes end at the same time if the last files are short."""

WAIT_FOR_OTHERS = ("crash", "clients", "workflow", "unit/cli")
"""Folders whose tests mostly wait: for processes to start, to be missed when they are killed, for time to pass."""

FIRST_PART = 0.7
"""The part of all files in which those that wait are spread."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as `full` what runs on a server and does not stand for its kind, and set the order."""
    items[:] = _interleaved(sorted(items, key=_turn))
    for item in items:
        if _runs_on_a_server(item) and item.get_closest_marker("smoke") is None:
            item.add_marker(pytest.mark.full)


def _turn(item: pytest.Item) -> int:
    turns = (turn for turn, folder in enumerate(LONGEST_FIRST) if _is_in(folder, item))
    return next(turns, len(LONGEST_FIRST))


def _is_in(folder: str, item: pytest.Item) -> bool:
    place = item.path.relative_to(Path(__file__).parent).as_posix()
    return place.startswith(f"{folder}/")


def _interleaved(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the items with files that wait spread among those that compute.

    Processes take files in this order: while some of them wait, others keep the cores busy. Files
    that wait come in the first part, so that none of them is the last.
    """
    files = [list(tests) for _, tests in groupby(items, key=lambda item: item.path)]
    waits = [any(_is_in(folder, tests[0]) for folder in WAIT_FOR_OTHERS) for tests in files]
    placed: list[tuple[float, list[pytest.Item]]] = []
    for kind in (True, False):
        of_kind = [tests for tests, one in zip(files, waits, strict=True) if one is kind]
        share = FIRST_PART if kind else 1
        placed += [(share * n / len(of_kind), tests) for n, tests in enumerate(of_kind)]
    placed.sort(key=lambda one: one[0])
    return [item for _, tests in placed for item in tests]


def _runs_on_a_server(item: pytest.Item) -> bool:
    assert isinstance(item, pytest.Function)
    folder, *rest = item.path.relative_to(Path(__file__).parent).parts
    if folder == "conformance" and hasattr(item, "callspec"):
        return item.callspec.params.get("new_executor") == "server"
    if folder == "unit" and rest[0] in UNITS_WITH_SERVERS:
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
