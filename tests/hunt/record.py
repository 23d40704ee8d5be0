"""A plugin of pytest: writes down each file whose tests have ended, and what failed in it."""

import os
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.hunt.rounds import REPORT_VARIABLE, ROUND_VARIABLE, Done, write


class Recorder:
    """What became of the tests of the present file."""

    def __init__(self, report: Path, round_: str) -> None:
        self._report = report
        self._round = round_
        self._failed: list[tuple[str, str]] = []
        self._since = time.monotonic()

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            lines = report.longreprtext.splitlines()
            errors = [line for line in lines if line.startswith("E ")] or lines[-1:] or ["?"]
            self._failed.append((report.nodeid, errors[0].removeprefix("E ").strip()[:200]))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        result = yield  # a test that is interrupted leaves its file for the next time
        if nextitem is None or nextitem.path != item.path:
            now = time.monotonic()
            file = str(item.path.relative_to(item.config.rootpath))
            write(self._report, Done(self._round, file, tuple(self._failed), now - self._since))
            self._failed, self._since = [], now
        return result


def pytest_configure(config: pytest.Config) -> None:
    recorder = Recorder(Path(os.environ[REPORT_VARIABLE]), os.environ[ROUND_VARIABLE])
    config.pluginmanager.register(recorder, "hunt")
