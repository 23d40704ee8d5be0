"""The real clients of the wires, before a desk of real processes.

`make clients` installs those from npm. Without them or without Node, their tests are skipped.
"""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from tests.browser.stage import Stage
from tests.clients.front_end import FrontEnd

HERE: Final = Path(__file__).parent


def why_not() -> str:
    """Return why the clients cannot run; empty if they can."""
    if shutil.which("node") is None:
        return "Node is not installed"
    if not (HERE / "node_modules").is_dir():
        return "the npm clients are not installed: make clients"
    return ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of clients as slow, and skip those that need Node where it is not there."""
    reason = why_not()
    for item in items:
        if not item.path.is_relative_to(HERE):
            continue
        item.add_marker(pytest.mark.full)
        if reason and {"front_end", "node"} & {*getattr(item, "fixturenames", ())}:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """The processes of the tests that kill none of them."""
    async with Stage(tmp_path_factory.mktemp("stage")) as stage:
        yield stage


@pytest.fixture
async def killed_stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """Processes of one test, which kills them."""
    async with Stage(tmp_path) as stage:
        yield stage


@pytest.fixture(scope="module")
async def node_of_ag_ui() -> AsyncIterator[FrontEnd]:
    """A Node process with the real clients of AG-UI and CopilotKit."""
    async with FrontEnd("ag_ui.mjs") as front_end:
        yield front_end


@pytest.fixture
async def front_end(node_of_ag_ui: FrontEnd) -> AsyncIterator[FrontEnd]:
    """That process, without what other tests have opened."""
    async with node_of_ag_ui.one_test() as front_end:
        yield front_end
        # The client lets the error of a broken connection fall, beside raising it.
        assert [one for one in front_end.unhandled if "terminated" not in one] == []
