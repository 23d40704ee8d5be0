"""Compares this checkout with another commit, in one run on one machine.

    python benchmarks/against.py [COMMIT] [--repeats 5] [--only turns|effects]

Both commits are checked out and installed from their own locks, in `.against/`. Each has a worker
and a starter of its own checkout, in a namespace of its own on one server, and they take turns, the
first of a repeat being the second of the next. Every ratio is the median of the ratios within each
repeat, with the least and the greatest. The exit code is 1 if a bar is exceeded.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any, Final

from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

from benchmarks.processes import Child
from benchmarks.surroundings import OtherPrograms, surroundings
from outlast.dev import EmbeddedServer

MARK: Final = "650cded"
"""The commit that every comparison is made with, unless another one is named."""

ROOT: Final = Path(__file__).resolve().parent.parent
PLACE: Final = ROOT / ".against"
HERE: Final = Path(__file__).parent

BARS: Final = {
    "declared_8": 1.0,
    "declared_50": 1.0,
    "declared_100": 1.0,
    "undeclared_8": 1.0,
    "undeclared_50": 1.0,
    "undeclared_100": 1.0,
    "history_bytes_100": 1.0,
    "peak_rss_mib": 1.02,
    "run_tool_us": 1.3,
    "call_model_us": 1.1,
    "in_memory_ms": 1.1,
}
"""The greatest ratio that is no step back."""

COUNTS: Final = {"run_tool_calls": 300, "call_model_calls": 800, "modules_ours": 245}
"""The greatest counts of calls and modules, which are the same on every machine."""

TITLES: Final = {
    **{
        f"{kind}_{turns}": f"worker CPU per turn, tool {kind}, {turns} turns, ms"
        for kind, sizes in (("declared", (8, 50, 100)), ("undeclared", (8, 50, 100)))
        for turns in sizes
    },
    "approved_8": "worker CPU per turn, an approval on each, 8 turns, ms",
    "runs_per_s": "runs of 8 turns per second, 10 at a time",
    "history_bytes_100": "history of 100 turns, bytes",
    "peak_rss_mib": "worker's memory at its peak, MiB",
    "run_tool_us": "a tool attempt, us",
    "call_model_us": "a model call of 100 items, us",
    "run_tool_calls": "Python calls of a tool attempt",
    "call_model_calls": "Python calls of a model call",
    "in_memory_ms": "a turn of 100 in memory, ms",
    "modules_ours": "modules of outlast in `import outlast.worker`",
    "modules_others": "modules of others",
}

ASKED: Final = (
    ("declared", 8, 8),
    ("declared", 50, 1),
    ("declared", 100, 1),
    ("undeclared", 8, 8),
    ("undeclared", 50, 1),
    ("undeclared", 100, 1),
    ("approved", 8, 4),
)
"""Agent, turns and runs of each measurement."""


@dataclass
class Side:
    """One of the two checkouts, with what runs in it."""

    commit: str
    place: Path
    client: Client | None = None
    worker: Child | None = None
    starter: Child | None = None

    def child(self, *arguments: str) -> Child:
        """Return a program of this side."""
        python = self.place / ".venv" / "bin" / "python"
        env = {"PYTHONPATH": str(self.place)}
        return Child(str(HERE / "side.py"), *arguments, python=python, env=env)

    async def once(self, what: str) -> dict[str, float]:
        """Measure something without a server, in a process of its own."""
        async with self.child(what) as child:
            return json.loads(child.greeting)

    async def spent(self) -> dict[str, float]:
        """Return the worker's resource usage so far."""
        assert self.worker is not None
        return json.loads(await self.worker.ask())

    async def run(self, agent: str, turns: int, runs: int, lanes: int = 1) -> dict[str, Any]:
        """Execute runs, and return how long they took, what they cost, and the id of the last."""
        assert self.starter is not None
        cpu = (await self.spent())["cpu_s"]
        asked = {"agent": agent, "turns": turns, "runs": runs, "lanes": lanes}
        told = json.loads(await self.starter.ask(json.dumps(asked)))
        return {**told, "cpu_ms": ((await self.spent())["cpu_s"] - cpu) / (runs * turns) * 1000}

    async def measure(self) -> dict[str, float]:
        """Measure everything that needs the server, once."""
        assert self.client is not None
        numbers: dict[str, float] = {}
        for agent, turns, runs in ASKED:
            told = await self.run(agent, turns, runs)
            numbers[f"{agent}_{turns}"] = told["cpu_ms"]
            if (agent, turns) == ("declared", 100):
                described = await self.client.get_workflow_handle(told["last"]).describe()
                info = described.raw_description.workflow_execution_info
                numbers["history_bytes_100"] = info.history_size_bytes
        told = await self.run("declared", 8, 40, lanes=10)
        return numbers | {"runs_per_s": 40 / told["seconds"]}


def checked_out(commit: str) -> Side:
    """Return a side with a checkout of a commit that is installed from its own lock."""

    def git(*arguments: str, cwd: Path = ROOT) -> str:
        done = subprocess.run(["git", *arguments], cwd=cwd, check=True, stdout=subprocess.PIPE)
        return done.stdout.decode().strip()

    full = git("rev-parse", f"{commit}^{{commit}}")
    place = PLACE / full[:12]
    if not (place / ".venv" / ".test").exists():
        print(f"installing {full[:8]} in {place.relative_to(ROOT)}", file=sys.stderr)
        if not place.exists():
            git("clone", "--quiet", "--shared", str(ROOT), str(place))
        git("checkout", "--quiet", "--detach", full, cwd=place)
        kept = {"VIRTUAL_ENV", "PYTHONPATH", "MAKEFLAGS", "MAKELEVEL", "MFLAGS"}
        env = {name: value for name, value in os.environ.items() if name not in kept}
        subprocess.run(["make", ".venv/.test"], cwd=place, check=True, env=env)
    return Side(full[:8], place)


async def _namespace(address: str, name: str) -> Client:
    """Return a client of a new namespace, once every part of the server has it."""
    client = await Client.connect(address, namespace=name)
    retention = Duration()
    retention.FromTimedelta(timedelta(days=1))
    await client.workflow_service.register_namespace(
        RegisterNamespaceRequest(namespace=name, workflow_execution_retention_period=retention)
    )
    async with asyncio.timeout(60):
        while True:
            try:
                await client.count_workflows("")
            except RPCError:
                await asyncio.sleep(0.1)
            else:
                return client


async def turns(sides: list[Side], repeats: int) -> dict[str, Any]:
    """Measure runs on a server: for each repeat the numbers of the sides, and what disturbed it."""
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        server = await enter(EmbeddedServer(ui_port=None))
        model = await enter(Child(str(HERE / "model_server.py")))
        for side in sides:
            name = f"side-{side.commit}"
            side.client = await _namespace(server.address, name)
            place = (server.address, name)
            side.worker = await enter(side.child("worker", *place, model.greeting))
            side.starter = await enter(side.child("starter", *place))
            for agent in ("declared", "undeclared", "approved"):  # warm
                await side.run(agent, 8, 2)
        own = [child.pid for side in sides for child in (side.worker, side.starter) if child]
        others = OtherPrograms([*own, model.pid, server.info.pid])
        every: list[list[dict[str, float]]] = []
        for repeat in range(repeats):
            print(f"repeat {repeat + 1} of {repeats}", file=sys.stderr)
            order = sides if repeat % 2 == 0 else sides[::-1]
            numbers = {id(side): await side.measure() for side in order}
            every.append([numbers[id(side)] for side in sides])
        memory = [(await side.spent())["peak_rss_bytes"] / 2**20 for side in sides]
        for one in every:
            for side_numbers, mib in zip(one, memory, strict=True):
                side_numbers["peak_rss_mib"] = mib
        return {"every": every, "others_cores": others.cores()}


async def alone(sides: list[Side], repeats: int) -> list[list[dict[str, float]]]:
    """Measure what needs no server: for each repeat the numbers of the sides."""
    every: list[list[dict[str, float]]] = []
    for repeat in range(repeats):
        numbers: dict[int, dict[str, float]] = {}
        for side in sides if repeat % 2 == 0 else sides[::-1]:
            found: dict[str, float] = {}
            for what in ("effects", "memory", "imports"):
                found |= await side.once(what)
            numbers[id(side)] = found
        every.append([numbers[id(side)] for side in sides])
    return every


def table(every: list[list[dict[str, float]]]) -> tuple[list[str], list[str]]:
    """Return the rows of a table in Markdown, and a sentence for each bar that is exceeded."""
    lines: list[str] = []
    wrong: list[str] = []
    for row, title in TITLES.items():
        pairs = [(now[row], then[row]) for now, then in every if row in now and row in then]
        if not pairs:
            continue
        ratios = sorted(now / then for now, then in pairs)
        ours, mark = (median(side) for side in zip(*pairs, strict=True))
        ratio = median(ratios)
        bar = BARS.get(row)
        said = f"≤ {bar:g}" if bar else f"≤ {COUNTS[row]}" if row in COUNTS else ""
        spread = f"{ratio:.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})"
        lines.append(f"| {title} | {mark:,.4g} | {ours:,.4g} | {spread} | {said} |")
        if (bar and ratio > bar) or ours > COUNTS.get(row, ours):
            wrong.append(f"{title}: {ours:,.4g}, ratio {ratio:.2f}; the bar is {said}")
    return lines, wrong


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("commit", nargs="?", default=MARK)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=["turns", "effects"])
    options = parser.parse_args()
    sides = [checked_out("HEAD"), checked_out(options.commit)]
    every: list[list[dict[str, float]]] = []
    busy: float | None = None
    if options.only != "effects":
        measured = asyncio.run(turns(sides, options.repeats))
        every, busy = measured["every"], measured["others_cores"]
    if options.only != "turns":
        every += asyncio.run(alone(sides, options.repeats))
    lines, wrong = table(every)
    print(f"| | {sides[1].commit} | {sides[0].commit} | ratio | bar |\n|---|---:|---:|---:|---:|")
    print("\n".join(lines))
    where = surroundings()
    print(f"\n{where['date']}; {where['machine']}; {where['versions']}; {options.repeats} repeats.")
    if busy is not None:
        print(f"Meanwhile, other programs kept {busy:.1f} cores busy.")
    for sentence in wrong:
        print(f"bar missed: {sentence}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
