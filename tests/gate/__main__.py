"""Measures the parts of `make check`, and prints what takes longest.

`python -m tests.gate run .venv/check/NAME.json COMMAND...` runs a part and writes what it cost;
`python -m tests.gate report .venv/check` prints what is written there.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tests.gate.files import FOLDER_VARIABLE, Cost, costs_in, since, spent_by_now, total

LONGEST: Final = 20


def run(path: Path, command: Sequence[str]) -> int:
    """Run a command, write down what it and the test files in it cost, and return its exit code."""
    started, before = time.time(), spent_by_now()
    with tempfile.TemporaryDirectory(prefix="outlast-gate-") as folder:
        # The pipe of make's job server stays open.
        process = subprocess.Popen(
            command, close_fds=False, env=os.environ | {FOLDER_VARIABLE: folder}
        )
        # A terminal interrupts the command, too, which then ends what it has started.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda _number, _frame: process.terminate())
        code = process.wait()
        files = costs_in(Path(folder))
    record = {"started": started, "cost": since(before), "files": files}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(record, indent=1))
    return 128 - code if code < 0 else code


def report(records: Path) -> str:
    """Return the longest parts and files, by wall, and what all parts cost together."""
    parts, files = dict[str, Cost](), dict[str, Cost]()
    spans = list[tuple[float, float]]()
    for path in sorted(records.glob("*.json")):
        record = json.loads(path.read_text())
        parts[path.stem] = Cost(*record["cost"])
        spans.append((record["started"], record["started"] + parts[path.stem].wall))
        files |= {f"{path.stem}: {name}": Cost(*cost) for name, cost in record["files"].items()}
    costs = sorted((parts | files).items(), key=lambda one: -one[1].wall)
    lines = [f"{cost.wall:9.1f} {cost.cpu:9.1f}  {name}" for name, cost in costs[:LONGEST]]
    wall, cpu = together(spans) / 60, total(parts.values()).cpu / 60
    return "\n".join([
        f"The longest of {len(parts)} parts and {len(files)} test files, in seconds:",
        "     wall       CPU", *lines,
        f"{', '.join(parts)}: {wall:.1f} minutes of wall, {cpu:.1f} of CPU",
    ])  # fmt: skip


def together(spans: Iterable[tuple[float, float]]) -> float:
    """Return for how many seconds at least one of the spans lasted."""
    seconds = covered = 0.0
    for start, end in sorted(spans):
        seconds += max(0.0, end - max(start, covered))
        covered = max(covered, end)
    return seconds


def main(arguments: Sequence[str]) -> int:
    match arguments:
        case ["run", path, *command] if command:
            return run(Path(path), command)
        case ["report", folder]:
            print(report(Path(folder)))
            return 0
        case _:
            print(__doc__, file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
