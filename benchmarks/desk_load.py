"""Measures two desks with many open conversations, many waiting requests, and supporters at work.

    python -m benchmarks.desk_load [--conversations 1000,10000] [--waiting 1000] [--supporters 50]
    python -m benchmarks.desk_load table

PostgreSQL, the Temporal server, three workers on two versions and two desks are processes of their
own. First, conversations are opened that have answered and wait for their customer, and others that
wait for a person's decision. Then each supporter, half of them at each desk, does the same again and
again with a pause to think before each step: list the inbox, open a conversation of it, approve what
waits there, list the conversations, take one over, reply, give it back. Each has the live inbox open
all the time. Nothing is repeated: a request that fails or is refused is counted.

Several numbers of conversations are measured one after another on the same cluster. After `--within`
seconds no more are opened, and those that are there are measured.

The measurements are appended to `--out` (docs/scaling.json); `table` prints all of them. The exit
code is 1 if a request failed, or if an approval had its effect other than once.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import httpx2
from temporalio.client import Client

from benchmarks.cluster import FULL, OUT, lanes, numbers, server_version
from benchmarks.desk_agents import AGENT, QUEUE, Ledger
from benchmarks.desk_processes import Deployment, Desks, by, new_message_id, of_run
from benchmarks.postgres_cluster import PostgresCluster
from benchmarks.process_memory import Usage, busy_seconds, own_usage, usages
from benchmarks.surroundings import surroundings
from outlast import Runner

AT_ONCE = 40
"""How many conversations are opened side by side."""

LOOK_SECONDS = 0.5
PATIENCE_SECONDS = 600
STEPS: Final = {
    "inbox": "list the inbox",
    "open": "open a conversation",
    "approve": "approve its request",
    "list": "list the conversations",
    "hold": "take one over",
    "say": "reply",
    "release": "give it back",
}
"""What a supporter does, in this order."""


@dataclass
class Seen:
    """What came of the supporters' steps.

    Attributes:
        taken_ms: how long each step took.
        refused: steps that were refused because a colleague was faster.
        failed: what else went wrong, and how often.
        approved: how many requests were approved.
    """

    taken_ms: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    refused: Counter[str] = field(default_factory=Counter[str])
    failed: Counter[str] = field(default_factory=Counter[str])
    approved: int = 0


# --- Conversations -------------------------------------------------------------------------------


async def open_all(client: Client, kind: str, first: int, last: int, deadline: float) -> int:
    """Open conversations with these numbers, and return how many wait when all do.

    Args:
        client: connected to the server.
        kind: `help` for conversations at rest, `refund` for those that wait for a person.
        first: the number of the first one.
        last: the number after the last one.
        deadline: no conversation is opened after this time.
    """
    opened = first

    async def start(number: int) -> None:
        nonlocal opened
        if time.monotonic() > deadline:
            return
        opened += 1
        await Runner.start(
            AGENT,
            f"{kind} {kind}{number}",
            id=f"{kind}-{number}",
            keep_open=True,
            stream=True,
            client=client,
            task_queue=QUEUE,
        )

    await lanes(AT_ONCE, list(range(first, last)), start)
    waits = "OutlastPendingApprovals > 0 OR OutlastStatus = 'idle' OR OutlastStatus = 'held'"
    query = f"WorkflowId STARTS_WITH '{kind}-' AND ({waits})"
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (await client.count_workflows(query)).count < opened:  # noqa: ASYNC110  nothing announces it
            await asyncio.sleep(LOOK_SECONDS)
    return opened


# --- Supporters ----------------------------------------------------------------------------------


@dataclass
class Supporter:
    """A person at a desk, by script.

    Attributes:
        number: which one; even numbers sit at desk 0.
        desks: the desks.
        random: what they choose, and how long they think.
        think_s: how long they think before a step, on average.
        seen: what came of the steps of all of them.
    """

    number: int
    desks: Desks
    random: Random
    think_s: float
    seen: Seen

    async def work(self) -> None:
        """Do the same again and again, with the live inbox open."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch())
            group.create_task(self._steps())

    async def _watch(self) -> None:
        while True:
            with suppress(httpx2.TransportError):
                async with self.desks.stream(
                    "/api/inbox/events?mine=true", self.number, by(self._name)
                ) as response:
                    if response.status_code != 200:
                        self.seen.failed[f"live inbox: {response.status_code}"] += 1
                    async for _ in response.aiter_bytes():
                        pass
            await asyncio.sleep(1)

    async def _steps(self) -> None:
        while True:
            await self._approve_one()
            await self._answer_one()

    async def _approve_one(self) -> None:
        listed = await self._do("inbox", "GET", "/api/inbox?mine=true&urgent=true&limit=50")
        if not listed or not listed["items"]:
            return
        run_id = self.random.choice(listed["items"])["id"]
        run = await self._do("open", "GET", of_run(run_id))
        waiting = [one for one in run["requests"] if one["status"] == "pending"] if run else []
        if waiting:
            path = of_run(run_id, "requests", waiting[0]["id"], "decide")
            body = {"type": "approve", "digest": waiting[0]["digest"]}
            receipt = await self._do("approve", "POST", path, body)
            self.seen.approved += bool(receipt) and receipt["by"] == self._name

    async def _answer_one(self) -> None:
        listed = await self._do("list", "GET", "/api/conversations?status=idle&limit=50")
        if not listed or not listed["conversations"]:
            return
        run_id = self.random.choice(listed["conversations"])["id"]
        if await self._do("hold", "POST", of_run(run_id, "hold"), {}):
            said = {"text": f"{self._name} says hello.", "message_id": new_message_id()}
            await self._do("say", "POST", of_run(run_id, "say"), said)
            await self._do("release", "POST", of_run(run_id, "release"), {"note": "All is well."})

    @property
    def _name(self) -> str:
        return f"supporter-{self.number}"

    async def _do(self, step: str, method: str, path: str, body: Any = None) -> Any:
        """Think, do a step, note how long it took, and return the answer; None if there is none."""
        await asyncio.sleep(self.random.uniform(0.5, 1.5) * self.think_s)
        begin = time.perf_counter()
        try:
            answer = await self.desks.once(method, path, self.number, by(self._name), body)
        except httpx2.TransportError as error:
            self.seen.failed[f"{step}: {type(error).__name__}"] += 1
            return None
        if answer.status == 409:
            self.seen.refused[step] += 1
            return None
        if answer.status >= 300:
            self.seen.failed[f"{step}: {answer.status}"] += 1
            return None
        taken = (time.perf_counter() - begin) * 1000
        self.seen.taken_ms.setdefault(step, []).append(taken)
        return answer.body


async def work_for(seconds: float, supporters: list[Supporter]) -> None:
    """Let supporters work for some seconds."""
    working = [asyncio.create_task(one.work()) for one in supporters]
    try:
        done, _ = await asyncio.wait(working, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for one in done:
            one.result()  # nobody ends by themselves
    finally:
        for one in working:
            one.cancel()
        await asyncio.gather(*working, return_exceptions=True)


# --- Measuring -----------------------------------------------------------------------------------


async def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Open conversations, let supporters work, and read what each process has used."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="outlast-desk-load-") as home:
        async with PostgresCluster() as server:
            client = await Client.connect(server.address)
            async with Deployment(client, server.address, Path(home)) as deployment:
                for name, build in (("a", "1"), ("b", "1"), ("c", "2")):
                    await deployment.start_worker(name, build)
                await deployment.choose("1")
                for _ in range(2):
                    await deployment.start_desk()
                begun = time.monotonic()
                deadline = begun + options.within
                opened = waiting = 0
                where = surroundings(await server_version(client))
                for wanted in options.conversations:
                    # Those that were approved are at rest; others take their places.
                    last = waiting + options.waiting - await count_waiting(client)
                    waiting = await open_all(client, "refund", waiting, last, deadline)
                    opened = await open_all(client, "help", opened, wanted, deadline)
                    row: dict[str, Any] = {
                        "conversations": opened,
                        "waiting": await count_waiting(client),
                        "supporters": options.supporters,
                        "think_s": options.think,
                        "opened_after_s": time.monotonic() - begun,
                        **await measure_desks(options, deployment, server),
                        **where,
                    }
                    print(table([row]), flush=True)
                    rows.append(row)
    return rows


async def count_waiting(client: Client) -> int:
    """Return how many conversations wait for a decision."""
    return (await client.count_workflows("OutlastPendingApprovals > 0")).count


async def measure_desks(
    options: argparse.Namespace, deployment: Deployment, server: PostgresCluster
) -> dict[str, Any]:
    """Let supporters work at the desks, first for a moment without a measurement."""
    roots = {
        **{one.name: one.pid for one in [*deployment.desks, *deployment.workers.values()]},
        "server": server.server_pid,
        "postgres": server.postgres_pid,
    }
    earlier = len(Ledger(deployment.home / "ledger.db").effects())
    async with Desks(deployment.ports) as desks:
        team = [
            Supporter(number, desks, Random(number), options.think, Seen())
            for number in range(options.supporters)
        ]
        await work_for(options.warm_up, team)
        warm = sum(one.seen.approved for one in team)
        seen = Seen()
        for one in team:
            one.seen = seen
        before, busy, begin = _used(roots), busy_seconds(), time.monotonic()
        await work_for(options.seconds, team)
        seconds, after = time.monotonic() - begin, _used(roots)
        busy = (busy_seconds() - busy) / seconds
    # Supporters who were stopped in the middle of a step have acted, and have no receipt.
    approved = earlier + warm + seen.approved
    wrong = await effects_that_differ(deployment, approved, len(team))
    return {
        "seconds": seconds,
        **summary(seen, before, after, busy),
        "effects_wrong": wrong,
    }


def _used(roots: dict[str, int]) -> dict[str, Usage]:
    """Return what all processes use, with this one, in which the supporters are."""
    return {**usages(roots), "supporters": own_usage()}


async def effects_that_differ(deployment: Deployment, approved: int, spared: int) -> int:
    """Return how many approvals had their effect other than once, within a minute."""
    ledger, wrong = Ledger(deployment.home / "ledger.db"), approved
    for _ in range(int(60 / LOOK_SECONDS)):
        done = [attempts for rows in ledger.effects().values() for _, attempts in rows]
        missing, more = max(0, approved - len(done)), max(0, len(done) - approved - 2 * spared)
        wrong = missing + more + sum(attempts > 1 for attempts in done)
        if not wrong:
            break
        await asyncio.sleep(LOOK_SECONDS)
    return wrong


def summary(
    seen: Seen, before: dict[str, Usage], after: dict[str, Usage], busy: float
) -> dict[str, Any]:
    """Return the figures of a measurement."""
    cores = {
        name: (one.cpu_s - before[name].cpu_s) / (one.at_s - before[name].at_s)
        for name, one in after.items()
    }
    steps = {
        step: {
            "count": len(taken),
            "p50_ms": statistics.median(taken),
            "p95_ms": statistics.quantiles(taken, n=20)[-1] if len(taken) > 1 else taken[0],
        }
        for step, taken in seen.taken_ms.items()
    }
    return {
        "steps": steps,
        "refused": dict(seen.refused),
        "failed": dict(seen.failed),
        "cores": cores,
        "memory_mb": {name: one.memory_mb for name, one in after.items()},
        "machine_cores": busy,
        "others_cores": busy - sum(cores.values()),
        "full": full(cores, busy),
    }


def full(cores: dict[str, float], busy: float) -> str:
    """Name what is full first: a process that has one core, or the machine."""
    single = {name: used for name, used in cores.items() if name.startswith(("desk", "worker"))}
    most = max(single, key=lambda name: single[name])
    if single[most] >= FULL:
        return f"{most}: its one core"
    machine = os.cpu_count() or 1
    if busy >= FULL * machine:
        every = {**cores, "other programs": busy - sum(cores.values())}
        ranked = sorted(every, key=lambda name: -every[name])
        return f"the {machine} cores of the machine: most for {ranked[0]}, then {ranked[1]}"
    return "nothing"


def table(measured: list[dict[str, Any]]) -> str:
    """Return all measurements in Markdown."""
    lines: list[str] = []
    for one in measured:
        per_s = sum(step["count"] for step in one["steps"].values()) / one["seconds"]
        lines += [
            (
                f"{one['conversations']:,} open conversations, {one['waiting']:,} waiting requests, "
                f"{one['supporters']} supporters, {per_s:.1f} steps per second. {one['date']}; other "
                f"programs kept {one['others_cores']:.1f} cores busy. Full: {one['full']}. "
                f"Refused: {one['refused']}. Failed: {one['failed']}."
            ),
            "",
            "| step | times | median, ms | 95 %, ms |",
            "|---|---:|---:|---:|",
        ]
        for step, words in STEPS.items():
            if step in one["steps"]:
                row = one["steps"][step]
                lines.append(
                    f"| {words} | {row['count']} | {row['p50_ms']:,.0f} | {row['p95_ms']:,.0f} |"
                )
        lines += ["", "| process | cores | memory, MB |", "|---|---:|---:|"]
        lines += [
            f"| {name} | {cores:.2f} | {one['memory_mb'][name]:.0f} |"
            for name, cores in one["cores"].items()
        ]
        lines.append("")
    return "\n".join(lines)


def main() -> int:
    """Measure and append, or print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", nargs="?", choices=("measure", "table"), default="measure")
    parser.add_argument("--conversations", type=numbers, default=[1_000], help="open, at rest")
    parser.add_argument("--waiting", type=int, default=1_000, help="that wait for a decision")
    parser.add_argument("--supporters", type=int, default=50)
    parser.add_argument("--think", type=float, default=5, help="seconds before a step, on average")
    parser.add_argument("--seconds", type=float, default=120, help="how long supporters work")
    parser.add_argument("--warm-up", type=float, default=15, help="seconds before that")
    parser.add_argument("--within", type=float, default=3600, help="s; then no more are opened")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    measured: dict[str, list[dict[str, Any]]] = (
        json.loads(options.out.read_text()) if options.out.exists() else {}
    )
    if options.what == "table":
        print(table(measured.get("desk", [])))
        return 0
    found = asyncio.run(measure(options))
    measured.setdefault("desk", []).extend(found)
    options.out.write_text(json.dumps(measured, indent=1) + "\n")
    return int(any(one["failed"] or one["effects_wrong"] for one in found))


if __name__ == "__main__":
    sys.exit(main())
