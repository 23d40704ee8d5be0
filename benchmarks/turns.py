"""Measures the history, worker CPU and time of a turn, and the framework's share of them.

    python benchmarks/turns.py [--repeats 10] [--json]

A run of n turns calls one tool in each turn but the last, with results of 1 KB, and then answers.
`outlast` and the floor (`floor.py`) execute the same conversation, in turn, on one server; the
workers, the model and the server are processes of their own. Every number is the median of the
repeats, and every ratio is the median of the ratios within each repeat, which hardly depends on
other load on the machine. The exit code is 1 if a limit is exceeded.
"""

import argparse
import asyncio
import json
import secrets
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from temporalio.api.workflowservice.v1 import GetSystemInfoRequest
from temporalio.client import Client

from benchmarks import worker
from benchmarks.floor import WORKFLOW as FLOOR
from benchmarks.model_server import question
from benchmarks.processes import Child
from benchmarks.surroundings import OtherPrograms, surroundings
from outlast import Runner
from outlast.contract import names
from outlast.dev import EmbeddedServer

SUBJECTS = ("outlast", "floor")
SIZES = (8, 50, 100, 300)
RUNS_OF_SIZE = {8: 8, 50: 1, 100: 1, 300: 1}
"""How many runs of a size are measured together: about as many turns of each."""

CONCURRENCY = 10
CONCURRENT_RUNS = 40

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Limit:
    """The limit of a number, or of its ratio to the floor's."""

    row: str
    at_most: float
    of_ratio: bool = False


LIMITS = (
    Limit("history_bytes_100", 270_000),
    Limit("history_events_100", 1_200),
    Limit("cpu_ms_8", 1.0, of_ratio=True),
    Limit("cpu_ms_50", 1.0, of_ratio=True),
    Limit("cpu_ms_100", 1.0, of_ratio=True),
    Limit("cpu_ratio_300_to_8", 1.1),
    Limit("runs_per_s", -1.0, of_ratio=True),
    Limit("seconds_100", 1.0, of_ratio=True),
)
"""What this release must keep; a negative limit is the least ratio."""

ROWS = {
    "history_bytes_100": ("history of 100 turns, bytes", "{:,.0f}"),
    "history_events_100": ("history of 100 turns, events", "{:,.0f}"),
    "cpu_ms_8": ("worker CPU per turn at 8 turns, ms", "{:.2f}"),
    "cpu_ms_50": ("worker CPU per turn at 50 turns, ms", "{:.2f}"),
    "cpu_ms_100": ("worker CPU per turn at 100 turns, ms", "{:.2f}"),
    "cpu_ms_300": ("worker CPU per turn at 300 turns, ms", "{:.2f}"),
    "cpu_ratio_300_to_8": ("the same, 300 turns to 8 turns", "{:.2f}"),
    "runs_per_s": (f"runs of 8 turns per second, {CONCURRENCY} at a time", "{:.1f}"),
    "seconds_100": ("a run of 100 turns, alone, s", "{:.2f}"),
}


@dataclass(frozen=True)
class Subject:
    """One of the two compared implementations, with its worker."""

    name: str
    client: Client
    process: Child

    async def run(self, turns: int) -> str:
        """Execute one run to its end, and return its id."""
        run_id = f"bench-{self.name}-{secrets.token_hex(6)}"
        queue = worker.TASK_QUEUES[self.name]
        if self.name == "outlast":
            await Runner.start(
                worker.AGENT,
                question(turns),
                id=run_id,
                max_turns=None,
                client=self.client,
                task_queue=queue,
            )
        else:
            await self.client.start_workflow(FLOOR, question(turns), id=run_id, task_queue=queue)
        await self.client.get_workflow_handle(run_id).result()
        return run_id

    async def spent(self) -> dict[str, float]:
        """Return the worker's resource usage so far."""
        return json.loads(await self.process.ask())


async def measure_size(subject: Subject, turns: int) -> dict[str, float]:
    """Execute runs of one size, one after the other."""
    runs = RUNS_OF_SIZE[turns]
    cpu, start = (await subject.spent())["cpu_s"], time.perf_counter()
    run_ids = [await subject.run(turns) for _ in range(runs)]
    seconds = (time.perf_counter() - start) / runs
    cpu = (await subject.spent())["cpu_s"] - cpu
    numbers = {f"cpu_ms_{turns}": cpu / (runs * turns) * 1000, f"seconds_{turns}": seconds}
    if turns == 100:
        execution = await subject.client.get_workflow_handle(run_ids[-1]).describe()
        info = execution.raw_description.workflow_execution_info
        numbers["history_bytes_100"] = info.history_size_bytes
        numbers["history_events_100"] = info.history_length
    return numbers


async def measure_throughput(subject: Subject) -> dict[str, float]:
    """Carry many short runs, several at a time."""
    waiting = iter(range(CONCURRENT_RUNS))

    async def lane() -> None:
        for _ in waiting:
            await subject.run(8)

    start = time.perf_counter()
    await asyncio.gather(*(lane() for _ in range(CONCURRENCY)))
    return {"runs_per_s": CONCURRENT_RUNS / (time.perf_counter() - start)}


async def measure_once(subjects: list[Subject]) -> dict[str, dict[str, float]]:
    """Measure everything once, the subjects in turn for each number."""
    numbers: dict[str, dict[str, float]] = {subject.name: {} for subject in subjects}
    for turns in SIZES:
        for subject in subjects:
            numbers[subject.name].update(await measure_size(subject, turns))
    for subject in subjects:
        numbers[subject.name].update(await measure_throughput(subject))
    return numbers


async def measure(repeats: int) -> dict[str, Any]:
    """Measure everything, and return the medians with all that they are made of."""
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        server = await enter(
            EmbeddedServer(ui_port=None, search_attributes=names.SEARCH_ATTRIBUTES)
        )
        model = await enter(Child(str(HERE / "model_server.py")))
        client = await Client.connect(server.address)
        subjects: list[Subject] = []
        for name in SUBJECTS:
            arguments = (str(HERE / "worker.py"), name, server.address, model.greeting)
            subjects.append(Subject(name, client, await enter(Child(*arguments))))
        for subject in subjects:  # warm: packages loaded, schemas built, connections open
            await subject.run(8)
            await measure_throughput(subject)
        every: list[dict[str, dict[str, float]]] = []
        others = OtherPrograms([one.process.pid for one in subjects] + [model.pid, server.info.pid])
        for repeat in range(repeats):
            print(f"repeat {repeat + 1} of {repeats}", file=sys.stderr)
            every.append(await measure_once(subjects if repeat % 2 == 0 else subjects[::-1]))
        busy = others.cores()
        memory = {one.name: (await one.spent())["peak_rss_bytes"] / 2**20 for one in subjects}
        system = await client.workflow_service.get_system_info(GetSystemInfoRequest())
    for one in every:
        for numbers in one.values():
            numbers["cpu_ratio_300_to_8"] = numbers["cpu_ms_300"] / numbers["cpu_ms_8"]
    medians = {name: _medians([one[name] for one in every]) for name in SUBJECTS}
    ratios = _medians(
        [{row: one["outlast"][row] / one["floor"][row] for row in one["outlast"]} for one in every]
    )
    return {
        **surroundings(system.server_version),
        "others_cores": busy,
        "repeats": repeats,
        "peak_rss_mib": memory,
        "medians": medians,
        "ratios": ratios,
        "every": every,
    }


def _medians(repeats: list[dict[str, float]]) -> dict[str, float]:
    return {row: median(one[row] for one in repeats) for row in repeats[0]}


def table(measured: dict[str, Any]) -> str:
    """Return the medians as a table in Markdown."""
    ours, floor = (measured["medians"][name] for name in SUBJECTS)
    limits = {limit.row: limit for limit in LIMITS}
    lines = ["| | outlast | floor | ratio | limit |", "|---|---:|---:|---:|---:|"]
    for row, (title, form) in ROWS.items():
        limit = _shown(limits[row], form) if row in limits else ""
        ratios = sorted(one["outlast"][row] / one["floor"][row] for one in measured["every"])
        spread = f"{measured['ratios'][row]:.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})"
        cells = [form.format(ours[row]), form.format(floor[row]), spread]
        lines.append(f"| {title} | {' | '.join(cells)} | {limit} |")
    memory = ", ".join(f"{name} {mib:.0f}" for name, mib in measured["peak_rss_mib"].items())
    where = f"{measured['date']}; {measured['machine']}; {measured['versions']}"
    lines += [
        "",
        f"{where}; medians of {measured['repeats']}.",
        f"Worker's memory at its peak, MiB: {memory}.",
    ]
    if measured["others_cores"] is not None:
        lines.append(f"Meanwhile, other programs kept {measured['others_cores']:.1f} cores busy.")
    return "\n".join(lines)


def _shown(limit: Limit, form: str) -> str:
    if limit.of_ratio:
        return f"ratio {'≥' if limit.at_most < 0 else '≤'} {abs(limit.at_most):.1f}"
    return f"≤ {form.format(limit.at_most)}"


def missed(measured: dict[str, Any]) -> list[str]:
    """Return a sentence for each missed limit."""
    found: list[str] = []
    for limit in LIMITS:
        numbers = measured["ratios"] if limit.of_ratio else measured["medians"]["outlast"]
        value = numbers[limit.row]
        if (-value if limit.at_most < 0 else value) > limit.at_most:
            form = ROWS[limit.row][1]
            found.append(f"{ROWS[limit.row][0]}: {value:,.2f}, {_shown(limit, form)}")
    return found


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--json", action="store_true", help="print every number instead of a table")
    options = parser.parse_args()
    measured = asyncio.run(measure(options.repeats))
    print(json.dumps(measured, indent=2) if options.json else table(measured))
    wrong = missed(measured)
    for sentence in wrong:
        print(f"limit missed: {sentence}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
