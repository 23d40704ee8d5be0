"""Run the tests of many files in several processes: `python -m tests.pool -n 4 [pytest's arguments]`."""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.pool.share import FOLDER_VARIABLE, NUMBER_VARIABLE, PROGRESS_VARIABLE

PASSED: Final = 0
SOME_FAILED: Final = 1
NOTHING_COLLECTED: Final = 5
ENDS: Final = {PASSED, SOME_FAILED, NOTHING_COLLECTED}
"""The exit codes of pytest after all tests of a process."""
FAULTS: Final = ("failed", "error")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.pool", allow_abbrev=False)
    parser.add_argument("-n", type=int, default=3, help="number of processes", metavar="N")
    options, arguments = parser.parse_known_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="outlast-tests-") as folder:
        pool = Path(folder)
        codes = _run(pool, options.n, arguments)
        counts: Counter[str] = Counter()
        for number, code in enumerate(codes):
            counts += _counts(pool, number)
            _print_details(pool, number, code)
    seconds = time.monotonic() - started
    words = ", ".join(f"{counts[name]} {name}" for name in sorted(counts, key=_rank))
    print(f"{words or 'no tests'} in {seconds:.0f} s, in {options.n} processes")
    if not set(codes) <= {PASSED, NOTHING_COLLECTED}:
        return SOME_FAILED
    return PASSED if counts["passed"] else NOTHING_COLLECTED


def _run(pool: Path, number_of_processes: int, arguments: Sequence[str]) -> list[int]:
    """Run pytest that many times, and return the exit codes."""
    processes = [_start(pool, number, arguments) for number in range(number_of_processes)]
    try:
        codes = [process.wait() for process in processes]
    except KeyboardInterrupt:
        # A terminal has interrupted them too: they end their servers, and say what they were at.
        codes = [process.wait() for process in processes]
    print(flush=True)
    return codes


def _start(pool: Path, number: int, arguments: Sequence[str]) -> "subprocess.Popen[bytes]":
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
    names = (FOLDER_VARIABLE, NUMBER_VARIABLE, PROGRESS_VARIABLE)
    progress = os.dup(sys.stdout.fileno())
    with (pool / f"{number}.out").open("wb") as out:
        process = subprocess.Popen(
            [*command, *arguments],
            env=os.environ | dict(zip(names, (str(pool), str(number), str(progress)), strict=True)),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            pass_fds=[progress],
        )
    os.close(progress)
    return process


def _counts(pool: Path, number: int) -> Counter[str]:
    path = pool / f"{number}.counts"
    return Counter(json.loads(path.read_text()) if path.exists() else {})


def _print_details(pool: Path, number: int, code: int) -> None:
    """Print what a process says below its dots, or all of it if its tests did not come to their end."""
    lines = (pool / f"{number}.out").read_text(errors="replace").splitlines()
    if code in ENDS:
        start = next((n for n, line in enumerate(lines) if line.startswith("===")), len(lines))
        lines = lines[start:-1]
    print("\n".join([*lines, ""]), end="")
    if code not in ENDS:
        files = pool / f"{number}.files"
        file = files.read_text().splitlines()[-1:] if files.exists() else []
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        print(f"FAILED {file[0] if file else 'without a file'}: process {number} ended {how}")


def _rank(name: str) -> tuple[bool, str]:
    return name not in FAULTS, name


if __name__ == "__main__":
    sys.exit(main())
