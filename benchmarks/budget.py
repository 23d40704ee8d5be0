"""Where a worker's CPU time goes, for one turn of a run of 50 turns.

    python benchmarks/budget.py [--runs 20] [--tree DIRECTORY] [--json]

Runs `turns.py`'s conversation with a worker that is sampled every 2 ms of its CPU time
(`sampler.py`), and divides the samples of its main thread by what the code belongs to. Native
threads are those of Temporal's core. `--tree` measures another checkout of this repository beside
this one.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from temporalio.client import Client

from benchmarks.processes import Child
from benchmarks.turns import HERE, Subject
from outlast.contract import names
from outlast.dev import EmbeddedServer

TURNS = 50

ROOMS: dict[str, tuple[str, ...]] = {
    "our workflow: what people see": ("outlast/workflows/presentation", "outlast/edges/rendering"),
    "our workflow: stages": ("outlast/contract/stages",),
    "our workflow: the loop": ("outlast/loop/",),
    "our workflow: the rest": ("outlast/workflows/", "benchmarks/floor.py:Floor."),
    "Temporal's SDK: workflow tasks": (
        "worker/_workflow_instance",
        "worker/_workflow.py",
        "workflow_executor",
        "complete_workflow_activation",
        "poll_workflow_activation",
    ),
    "the model over HTTP": ("outlast/models/", "/openai/", "/httpx2/", "/aiohttp/", "httpcore2/"),
    "our activities: records": ("outlast/contract/records", "outlast/contract/effects"),
    "our activities: the rest": ("outlast/activities/", "benchmarks/floor.py"),
    "Temporal's SDK: activities": (
        "worker/_activity.py",
        "complete_activity_task",
        "poll_activity_task",
    ),
}
"""The parts of the main thread's time; a stack belongs to the first that it contains."""

EVENT_LOOP = "the event loop"
NATIVE = "Temporal's core, in native threads"
THREADS = "other threads of Python"


def room_of(stack: list[str]) -> str:
    """Return the part that a stack of the main thread belongs to."""
    text = "\n".join(stack)
    in_workflow = "_workflow_instance" in text
    for room, marks in ROOMS.items():
        if room.startswith("our workflow") and not in_workflow:
            continue
        if any(mark in text for mark in marks):
            return room
    return EVENT_LOOP


def divided(sampled: dict[str, Any], turns: int) -> dict[str, float]:
    """Return the milliseconds of CPU per turn of each part."""
    counts: dict[str, float] = {EVENT_LOOP: 0.0}
    for stack, count in sampled["stacks"]:
        room = room_of(stack)
        counts[room] = counts.get(room, 0) + count
    # While other threads compute, the main thread is found waiting in its event loop.
    all_threads = sum(sampled["threads"].values())
    main = sampled["threads"].pop("main")
    waiting = sum(counts.values()) * (1 - main / all_threads)
    counts[EVENT_LOOP] = max(counts[EVENT_LOOP] - waiting, 0.0)
    total = sum(counts.values())
    parts = {room: main * count / total for room, count in counts.items()}
    for name, cpu in sampled["threads"].items():
        room = THREADS if name.startswith("python") else NATIVE
        parts[room] = parts.get(room, 0) + cpu
    return {room: cpu / turns * 1000 for room, cpu in parts.items()}


async def measure(name: str, tree: Path, runs: int, address: str, model: str) -> dict[str, float]:
    """Return the budget of one subject of one tree."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "samples.json"
        worker = str(tree / "benchmarks" / "worker.py")
        arguments = (str(HERE / "sampler.py"), str(file), worker, name, address, model)
        async with Child(*arguments, env={"PYTHONPATH": str(tree)}) as process:
            subject = Subject(name, await Client.connect(address), process)
            for _ in range(3):
                await subject.run(8)
            os.kill(process.pid, signal.SIGUSR1)
            for _ in range(runs):
                await subject.run(TURNS)
            os.kill(process.pid, signal.SIGUSR2)
            for _ in range(200):
                if file.exists():
                    break
                await asyncio.sleep(0.05)
            return divided(json.loads(file.read_text()), runs * TURNS)


async def measure_all(trees: list[Path], runs: int) -> dict[str, dict[str, float]]:
    """Return the budgets of outlast in each tree, and of the floor."""
    budgets: dict[str, dict[str, float]] = {}
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        server = await enter(
            EmbeddedServer(ui_port=None, search_attributes=names.SEARCH_ATTRIBUTES)
        )
        model = await enter(Child(str(HERE / "model_server.py")))
        subjects = [("outlast", tree) for tree in trees] + [("floor", trees[0])]
        for name, tree in subjects:
            label = name if tree == trees[0] else f"{name} in {tree.name}"
            budgets[label] = await measure(name, tree, runs, server.address, model.greeting)
    return budgets


def table(budgets: dict[str, dict[str, float]]) -> str:
    """Return the budgets as a table in Markdown."""
    rooms = [*ROOMS, EVENT_LOOP, THREADS, NATIVE]
    lines = [f"| ms per turn | {' | '.join(budgets)} |", "|---|" + "---:|" * len(budgets)]
    for room in rooms:
        cells = [f"{budget.get(room, 0):.2f}" for budget in budgets.values()]
        lines.append(f"| {room} | {' | '.join(cells)} |")
    sums = [f"{sum(budget.values()):.2f}" for budget in budgets.values()]
    return "\n".join([*lines, f"| together | {' | '.join(sums)} |"])


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--tree", type=Path, action="append", default=[])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    trees = [HERE.parent, *(tree.resolve() for tree in options.tree)]
    budgets = asyncio.run(measure_all(trees, options.runs))
    print(json.dumps(budgets, indent=2) if options.json else table(budgets))
    return 0


if __name__ == "__main__":
    sys.exit(main())
