"""What each test file costs, recorded by every process of pytest that a measured command starts."""

import json
import os
import time
from collections import defaultdict
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pytest

FOLDER_VARIABLE: Final = "OUTLAST_GATE_FOLDER"


class Cost(NamedTuple):
    """Seconds of the clock, and of CPU."""

    wall: float
    cpu: float


def total(costs: Iterable[Cost]) -> Cost:
    """Return the sum of costs."""
    pairs = list(costs)
    return Cost(sum(one.wall for one in pairs), sum(one.cpu for one in pairs))


def spent_by_now() -> Cost:
    """Return the clock, and the CPU seconds of this process and of its children that have ended."""
    return Cost(time.monotonic(), sum(os.times()[:4]))


def since(before: Cost) -> Cost:
    """Return what was spent since `spent_by_now` was called."""
    now = spent_by_now()
    return Cost(now.wall - before.wall, now.cpu - before.cpu)


class FileCosts:
    """A plugin of pytest: it adds up the import and the tests of each file.

    A fixture counts in the file that sets it up, and a process in the file that waits for its end.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._costs: defaultdict[str, Cost] = defaultdict(lambda: Cost(0, 0))

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        if not isinstance(collector, pytest.Module):
            return (yield)
        with self._counted(collector.nodeid):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        with self._counted(item.nodeid.partition("::")[0]):
            return (yield)

    @pytest.hookimpl
    def pytest_sessionfinish(self) -> None:
        path = self._folder / f"{os.getpid()}.json"
        path.write_text(json.dumps(self._costs))

    @contextmanager
    def _counted(self, file: str) -> Generator[None]:
        before = spent_by_now()
        yield
        self._costs[file] = total([self._costs[file], since(before)])


def costs_in(folder: Path) -> dict[str, Cost]:
    """Return what each file has cost in all processes."""
    costs: defaultdict[str, list[Cost]] = defaultdict(list)
    for path in folder.glob("*.json"):
        for file, (wall, cpu) in json.loads(path.read_text()).items():
            costs[file].append(Cost(wall, cpu))
    return {file: total(found) for file, found in costs.items()}
