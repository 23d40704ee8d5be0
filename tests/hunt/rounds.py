"""The rounds of a hunt for tests that fail at times, and what is known of them so far."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PLACES: Final = (
    "tests/workflow", "tests/crash", "tests/attacks", "tests/clients", "tests/unit/cli",
)  # fmt: skip
"""Tests that wait for processes, servers and other people."""

REPORT_VARIABLE: Final = "OUTLAST_HUNT_REPORT"
ROUND_VARIABLE: Final = "OUTLAST_HUNT_ROUND"


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One run of the tests of all files.

    Attributes:
        name: the kind and a number.
        kind: how the machine is kept.
        full: all tests, instead of those of `make test`.
        busy: a process for each core computes beside the tests.
        seed: tests and files are taken in an order that depends on this number.
        one_core: all processes share one core.
    """

    name: str
    kind: str
    full: bool = False
    busy: bool = False
    seed: int | None = None
    one_core: bool = False


ROUNDS: Final = (
    *(Round(name=f"rest-{n}", kind="rest") for n in range(1, 6)),
    *(Round(name=f"busy-{n}", kind="busy", busy=True) for n in range(1, 6)),
    *(Round(name=f"order-{n}", kind="order", seed=n) for n in range(1, 4)),
    *(Round(name=f"core-{n}", kind="core", one_core=True) for n in range(1, 3)),
    Round(name="full-1", kind="full", full=True),
    Round(name="full-busy-1", kind="full-busy", full=True, busy=True),
)


@dataclass(frozen=True, slots=True)
class Done:
    """A file that was run; without one, what else failed in a round.

    Attributes:
        round: its name.
        file: the path below the project.
        failed: the tests that failed, each with why.
        seconds: how long it took.
    """

    round: str
    file: str
    failed: tuple[tuple[str, str], ...] = ()
    seconds: float = 0


def write(report: Path, done: Done) -> None:
    """Append what is done; several processes may do so at once."""
    line = {"round": done.round, "file": done.file, "failed": done.failed, "seconds": done.seconds}
    descriptor = os.open(report, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o644)
    try:
        os.write(descriptor, f"{json.dumps(line)}\n".encode())
    finally:
        os.close(descriptor)


def read(report: Path) -> list[Done]:
    """Return what is done, without a line that was cut off."""
    found: list[Done] = []
    for line in report.read_text("utf-8").splitlines() if report.exists() else ():
        try:
            one = json.loads(line)
        except ValueError:
            continue
        failed = tuple((str(test), str(why)) for test, why in one["failed"])
        found.append(Done(one["round"], one["file"], failed, one["seconds"]))
    return found


def remaining(one: Round, done: Iterable[Done], files: Sequence[str]) -> list[str]:
    """Return the files that a round has still to run."""
    there = {it.file for it in done if it.round == one.name}
    return [file for file in files if file not in there]


def problems(said: str, done: Iterable[Done]) -> Iterator[tuple[str, str]]:
    """Yield what a pool says failed, and why, that no file's line has."""
    known = tuple(test for it in done for test, _ in it.failed)
    for line in said.splitlines():
        word, _, what = line.partition(" ")
        test, _, why = what.partition(" - " if " - " in what else ": ")
        if word in {"FAILED", "ERROR"} and not test.endswith(
            known
        ):  # it may be seen from elsewhere
            yield test, why


def table(rounds: Sequence[Round], done: Sequence[Done], files: Sequence[str]) -> str:
    """Return a line for each round, and one for each test that failed in any."""
    lines = [f"{'round':<14}{'files':>12}{'seconds':>10}{'failures':>10}"]
    for one in rounds:
        mine = [it for it in done if it.round == one.name]
        ran = len(files) - len(remaining(one, done, files))
        seconds = sum(it.seconds for it in mine)
        failures = sum(len(it.failed) for it in mine)
        lines.append(f"{one.name:<14}{f'{ran} of {len(files)}':>12}{seconds:>10.0f}{failures:>10}")
    names = {one.name: one.kind for one in rounds}
    failed = [(it.round, test) for it in done if it.round in names for test, _ in it.failed]
    for test in sorted({test for _, test in failed}):
        kinds = Counter(names[name] for name, other in failed if other == test)
        lines.append(f"{test}: {', '.join(f'{kind} {n}' for kind, n in kinds.items())}")
    return "\n".join(lines)
