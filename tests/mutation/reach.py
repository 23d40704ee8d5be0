"""Which tests reach which functions: recorded once for each file of tests, then read.

As a plugin of pytest (`-p reach`) it records: for each file of tests, the seconds of each test that
passed and the functions of the package that it called, in any thread.
"""

import json
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType

import pytest

FOLDER_VARIABLE = "OUTLAST_REACHED"
"""Names the folder that recordings are written to."""

ON_SERVER = ("full", "smoke")
"""The marks of tests on a server, which `tests/conftest.py` gives: the dear ones."""

MOST_ON_SERVER = 20
MOST_SECONDS = 20
"""How many tests on a server, and how many recorded seconds of all, a change may cost."""


@dataclass(frozen=True)
class Reaching:
    """A test that reaches a function.

    Attributes:
        test: pytest's name of it.
        seconds: how long it took.
        on_server: whether it is one of the dear ones.
        functions: how many functions it reaches.
    """

    test: str
    seconds: float
    on_server: bool
    functions: int


class Recordings:
    """What was recorded of some files of tests."""

    def __init__(self, folder: Path, files: Iterable[str]) -> None:
        self._reaching: dict[str, list[Reaching]] = defaultdict(list)
        self.missing: list[str] = []
        for file in files:
            path = recording_of(folder, file)
            if path.exists():
                self._read(json.loads(path.read_text(encoding="utf-8")))
            else:
                self.missing.append(file)

    def _read(self, kept: dict[str, dict[str, list[float]]]) -> None:
        counts: dict[int, int] = defaultdict(int)
        for numbers in kept["functions"].values():
            for number in numbers:
                counts[int(number)] += 1
        tests = [
            Reaching(test, seconds, bool(on_server), counts[number])
            for number, (test, (seconds, on_server)) in enumerate(kept["tests"].items())
        ]
        for function, numbers in kept["functions"].items():
            self._reaching[function] += [tests[int(number)] for number in numbers]

    def reaching(self, module: str, function: str) -> list[Reaching]:
        """Return the tests that reach a function."""
        return self._reaching[f"{module}:{function}"]


def recording_of(folder: Path, file: str) -> Path:
    """Return where the recording of a file of tests is."""
    return folder / (file.replace("/", "+") + ".json")


def chosen(reaching: Sequence[Reaching], module: str, without: Iterable[str] = ()) -> list[str]:
    """Return the tests that are tried on a change: near ones first, those on a server last.

    Near are files that are named as the module is, then tests that reach little else.
    """
    near = f"test_{Path(module).stem.strip('_')}.py::"
    ranked = sorted(reaching, key=lambda it: (near not in it.test, it.functions, it.test))
    tests: list[str] = []
    for on_server, most in ((False, len(ranked)), (True, MOST_ON_SERVER)):
        left = MOST_SECONDS
        mine = [it for it in ranked if it.on_server == on_server and it.test not in without]
        for it in mine[:most]:
            if it.seconds <= left:
                left -= it.seconds
                tests.append(it.test)
    return tests


def first_failed(said: str, tests: Sequence[str]) -> str:
    """Return the test that failed by pytest's summary, or nothing; logs have lines of errors, too."""
    lines = {
        line.partition(" ")[2] for line in said.splitlines() if line[:6] in {"FAILED", "ERROR "}
    }
    return next(
        (it for it in tests if any(f"{one} - ".startswith(f"{it} - ") for one in lines)), ""
    )


class Recorder:
    """Writes a recording when the tests of a file are over."""

    def __init__(self, folder: Path, root: Path) -> None:
        self._folder = folder
        self._package = f"{root / 'outlast'}{os.sep}"
        self._root = root
        self._called: set[CodeType] = set()
        self._tests: dict[str, tuple[float, bool]] = {}
        self._functions: dict[str, list[int]] = defaultdict(list)
        self._failed: set[str] = set()

    def _note(self, frame: FrameType, _event: str, _arg: object) -> None:
        self._called.add(frame.f_code)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """Record a test."""
        self._called = set()
        begins = time.monotonic()
        threading.settrace(self._note)  # a function of new threads, told of each call alone
        sys.settrace(self._note)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)
            self._keep(item, time.monotonic() - begins)
            if nextitem is None or nextitem.path != item.path:
                self._write(item.path)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember what did not pass: it cannot notice anything."""
        if report.outcome != "passed":
            self._failed.add(report.nodeid)

    def _keep(self, item: pytest.Item, seconds: float) -> None:
        if item.nodeid in self._failed:
            return
        number = len(self._tests)
        on_server = any(item.get_closest_marker(mark) for mark in ON_SERVER)
        self._tests[item.nodeid] = (round(seconds, 3), on_server)
        names = {self._name(code) for code in list(self._called)}
        for name in names - {""}:
            self._functions[name].append(number)

    def _name(self, code: CodeType) -> str:
        """Return the function or method that code belongs to, or nothing for other packages."""
        if not code.co_filename.startswith(self._package):
            return ""
        module = Path(code.co_filename).relative_to(self._root)
        return f"{module}:{code.co_qualname.partition('.<locals>')[0]}"

    def _write(self, path: Path) -> None:
        kept = {"tests": self._tests, "functions": self._functions}
        file = recording_of(self._folder, str(path.relative_to(self._root)))
        file.write_text(json.dumps(kept), encoding="utf-8")
        self._tests = {}
        self._functions = defaultdict(list)


def pytest_configure(config: pytest.Config) -> None:
    """Record, where the environment names a folder."""
    if folder := os.environ.get(FOLDER_VARIABLE):
        config.pluginmanager.register(Recorder(Path(folder), config.rootpath))
