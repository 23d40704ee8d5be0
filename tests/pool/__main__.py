"""Run the tests of many files in several processes: `python -m tests.pool -n 2 -w 4 [pytest's arguments]`."""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tests.pool.share import (
    FOLDER_VARIABLE,
    KIND_VARIABLE,
    NUMBER_VARIABLE,
    PROGRESS_VARIABLE,
    SEED_VARIABLE,
)

PASSED: Final = 0
SOME_FAILED: Final = 1
NOTHING_COLLECTED: Final = 5
ENDS: Final = {PASSED, SOME_FAILED, NOTHING_COLLECTED}
"""The exit codes of pytest after all tests of a process."""
FAULTS: Final = ("failed", "error")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.pool", allow_abbrev=False)
    parser.add_argument(
        "-n", type=int, default=2, metavar="N", help="processes that begin with tests that compute"
    )
    parser.add_argument(
        "-w",
        type=int,
        default=1,
        metavar="N",
        help="processes that begin with tests that wait: see order.py",
    )
    parser.add_argument("--seed", metavar="N", help="take files and their tests in another order")
    options, arguments = parser.parse_known_args()
    if options.n + options.w < 1:
        parser.error("-n and -w are both 0: no process would run the tests")
    if options.seed is not None:
        os.environ[SEED_VARIABLE] = options.seed
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="outlast-tests-") as folder:
        pool = Path(folder)
        codes = _run(pool, ["computing"] * options.n + ["waiting"] * options.w, arguments)
        counts: Counter[str] = Counter()
        for number, code in enumerate(codes):
            counts += _counts(pool, number)
            _print_details(pool, number, code)
        listed, taken = _files(pool, range(len(codes)))
    seconds = time.monotonic() - started
    words = ", ".join(f"{counts[name]} {name}" for name in sorted(counts, key=_rank))
    print(
        f"{words or 'no tests'} in {seconds:.0f} s, in {len(codes)} processes; "
        f"{len(taken)} of {len(listed)} files"
    )
    if set(codes) <= ENDS and sorted(taken) != sorted(listed):
        print(f"FAILED these files were not run once: {_not_once(listed, taken)}")
        return SOME_FAILED
    if not set(codes) <= {PASSED, NOTHING_COLLECTED}:
        return SOME_FAILED
    return PASSED if counts["passed"] else NOTHING_COLLECTED


def _run(pool: Path, kinds: Sequence[str], arguments: Sequence[str]) -> list[int]:
    """Run a process of pytest of each kind, and return the exit codes."""
    processes = [_start(pool, number, kind, arguments) for number, kind in enumerate(kinds)]
    try:
        codes = [process.wait() for process in processes]
    except KeyboardInterrupt:
        # A terminal has interrupted them too: they end their servers, and say what they were at.
        codes = [process.wait() for process in processes]
    print(flush=True)
    return codes


def _start(
    pool: Path, number: int, kind: str, arguments: Sequence[str]
) -> "subprocess.Popen[bytes]":
    # Each would write what failed to the same cache.
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.pool.share",
        "-p",
        "no:cacheprovider",
    ]
    names = FOLDER_VARIABLE, NUMBER_VARIABLE, KIND_VARIABLE, PROGRESS_VARIABLE
    progress = os.dup(sys.stdout.fileno())
    with (pool / f"{number}.out").open("wb") as out:
        process = subprocess.Popen(
            [*command, *arguments],
            env=os.environ
            | dict(zip(names, (str(pool), str(number), kind, str(progress)), strict=True)),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            pass_fds=[progress],
        )
    os.close(progress)
    return process


def _counts(pool: Path, number: int) -> Counter[str]:
    return Counter(json.loads(_text(pool / f"{number}.counts") or "{}"))


def _files(pool: Path, numbers: Iterable[int]) -> tuple[set[str], list[str]]:
    """Return the files that any process has listed, and those that the processes have taken."""
    listed, taken = set[str](), list[str]()
    for number in numbers:
        listed.update(_text(pool / f"{number}.listed").splitlines())
        taken += _text(pool / f"{number}.files").splitlines()
    return listed, taken


def _not_once(listed: set[str], taken: list[str]) -> str:
    times = Counter(taken)
    return ", ".join(f"{file} ({times[file]})" for file in sorted(listed) if times[file] != 1)


def _print_details(pool: Path, number: int, code: int) -> None:
    """Print what a process says below its dots, or all of it if its tests did not come to their end."""
    lines = _text(pool / f"{number}.out").splitlines()
    if code in ENDS:
        start = next((n for n, line in enumerate(lines) if line.startswith("===")), len(lines))
        lines = lines[start:-1]
    print("\n".join([*lines, ""]), end="")
    if code not in ENDS:
        print(_text(pool / f"{number}.failures"), end="")
        file = _text(pool / f"{number}.files").splitlines()[-1:]
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        print(f"FAILED {file[0] if file else 'without a file'}: process {number} ended {how}")


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def _rank(name: str) -> tuple[bool, str]:
    return name not in FAULTS, name


if __name__ == "__main__":
    sys.exit(main())
