"""The load of a cluster for hours, with kills and deploys at random times, and what it leaves.

    python -m tests.cluster.soak [--hours 2] [--seed 1] [--lanes 6] [--json]

Customers and supporters carry cases at two desks (`case.py`) all the time. Meanwhile worker c and
desk 1 are killed with SIGKILL, or stopped and started again, and versions are deployed, all at
times from the seed. Workers a and b, one of each version, and desk 0 live from the beginning to the
end: their memory is measured, and the line through it says how much it grows in an hour.

At the end the ledger is checked: each effect and each decision once, no conversation stuck, each
receipt true at both desks. The exit code is 1 where it is not.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from benchmarks.desk_processes import Deployment, Desks
from benchmarks.postgres_cluster import PostgresCluster, lacking
from benchmarks.process_memory import Growth, Usage, busy_seconds, growth, usages
from benchmarks.surroundings import surroundings
from tests.cluster.load import Load, Verdict, cluster, verdict

SAMPLE_SECONDS = 2.0
WARM_UP: Final = 0.2
"""The share of the time at the beginning in which memory is not measured: caches fill."""

MEASURED: Final = ("worker a", "worker b", "desk 0", "server", "postgres")
"""The processes that live from the beginning to the end."""


@dataclass
class Trouble:
    """What happens to the processes, at times from a seed.

    Attributes:
        counts: how often what happened.
        over: set when nothing more is to happen; what has begun is ended first.
    """

    deployment: Deployment
    random: Random
    every: float
    counts: Counter[str] = field(default_factory=Counter[str])
    over: asyncio.Event = field(default_factory=asyncio.Event)
    _build: str = "1"

    async def make(self) -> None:
        """Make trouble until it is over, in no order."""
        kinds: list[Callable[[], Awaitable[str]]] = [
            self._worker_killed,
            self._worker_stopped,
            self._desk_killed,
            self._desk_stopped,
            self._deployed,
        ]
        while not self.over.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self.random.uniform(0.5, 1.5) * self.every):
                    await self.over.wait()
                    return
            self.counts[await self.random.choice(kinds)()] += 1

    async def _worker_killed(self) -> str:
        await self.deployment.workers["c"].kill()
        await self._start_worker()
        return "worker killed"

    async def _worker_stopped(self) -> str:
        await self.deployment.workers["c"].stop()
        await self._start_worker()
        return "worker stopped"

    async def _start_worker(self) -> None:
        await self.deployment.start_worker("c", self.random.choice(["1", "2"]))

    async def _desk_killed(self) -> str:
        await self.deployment.desks[1].kill()
        await self.deployment.desks[1].start()
        return "desk killed"

    async def _desk_stopped(self) -> str:
        await self.deployment.desks[1].stop()
        await self.deployment.desks[1].start()
        return "desk stopped"

    async def _deployed(self) -> str:
        self._build = {"1": "2", "2": "1"}[self._build]
        await self.deployment.choose(self._build)
        return "deployed"


@dataclass
class Samples:
    """What each process used, again and again."""

    deployment: Deployment
    server: PostgresCluster
    taken: dict[str, list[Usage]] = field(default_factory=dict[str, list[Usage]])

    async def take(self) -> None:
        """Take samples until cancelled."""
        while True:
            for name, usage in (await asyncio.to_thread(usages, self._pids())).items():
                self.taken.setdefault(name, []).append(usage)
            await asyncio.sleep(SAMPLE_SECONDS)

    def _pids(self) -> dict[str, int]:
        processes = [*self.deployment.workers.values(), *self.deployment.desks]
        named = {one.name: one.pid for one in processes}
        return {
            **named,
            "server": self.server.server_pid,
            "postgres": self.server.postgres_pid,
        }

    def growths(self) -> dict[str, Growth]:
        """Return how the memory of the processes grew that lived all the time, in MB."""
        found: dict[str, Growth] = {}
        for name in MEASURED:
            taken = self.taken[name]
            late = taken[int(len(taken) * WARM_UP) :]
            found[name] = growth([(one.at_s, one.memory_mb) for one in late])
        return found

    def cores(self) -> dict[str, float]:
        """Return how many cores those processes kept busy."""
        pairs = {name: (self.taken[name][0], self.taken[name][-1]) for name in MEASURED}
        return {
            name: (last.cpu_s - first.cpu_s) / max(last.at_s - first.at_s, 1e-9)
            for name, (first, last) in pairs.items()
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a soak found.

    Attributes:
        seconds: how long the load went on.
        seed: what chance began with.
        trouble: how often what happened to the processes.
        growths: how much memory grew in an hour, in MB, by process.
        cores: how many cores each kept busy.
        machine_cores: how many cores were busy in all, with other programs.
        verdict: the ledger.
    """

    seconds: float
    seed: int
    trouble: dict[str, int]
    growths: dict[str, Growth]
    cores: dict[str, float]
    machine_cores: float
    verdict: Verdict


async def soak(seconds: float, seed: int, lanes: int, every: float, home: Path) -> Report:
    """Carry cases for some seconds while processes come and go, and check what is left."""
    random = Random(seed)
    async with cluster(home) as (deployment, server), Desks(deployment.ports) as desks:
        await deployment.workers["b"].stop()
        await deployment.start_worker("b", "2")
        load = Load(desks, Random(random.random()), lanes)
        trouble = Trouble(deployment, Random(random.random()), every)
        samples = Samples(deployment, server)
        begun, busy = time.monotonic(), busy_seconds()
        carrying = asyncio.create_task(load.carry())
        beside = [asyncio.create_task(one) for one in (trouble.make(), samples.take())]
        try:
            await asyncio.wait(
                [carrying, *beside], timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            lasted, busy = time.monotonic() - begun, busy_seconds() - busy
            for one in (carrying, *beside):
                if one.done():
                    one.result()  # it does not end by itself
            beside[1].cancel()  # the end of the load is not measured
            load.is_over = True
            trouble.over.set()
            await asyncio.gather(carrying, beside[0])
        finally:
            for one in (carrying, *beside):
                one.cancel()
            await asyncio.gather(carrying, *beside, return_exceptions=True)
        return Report(
            seconds=lasted,
            seed=seed,
            trouble=dict(trouble.counts),
            growths=samples.growths(),
            cores=samples.cores(),
            machine_cores=busy / lasted,
            verdict=await verdict(deployment, desks, load.cases),
        )


def table(report: Report) -> str:
    """Return a report in Markdown."""
    lines = [
        f"{report.seconds / 3600:.2f} hours, seed {report.seed}: "
        + ", ".join(f"{name} {count} times" for name, count in sorted(report.trouble.items())),
        "",
        "| process | memory first, last, MB | growth, MB an hour | cores |",
        "|---|---:|---:|---:|",
    ]
    for name, one in report.growths.items():
        lines.append(
            f"| {name} | {one.first:.1f}, {one.last:.1f} | {one.per_hour:+.1f} ± "
            f"{one.uncertainty:.1f} | {report.cores[name]:.2f} |"
        )
    found = report.verdict
    lines += [
        "",
        (
            f"{found.cases} cases, {found.effects} effects and {found.decisions} decisions: each once. "
            f"{found.repeated} attempts of effects were repeated, {found.kept} decisions were kept for "
            f"a worker, {found.cut} requests were cut and sent again, {found.busy} were put off, "
            f"streams were opened {found.connections} times."
        ),
        f"The machine was busy with {report.machine_cores:.1f} cores in all.",
    ]
    return "\n".join(lines)


def main() -> int:
    """Soak and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hours", type=float, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lanes", type=int, default=6, help="cases at a time")
    parser.add_argument("--every", type=float, default=20, help="seconds between two troubles")
    parser.add_argument("--json", action="store_true", help="print every number instead of a table")
    options = parser.parse_args()
    if lacks := lacking():
        print(f"the cluster cannot be soaked here: {lacks}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="outlast-soak-") as home:
        seconds, seed = options.hours * 3600, options.seed
        found = asyncio.run(soak(seconds, seed, options.lanes, options.every, Path(home)))
    where: dict[str, Any] = surroundings()
    print(json.dumps({**asdict(found), **where}, indent=1) if options.json else table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
