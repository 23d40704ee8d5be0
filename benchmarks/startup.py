"""Measures the start: importing the package, and a worker process until it takes work.

    python benchmarks/startup.py [--repeats 20] [--json]

Each number is the median over fresh interpreters; a worker is `outlast worker` with the support
desk, timed from the start of its process until it reports that the server sees it poll. The exit
code is 1 if a limit is exceeded.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.processes import ROOT, Child
from benchmarks.surroundings import surroundings
from outlast.contract import names
from outlast.dev import EmbeddedServer

_TIMED_IMPORT = """
import time
start = time.perf_counter()
{statement}
print(time.perf_counter() - start)
"""


@dataclass(frozen=True)
class Measure:
    """One number to take: an import, timed within its interpreter."""

    title: str
    statement: str
    at_most: float | None = None


IMPORTS = (
    Measure("import outlast", "import outlast", at_most=0.1),
    Measure("what a definition needs", "from outlast import Agent, function_tool, handoff"),
    Measure("what a client needs", "from outlast import Runner; Runner"),
    Measure("what a worker needs", "from outlast.worker import AgentWorker"),
    Measure("of that, temporalio alone", "import temporalio.client, temporalio.worker"),
    Measure("in a thread, at the first model call: openai", "import openai, httpx2"),
)
READY = "a worker is ready"
READY_AT_MOST = 1.5


def import_seconds(statement: str) -> float:
    """Return how long a fresh interpreter takes for an import."""
    command = [sys.executable, "-c", _TIMED_IMPORT.format(statement=statement)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return float(done.stdout)


async def ready_seconds(server: EmbeddedServer, number: int) -> float:
    """Return how long a worker process takes until it is ready."""
    start = time.perf_counter()
    async with Child(
        *("-m", "outlast.cli.entry", "worker", "support_desk.app", "--app-dir", "examples"),
        *("--task-queue", f"startup-{number}", "--json"),
        env={"TEMPORAL_ADDRESS": server.address, "TEMPORAL_NAMESPACE": "default"},
    ) as worker:
        seconds = time.perf_counter() - start
        assert json.loads(worker.greeting)["status"] == "ready"
        worker.kill()
    return seconds


async def measure(repeats: int) -> dict[str, Any]:
    """Measure everything, each in turn in each repeat."""
    every: dict[str, list[float]] = {one.title: [] for one in IMPORTS} | {READY: []}
    async with EmbeddedServer(ui_port=None, search_attributes=names.SEARCH_ATTRIBUTES) as server:
        for repeat in range(repeats + 1):
            numbers = {one.title: import_seconds(one.statement) for one in IMPORTS}
            numbers[READY] = await ready_seconds(server, repeat)
            if repeat == 0:
                continue  # the first one may have had to compile the modules
            for title, seconds in numbers.items():
                every[title].append(seconds)
    return {
        **surroundings(),
        "repeats": repeats,
        "medians_s": {title: median(numbers) for title, numbers in every.items()},
        "every_s": every,
    }


def limits() -> dict[str, float]:
    """Return the limits of the numbers, in seconds."""
    return {one.title: one.at_most for one in IMPORTS if one.at_most} | {READY: READY_AT_MOST}


def table(measured: dict[str, Any]) -> str:
    """Return the medians as a table in Markdown."""
    lines = ["| | s | at most |", "|---|---:|---:|"]
    for title, seconds in measured["medians_s"].items():
        most = limits().get(title)
        lines.append(f"| {title} | {seconds:.3f} | {most or ''} |")
    where = f"{measured['date']}; {measured['machine']}; {measured['versions']}"
    return "\n".join([*lines, "", f"{where}; medians of {measured['repeats']}."])


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--json", action="store_true", help="print every number instead of a table")
    options = parser.parse_args()
    measured = asyncio.run(measure(options.repeats))
    print(json.dumps(measured, indent=2) if options.json else table(measured))
    missed = [
        f"limit missed: {title}: {measured['medians_s'][title]:.3f} s, at most {most} s"
        for title, most in limits().items()
        if measured["medians_s"][title] > most
    ]
    for sentence in missed:
        print(sentence, file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
