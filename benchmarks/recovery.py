"""Measures recovery: many waiting runs are decided at once, on workers with empty caches.

    python benchmarks/recovery.py [--conversations 300] [--kill-every SECONDS] [--json]

In each run, a tool call needs a person after four of five turns. Then the worker is killed
(SIGKILL), every call is approved while no worker runs, and a new worker starts: it has to replay
every run, make the call, and call the model for the answer. With `--kill-every`, this worker and
each of its successors is killed that many seconds after it was ready, and replaced by another.

After `--within` seconds no worker is killed any more, and one more worker finishes the remaining
runs: a late run is not a lost run. The calls write to an SQLite file under their idempotency keys.
Server, model and worker are processes of their own. The exit code is 1 if a run is lost, if a side
effect happened twice, or if not all runs are done within `--within`.
"""

import argparse
import asyncio
import json
import os
import resource
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, closing
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

from temporalio.api.enums.v1 import TimeoutType
from temporalio.api.workflowservice.v1 import GetSystemInfoRequest
from temporalio.client import Client

from benchmarks.model_server import question
from benchmarks.processes import Child
from benchmarks.surroundings import OtherPrograms, surroundings
from outlast import Agent, RunConfig, Runner, function_tool
from outlast.agents.context.wrapper import ToolContext
from outlast.client import RunHandle
from outlast.contract import names
from outlast.dev import EmbeddedServer
from outlast.models import OpenAIProvider
from outlast.worker import AgentWorker

TURNS = 5
APPROVED = TURNS - 2
"""The number of the last call: the model answers in the turn after it."""

HERE = Path(__file__).parent
QUEUE = "bench-recovery"
AT_ONCE = 25
"""How many runs are started, decided or read side by side."""

LOOK_SECONDS = 0.25
PATIENCE_SECONDS = 600


@dataclass(slots=True)
class Outcome:
    """What was measured.

    Attributes:
        done_s: seconds from the start of the new worker's process to the end of the last run.
        first_s: seconds until the first run had ended.
        half_s: seconds until half of them had.
        done: how many runs ended while workers were killed, or within the time for it.
        lost: runs that ended otherwise than with their answer, and outputs and effects missing.
        doubled: answers, outputs and effects that are there twice.
        kills: how many workers were killed after the decisions.
        start_s: seconds that each worker took to be ready.
        held: workflow tasks that took longer than their 10 s, mostly with a worker that died.
        sticky: workflow tasks that waited in vain for the worker that had, or has, the run cached.
        repeated: activities that took more than one attempt.
        others_cores: the number of cores that other programs kept busy; None if unknown.
    """

    done_s: float = 0.0
    first_s: float = 0.0
    half_s: float = 0.0
    done: int = 0
    lost: int = 0
    doubled: int = 0
    kills: int = 0
    start_s: list[float] = field(default_factory=list[float])
    held: int = 0
    sticky: int = 0
    repeated: int = 0
    others_cores: float | None = None


# --- The worker ---------------------------------------------------------------------------------


def make_ledger(path: str) -> None:
    """Make the file in which the calls leave their effects."""
    with closing(sqlite3.connect(path)) as ledger:
        ledger.execute("PRAGMA journal_mode=WAL")
        ledger.execute("CREATE TABLE effects (key TEXT PRIMARY KEY)")


def agent_of(path: str) -> Agent[Any]:
    """Return the agent whose last call of five turns needs a person."""

    async def is_last(_context: Any, arguments: dict[str, Any], _call_id: str) -> bool:
        return arguments["number"] == APPROVED

    @function_tool(needs_approval=is_last)
    def note(context: ToolContext[Any], number: int) -> str:
        """Keep a note.

        Args:
            context: the call's.
            number: The number of the note.
        """
        with closing(sqlite3.connect(path, timeout=30)) as ledger, ledger:
            ledger.execute("INSERT OR IGNORE INTO effects VALUES (?)", (context.idempotency_key,))
        return f"note {number}"

    return Agent(name="Notes", instructions="You keep notes.", tools=[note])


async def work(address: str, model_url: str, ledger: str, sticky_s: float) -> None:
    """Be a worker, until standard input ends."""
    client = await Client.connect(address)
    async with AgentWorker(
        client,
        agents=[agent_of(ledger)],
        task_queue=QUEUE,
        model_provider=OpenAIProvider(base_url=model_url, api_key="none"),
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=sticky_s),
    ):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        os._exit(0)


# --- The measurement ----------------------------------------------------------------------------


async def every(ids: list[str], act: Callable[[str], Awaitable[None]]) -> None:
    """Do something for each run, some at a time."""
    waiting = iter(ids)

    async def lane() -> None:
        for run_id in waiting:
            await act(run_id)

    await asyncio.gather(*(lane() for _ in range(AT_ONCE)))


async def counted(client: Client, condition: str) -> int:
    """Return how many runs the server finds."""
    return (await client.count_workflows(f"WorkflowType = 'AgentRun' AND {condition}")).count


async def park(client: Client, ids: list[str], heartbeat: timedelta) -> None:
    """Start the runs, and wait until each waits for a person."""

    async def start(run_id: str) -> None:
        await Runner.start(
            "Notes",
            question(TURNS),
            id=run_id,
            client=client,
            task_queue=QUEUE,
            run_config=RunConfig(heartbeat_timeout=heartbeat),
        )

    await every(ids, start)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await counted(client, "OutlastPendingApprovals > 0") < len(ids):  # noqa: ASYNC110  nothing announces it
            await asyncio.sleep(LOOK_SECONDS)


async def decide(client: Client, ids: list[str]) -> None:
    """Approve every call, while no worker runs."""
    decision = {"request_id": "a1", "type": "approve", "by": "ann"}

    async def approve(run_id: str) -> None:
        await client.get_workflow_handle(run_id).signal("decide", decision)

    await every(ids, approve)


async def watch(client: Client, outcome: Outcome, total: int) -> None:
    """Note when the runs end, until all have."""
    begin = time.monotonic()
    done = 0
    while done < total:
        await asyncio.sleep(LOOK_SECONDS)
        done = await counted(client, "ExecutionStatus != 'Running'")
        outcome.done_s = time.monotonic() - begin
        if not outcome.first_s and done:
            outcome.first_s = outcome.done_s
        if not outcome.half_s and done >= total / 2:
            outcome.half_s = outcome.done_s
        outcome.done = done


async def serve(arguments: list[str], outcome: Outcome, kill_every: float | None) -> None:
    """Keep a worker running until cancelled, killing it and starting another now and then."""
    while True:
        spawned = time.monotonic()
        child = Child(*arguments)
        try:
            await child.__aenter__()
            outcome.start_s.append(time.monotonic() - spawned)
            async with asyncio.timeout(kill_every):
                await asyncio.Event().wait()
        except TimeoutError:
            child.kill()
            outcome.kills += 1
        finally:
            await child.__aexit__(None, None, None)


async def finish(
    client: Client, arguments: list[str], outcome: Outcome, options: argparse.Namespace
) -> None:
    """Let killed workers do part of the work, and a last worker the rest."""
    serving = asyncio.create_task(serve(arguments, outcome, options.kill_every))
    try:
        async with asyncio.timeout(options.within):
            await watch(client, outcome, options.conversations)
    except TimeoutError:
        in_time, kills = outcome.done, outcome.kills
        print(f"{in_time} of {options.conversations} in {options.within:.0f} s", file=sys.stderr)
        serving.cancel()
        await asyncio.wait([serving])
        serving = asyncio.create_task(serve(arguments, outcome, None))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await watch(client, outcome, options.conversations)
        outcome.done, outcome.kills = in_time, kills
    finally:
        serving.cancel()
        await asyncio.wait([serving])


async def examine(client: Client, ids: list[str], ledger: Path, outcome: Outcome) -> None:
    """Read every history and the ledger, and count missing and repeated side effects."""

    async def read(run_id: str) -> None:
        state = await RunHandle(client, run_id).state()
        outputs = sum(item.kind == "tool_output" for item in state.items)
        outcome.lost += state.status != "completed"
        outcome.lost += max(0, TURNS - 1 - outputs) + max(0, 1 - len(state.answers))
        outcome.doubled += max(0, outputs - TURNS + 1) + max(0, len(state.answers) - 1)
        async for event in client.get_workflow_handle(run_id).fetch_history_events():
            over = event.workflow_task_timed_out_event_attributes.timeout_type
            outcome.held += over == TimeoutType.TIMEOUT_TYPE_START_TO_CLOSE
            outcome.sticky += over == TimeoutType.TIMEOUT_TYPE_SCHEDULE_TO_START
            outcome.repeated += event.activity_task_started_event_attributes.attempt > 1

    await every(ids, read)
    with closing(sqlite3.connect(ledger)) as file:
        (effects,) = file.execute("SELECT COUNT(*) FROM effects").fetchone()
    missing = len(ids) * (TURNS - 1) - effects
    outcome.lost += max(0, missing)
    outcome.doubled += max(0, -missing)


async def measure(options: argparse.Namespace) -> tuple[Outcome, str]:
    """Park, kill, decide and wait; return what came of it and the server's version."""
    outcome = Outcome()
    ids = [f"recovery-{number}" for number in range(options.conversations)]
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        ledger = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "ledger.db"
        make_ledger(str(ledger))
        server = await enter(
            EmbeddedServer(ui_port=None, search_attributes=names.SEARCH_ATTRIBUTES)
        )
        model = await enter(Child(str(HERE / "model_server.py")))
        client = await Client.connect(server.address)
        worker = [__file__, "--worker", server.address, model.greeting, str(ledger)]
        worker += ["--sticky", str(options.sticky)]
        async with Child(*worker) as first:
            await park(client, ids, timedelta(seconds=options.heartbeat))
            first.kill()
        await decide(client, ids)
        others, begin, workers = (
            OtherPrograms([model.pid, server.info.pid]),
            time.monotonic(),
            cpu(),
        )
        await finish(client, worker, outcome, options)
        busy, seconds = others.cores(), time.monotonic() - begin
        if busy is not None:
            outcome.others_cores = busy - (cpu() - workers) / seconds
        await examine(client, ids, ledger, outcome)
        system = await client.workflow_service.get_system_info(GetSystemInfoRequest())
    return outcome, system.server_version


def cpu() -> float:
    """Return the seconds of CPU of all workers that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def table(outcome: Outcome, options: argparse.Namespace, server: str) -> str:
    """Return the measurements as a Markdown table."""
    where = surroundings(server)
    busy = "?" if outcome.others_cores is None else f"{outcome.others_cores:.1f}"
    killed = f"{options.kill_every:g} s after it is ready" if options.kill_every else "never"
    rows = {
        "the worker is killed": killed,
        f"done within {options.within:.0f} s": f"{outcome.done} of {options.conversations}",
        "the first, half of them, all are done after, s": (
            f"{outcome.first_s:.0f}, {outcome.half_s:.0f}, {outcome.done_s:.0f}"
        ),
        "lost": outcome.lost,
        "doubled": outcome.doubled,
        "kills": outcome.kills,
        "a worker is ready after, median, s": f"{median(outcome.start_s or [0]):.1f}",
        "workflow tasks not done within their 10 s": outcome.held,
        "workflow tasks taken from the worker that had cached the run": outcome.sticky,
        "activities with more than one attempt": outcome.repeated,
        "cores that other programs kept busy": busy,
    }
    lines = ["| | |", "|---|---:|", *(f"| {name} | {value} |" for name, value in rows.items())]
    return "\n".join([*lines, "", f"{where['date']}; {where['machine']}; {where['versions']}."])


def main() -> int:
    """Measure and print, or be a worker."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--conversations", type=int, default=300)
    parser.add_argument("--kill-every", type=float, help="seconds; default is never")
    parser.add_argument("--within", type=float, default=300, help="seconds until kills stop")
    parser.add_argument("--heartbeat", type=float, default=10, help="seconds; RunConfig's option")
    parser.add_argument("--sticky", type=float, default=5, help="seconds; the worker's option")
    parser.add_argument("--json", action="store_true", help="print numbers instead of a table")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        asyncio.run(work(*options.worker, sticky_s=options.sticky))
    outcome, server = asyncio.run(measure(options))
    numbers = {**vars(options), **asdict(outcome), **surroundings(server)}
    print(json.dumps(numbers, indent=2) if options.json else table(outcome, options, server))
    return 1 if outcome.lost or outcome.doubled or outcome.done < options.conversations else 0


if __name__ == "__main__":
    sys.exit(main())
