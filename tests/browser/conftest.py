"""A real browser before a desk of real processes.

`make browser` installs Debian's Chromium and names it in `OUTLAST_BROWSER`. Without it,
`tests/conftest.py` leaves this folder out. With it, nothing is skipped: a test that cannot run fails.
"""

import os
from collections.abc import AsyncIterator, Generator
from pathlib import Path
from typing import Final

import pytest
from playwright.async_api import Browser, async_playwright, expect

from tests.browser.skipped import fail_instead
from tests.browser.stage import Stage
from tests.browser.window import Windows

expect.set_options(timeout=20_000)  # the machine may be busy; only a failing test waits for it

CHROMIUM: Final = os.environ.get("OUTLAST_BROWSER")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a test that was skipped into one that failed."""
    return fail_instead((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turn a file that was skipped into one that failed."""
    return fail_instead((yield))


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Chromium, without a window."""
    assert CHROMIUM is not None
    async with async_playwright() as playwright:
        # Chromium's own sandbox does not work as root, nor in most containers.
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        await browser.close()


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


@pytest.fixture
async def windows(browser: Browser) -> AsyncIterator[Windows]:
    """Opens windows; fails the test if one of their pages reported an error."""
    windows = Windows(browser)
    yield windows
    await windows.close()
    assert windows.problems == []
