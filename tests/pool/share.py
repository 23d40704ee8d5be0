"""One process of the pool: it takes files of tests from those that no process has taken yet.

Every process lists the files, in the same order and without importing them. It imports and collects
only the files that it takes. With pytest-xdist, each process would collect all of them.
"""

import fcntl
import gc
import json
import os
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, TypeVar

import pytest

from tests.pool.order import longest_first, waits

FOLDER_VARIABLE: Final = "OUTLAST_TESTS_POOL"
NUMBER_VARIABLE: Final = "OUTLAST_TESTS_PROCESS"
KIND_VARIABLE: Final = "OUTLAST_TESTS_KIND"
PROGRESS_VARIABLE: Final = "OUTLAST_TESTS_PROGRESS"
SEED_VARIABLE: Final = "OUTLAST_TESTS_SEED"
"""Set for a random order: the same for the same seed, in every process."""

YOUNG: Final = 20_000
"""How many new objects start a garbage collection: Python's 700 cost the tests 3 % more CPU."""

One = TypeVar("One")


class TestFile(pytest.Module):
    """A file whose tests are collected when this process takes it."""

    __test__ = False
    taken = False

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        return super().collect() if self.taken else []


class BetweenFiles(pytest.Item):
    """A stand-in for the next test, so that pytest ends the fixtures of a file and keeps the session's."""

    def runtest(self) -> None:
        raise NotImplementedError


class Share:
    """The files that this process takes, and what became of their tests."""

    def __init__(
        self, folder: Path, number: int, kind: str, progress: int, seed: str | None = None
    ) -> None:
        self._folder = folder
        self._number = number
        self._kind = kind
        self._progress = progress
        self._seed = seed
        self._parent = os.getppid()
        self._files: list[TestFile] = []

    @pytest.hookimpl
    def pytest_pycollect_makemodule(
        self, module_path: Path, parent: pytest.Collector
    ) -> pytest.Module:
        return TestFile.from_parent(parent, path=module_path)  # pyright: ignore[reportUnknownMemberType]  pytest leaves it without types

    @pytest.hookimpl
    def pytest_collectstart(self, collector: pytest.Collector) -> None:
        if isinstance(collector, TestFile) and not collector.taken:
            self._files.append(collector)

    @pytest.hookimpl
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        between = BetweenFiles.from_parent(session, name="between")  # pyright: ignore[reportUnknownMemberType]
        collected = 0
        for file in self._take():
            failed = session.testsfailed
            tests = self._mixed(_collect(session, file), file.nodeid)
            collected += len(tests)
            for test, following in zip(tests, [*tests, between][1:], strict=True):
                test.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)
                if session.shouldstop:
                    raise session.Interrupted(session.shouldstop)
            os.write(self._progress, b"." if session.testsfailed == failed else b"F")
            gc.collect(1)  # what a file leaves behind is no matter of the next one's tests
        session.testscollected = collected
        gc.collect()
        gc.freeze()  # pytest collects five times more at its end, each time all that was imported
        return True

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:  # for when this process does not come to its end
            with (self._folder / f"{self._number}.failures").open("a") as failures:
                print(f"FAILED {report.nodeid}\n{report.longreprtext}", file=failures)

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        counts = {
            category: sum(getattr(report, "count_towards_summary", True) for report in reports)
            for category, reports in terminalreporter.stats.items()
            if category
        }
        (self._folder / f"{self._number}.counts").write_text(json.dumps(counts))

    def _take(self) -> Iterator[TestFile]:
        """Yield the test files for this process, each of which no other process has taken.

        It ends when all files are taken, or when the process that reads the results has gone.

        A process for tests that wait begins with them, and takes others once nobody has to wait: a core
        that nobody uses then costs more than two tests that share one.
        """
        files = self._mixed(longest_first(self._files), "files")
        (self._folder / f"{self._number}.listed").write_text("\n".join(one.nodeid for one in files))
        waiting = [file for file in files if waits(file)]
        computing = [file for file in files if not waits(file)]
        queues = {"computing": computing, "waiting": waiting}
        if self._kind == "waiting":
            queues = {"waiting": waiting, "computing": computing}
        with (self._folder / f"{self._number}.files").open("w", buffering=1) as taken:
            for name, queue in queues.items():
                while os.getppid() == self._parent and (turn := self._next_turn(name)) < len(queue):
                    print(queue[turn].nodeid, file=taken)
                    yield queue[turn]

    def _mixed(self, ones: list[One], what: str) -> list[One]:
        """Return files or tests in the order that the seed says; as they are without one."""
        if self._seed is None:
            return ones
        return random.Random(f"{self._seed} {what}").sample(ones, len(ones))

    def _next_turn(self, queue: str) -> int:
        with (self._folder / f"{queue}.turns").open("a+") as turns:
            fcntl.flock(turns, fcntl.LOCK_EX)
            # Another process may have taken a turn since the file was opened.
            turn = turns.seek(0, os.SEEK_END)
            turns.write(".")
            return turn


def _collect(session: pytest.Session, file: TestFile) -> list[pytest.Item]:
    """Import a file, and return those of its tests that are to run."""
    file.taken = True
    # Thousands of objects are made here and none becomes garbage.
    gc.disable()
    try:
        session.items = list(session.genitems(file))
        session.config.hook.pytest_collection_modifyitems(
            session=session, config=session.config, items=session.items
        )
    finally:
        gc.enable()
    return session.items


def pytest_configure(config: pytest.Config) -> None:
    names = FOLDER_VARIABLE, NUMBER_VARIABLE, KIND_VARIABLE, PROGRESS_VARIABLE
    folder, number, kind, progress = (os.environ.pop(name) for name in names)
    seed = os.environ.pop(SEED_VARIABLE, None)
    share = Share(Path(folder), int(number), kind, int(progress), seed)
    config.pluginmanager.register(share, "share")
    gc.set_threshold(YOUNG)
