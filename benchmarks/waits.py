"""Measures calls that wait for something outside of their runs: memory, deliveries and actions.

    python benchmarks/waits.py [--waits 10000] [--deliveries 1000] [--minutes 10] [--json]

The worker and the Temporal server are processes of their own. Each run calls one tool, which waits.
The memory of both is measured without runs and with all of them parked. Then values are delivered:
first some one after the other, from the call of `finish` to its receipt and to the run's answer; then
many at once. The billable actions of a wait are those of such a run beyond those of a run whose tool
returns at once. After so many minutes no more runs are started: the figures are then of fewer. The
exit code is 1 where a limit is missed.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

from temporalio.client import Client

from benchmarks.actions import count_actions
from benchmarks.processes import Child
from benchmarks.surroundings import OtherPrograms, surroundings
from outlast import Agent, RunHandle, Runner, ToolContext, function_tool
from outlast.client import finish
from outlast.contract import names
from outlast.dev import EmbeddedServer
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, say
from outlast.worker import AgentWorker

QUEUE: Final = "waits"
AT_ONCE: Final = 40
"""How many runs are started at a time."""

ONE_BY_ONE: Final = 100
"""How many values are delivered one after the other."""

LIMITS: Final = {"receipt_p95_ms": 500.0, "lost": 0.0, "actions": 5.0}
BATCH: Final = 500
"""How many runs are started before the next line about the progress."""

ROWS: Final = {
    "parked": ("runs that wait", "{:,.0f}"),
    "park_s": ("until all of them wait, s", "{:,.0f}"),
    "worker_kb": ("memory of the worker for each, kB", "{:.1f}"),
    "server_kb": ("memory of the server for each, kB", "{:.1f}"),
    "quiet_cores": ("CPU of worker and server while they wait, cores", "{:.3f}"),
    "receipt_p50_ms": ("from a delivery to its receipt, one by one: median, ms", "{:.0f}"),
    "receipt_p95_ms": ("the same, 95 %, ms", "{:.0f}"),
    "answer_p50_ms": ("from a delivery to the run's answer: median, ms", "{:.0f}"),
    "answer_p95_ms": ("the same, 95 %, ms", "{:.0f}"),
    "at_once": ("deliveries at once", "{:,.0f}"),
    "at_once_s": ("until all of these runs have answered, s", "{:.1f}"),
    "lost": ("deliveries that were lost or counted twice", "{:,.0f}"),
    "actions": ("billable actions of a wait", "{:.0f}"),
}


@function_tool
async def courier(ctx: ToolContext[Any], order: str) -> Any:
    """Send a courier.

    Args:
        order: The order; `now` needs none.
    """
    return "at once" if order == "now" else ctx.wait_for("courier", timeout=None, schema=str)


AGENT: Final = Agent[Any](name="Dispatch", tools=[courier])


def reply(request: ModelRequest) -> Any:
    """Call the tool for the order that the question names, then say what came of it."""
    output = [str(item["output"]) for item in request.input if "output" in item]
    if output:
        return say(output[0])
    return [call("courier", "c1", order=str(request.input[0]["content"]))]


async def work(address: str) -> None:
    """Carry the runs, until standard input ends."""
    client = await Client.connect(address)
    async with AgentWorker(
        client, agents=[AGENT], task_queue=QUEUE, model_provider=ScriptedModel(always=reply)
    ):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


def memory_kb(pid: int) -> float:
    """Return the resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1024


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def start(client: Client, number: int, turn: asyncio.Semaphore) -> RunHandle:
    """Start a run."""
    async with turn:
        return await Runner.start(
            AGENT, f"A-{number}", id=f"run-{number}", client=client, task_queue=QUEUE
        )


async def park(client: Client, numbers: range, others: int) -> list[RunHandle]:
    """Start runs, and wait until they are parked, as the server counts them beside others."""
    turn = asyncio.Semaphore(AT_ONCE)
    handles = await asyncio.gather(*(start(client, one, turn) for one in numbers))
    while True:
        found = await client.count_workflows(f"{names.ATTRIBUTE_STATUS} = 'parked'")
        if found.count >= others + len(handles):
            return handles
        await asyncio.sleep(0.2)


async def park_all(client: Client, waits: int, minutes: float) -> list[RunHandle]:
    """Park runs in batches, until there are enough or the time is over; say how it goes."""
    began, handles = time.perf_counter(), list[RunHandle]()
    while len(handles) < waits and time.perf_counter() - began < minutes * 60:
        batch = range(len(handles), min(len(handles) + BATCH, waits))
        handles += await park(client, batch, AT_ONCE + len(handles))
        seconds = time.perf_counter() - began
        print(f"{len(handles):,} runs wait after {seconds:,.0f} s", file=sys.stderr, flush=True)
    return handles


async def deliver(client: Client, handle: RunHandle, value: str) -> tuple[float, float, bool]:
    """Deliver a value; return the times to the receipt and the answer, and whether it counted."""
    [wait] = await handle.pending_waits()
    begun = time.perf_counter()
    await finish(wait.token, value, client=client)
    receipt = time.perf_counter() - begun
    result = await handle.result()
    return receipt * 1000, (time.perf_counter() - begun) * 1000, result.final_output == value


async def actions_of(client: Client, run_id: str) -> Counter[str]:
    """Return the billable actions of a run."""
    history = await client.get_workflow_handle(run_id).fetch_history()
    return count_actions(history.events)


async def measure(wanted: int, deliveries: int, minutes: float) -> dict[str, float]:
    """Measure everything."""
    async with EmbeddedServer(ui_port=None, search_attributes=names.SEARCH_ATTRIBUTES) as server:
        client = await Client.connect(server.address)
        async with Child("benchmarks/waits.py", "--work", server.address) as worker:
            pids = (worker.pid, server.info.pid)
            others = OtherPrograms([*pids, os.getpid()])
            await park(client, range(-AT_ONCE, 0), 0)  # warm
            before = [memory_kb(pid) for pid in pids]
            began = time.perf_counter()
            handles = await park_all(client, wanted, minutes)
            park_s, waits = time.perf_counter() - began, len(handles)
            after = [memory_kb(pid) for pid in pids]
            spent, begun = sum(map(cpu_seconds, pids)), time.perf_counter()
            await asyncio.sleep(5)
            quiet = (sum(map(cpu_seconds, pids)) - spent) / (time.perf_counter() - begun)
            single = [await deliver(client, one, f"to {one.id}") for one in handles[:ONE_BY_ONE]]
            many = handles[ONE_BY_ONE : ONE_BY_ONE + deliveries]
            begun = time.perf_counter()
            together = await asyncio.gather(*(deliver(client, one, f"to {one.id}") for one in many))
            at_once_s = time.perf_counter() - begun
            plain = await Runner.run(AGENT, "now", id="plain", client=client, task_queue=QUEUE)
            waited = await actions_of(client, handles[0].id)
            print(f"other programs: {others.cores()} cores; {dict(waited)}", file=sys.stderr)
            receipts, answers = [one[0] for one in single], [one[1] for one in single]
            return {
                "parked": waits,
                "park_s": park_s,
                "worker_kb": (after[0] - before[0]) / waits,
                "server_kb": (after[1] - before[1]) / waits,
                "quiet_cores": quiet,
                "receipt_p50_ms": statistics.median(receipts),
                "receipt_p95_ms": statistics.quantiles(receipts, n=20)[-1],
                "answer_p50_ms": statistics.median(answers),
                "answer_p95_ms": statistics.quantiles(answers, n=20)[-1],
                "at_once": len(many),
                "at_once_s": at_once_s,
                "lost": sum(not counted for *_, counted in (*single, *together)),
                "actions": waited.total() - (await actions_of(client, plain.run_id)).total(),
            }


def main() -> int:
    """Print the figures; return 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--waits", type=int, default=10_000)
    parser.add_argument("--deliveries", type=int, default=1_000, help="how many at once")
    parser.add_argument("--minutes", type=float, default=10, help="how long runs are started")
    parser.add_argument("--json", action="store_true", help="print every number instead of a table")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.work:
        asyncio.run(work(chosen.work))
        return 0
    found = asyncio.run(measure(chosen.waits, chosen.deliveries, chosen.minutes))
    if chosen.json:
        print(json.dumps({**surroundings(), **found}))
    else:
        print("| | outlast | at most |\n|---|---:|---:|")
        for row, (label, form) in ROWS.items():
            limit = form.format(LIMITS[row]) if row in LIMITS else ""
            print(f"| {label} | {form.format(found[row])} | {limit} |")
        print(f"\n{', '.join(surroundings().values())}")
    missed = [row for row, limit in LIMITS.items() if found[row] > limit]
    for row in missed:
        print(f"limit missed: {ROWS[row][0]}: {found[row]:.2f}", file=sys.stderr)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
