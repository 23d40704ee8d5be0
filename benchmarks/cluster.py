"""Measures where one machine ends: worker processes on a Temporal server with PostgreSQL.

    python benchmarks/cluster.py throughput [--processes 1,2,4] [--concurrency 5,20,60]
    python benchmarks/cluster.py conversations [--conversations 1000] [--processes 2]
    python benchmarks/cluster.py table

The first two append a measurement to `--out` (docs/scaling.json), so that a long measurement can be
made in pieces; `table` prints the medians of all. Everything runs on this machine: PostgreSQL, the
Temporal server (see `postgres_cluster.py`), the model, the workers (`outlast worker --processes`)
and the client.

`throughput` carries runs of eight turns, so many at a time, and reads the CPU time of each part.

`conversations` opens conversations that answer a question and wait. Then, `--repeats` times, all
workers are killed (SIGKILL), others start with empty caches, and each conversation gets one message.
The exit code is 1 if an answer or message is lost or doubled, or if a workflow task failed.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from temporalio.api.enums.v1 import EventType, TimeoutType
from temporalio.client import Client

from benchmarks.actions import count_actions
from benchmarks.cluster_agents import QUEUE
from benchmarks.model_server import question
from benchmarks.postgres_cluster import ROOT, PostgresCluster
from benchmarks.processes import Child
from benchmarks.surroundings import surroundings
from benchmarks.worker import AGENT
from outlast import Runner
from outlast.client import RunHandle
from outlast.client.handle import progress_of

TURNS = 8
HERE = Path(__file__).parent
OUT = ROOT / "docs" / "scaling.json"
TICKS = os.sysconf("SC_CLK_TCK")
PATIENCE_SECONDS = 300
AT_ONCE = 50
"""How many conversations are opened, written to or read side by side."""

FULL = 0.85
"""The share of a core, or of the machine, from which it counts as the bottleneck."""


# --- The parts -----------------------------------------------------------------------------------


@dataclass(slots=True)
class Parts:
    """The processes of a measurement: the first one of each part, with its children.

    Attributes:
        cluster: PostgreSQL and the Temporal server.
        model: the scripted model.
        workers: the first process of the workers; 0 while there are none.
    """

    cluster: PostgresCluster
    model: Child
    workers: int = 0

    def spent(self) -> dict[str, float]:
        """Return the seconds of CPU of each part so far."""
        roots = {
            "workers": self.workers,
            "server": self.cluster.server_pid,
            "postgres": self.cluster.postgres_pid,
            "model": self.model.pid,
        }
        children = children_of_all()
        spent = {part: tree_seconds(root, children) for part, root in roots.items() if root}
        return {**spent, "client": time.process_time(), "machine": _machine_seconds()}


def _stat(pid: int) -> list[str]:
    # The name before the last parenthesis may hold spaces.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def children_of_all() -> dict[int, list[int]]:
    """Return the living children of every process."""
    found: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found.setdefault(int(_stat(int(entry.name))[1]), []).append(int(entry.name))
    return found


def tree_seconds(root: int, children: dict[int, list[int]]) -> float:
    """Return the CPU time of a process, its living descendants, and the children that ended."""
    try:
        # user, system, and those of children that were waited for
        ticks = sum(int(one) for one in _stat(root)[11:15])
    except OSError:
        return 0.0
    return ticks / TICKS + sum(tree_seconds(one, children) for one in children.get(root, ()))


def _machine_seconds() -> float:
    """Return the CPU time of everything on this machine."""
    fields = [int(one) for one in Path("/proc/stat").read_text().split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / TICKS


@asynccontextmanager
async def parts() -> AsyncGenerator[Parts]:
    """Start everything but the workers."""
    async with PostgresCluster() as cluster, Child(str(HERE / "model_server.py")) as model:
        yield Parts(cluster, model)


@asynccontextmanager
async def workers(everything: Parts, processes: int) -> AsyncGenerator[list[int]]:
    """Start worker processes, wait until they poll, and yield the ids of all their processes."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "outlast.cli.entry", "worker", "benchmarks.cluster_agents"),
        *("--app-dir", str(ROOT), "--address", everything.cluster.address, "--json"),
        *("--any-key", "--processes", str(processes)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "BENCH_MODEL_URL": everything.model.greeting},
        cwd=ROOT,
    )
    assert process.stdout is not None
    everything.workers = process.pid
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            lines = [await process.stdout.readline() for _ in range(processes)]
        yield [*{process.pid, *(json.loads(line)["pid"] for line in lines)}]
    finally:
        everything.workers = 0
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def lanes(count: int, items: list[Any], act: Callable[[Any], Awaitable[None]]) -> None:
    """Do something for each item, so many at a time."""
    waiting = iter(items)

    async def lane() -> None:
        for item in waiting:
            await act(item)

    await asyncio.gather(*(lane() for _ in range(count)))


# --- Throughput ----------------------------------------------------------------------------------


async def measure_throughput(options: argparse.Namespace) -> dict[str, Any]:
    """Carry runs of eight turns with each number of processes and each concurrency."""
    rows: list[dict[str, Any]] = []
    async with parts() as everything:
        client = await Client.connect(everything.cluster.address)
        for processes in options.processes:
            async with workers(everything, processes):
                await carry(client, 5 * processes, 5)  # warm
                for concurrency in options.concurrency * options.repeats:
                    rows.append(await measure_row(everything, client, processes, concurrency))
                    print(json.dumps(rows[-1]), file=sys.stderr)
        return {"rows": rows, **surroundings(await server_version(client))}


async def carry(client: Client, runs: int, concurrency: int) -> None:
    """Carry runs, so many at a time."""

    async def run(_number: int) -> None:
        handle = await Runner.start(
            AGENT, question(TURNS), max_turns=None, client=client, task_queue=QUEUE
        )
        await client.get_workflow_handle(handle.id).result()

    await lanes(concurrency, list(range(runs)), run)


async def measure_row(
    everything: Parts, client: Client, processes: int, concurrency: int
) -> dict[str, Any]:
    """Measure runs per second, and the cores that each part kept busy."""
    runs = max(24, concurrency)
    database = _database(everything.cluster)
    before, begin = everything.spent(), time.perf_counter()
    await carry(client, runs, concurrency)
    seconds = time.perf_counter() - begin
    spent = everything.spent()
    cores = {part: (spent[part] - before[part]) / seconds for part in spent}
    turns = runs * TURNS
    grown = {name: value - database[name] for name, value in _database(everything.cluster).items()}
    return {
        "processes": processes,
        "concurrency": concurrency,
        "runs": runs,
        "runs_per_s": runs / seconds,
        "turns_per_s": turns / seconds,
        "cores": cores,
        "others_cores": cores["machine"] - sum(v for k, v in cores.items() if k != "machine"),
        "cpu_ms_per_turn": {
            part: value * seconds / turns * 1000
            for part, value in cores.items()
            if part != "machine"
        },
        "commits_per_turn": grown["commits"] / turns,
        "wal_bytes_per_turn": grown["wal_bytes"] / turns,
        "bottleneck": bottleneck(cores, processes),
    }


def bottleneck(cores: dict[str, float], processes: int) -> str:
    """Name what keeps a measurement from being faster."""
    if cores["workers"] / processes >= FULL:
        return "the worker's interpreter: one core" if processes == 1 else "the workers' cores"
    machine = os.cpu_count() or 1
    if cores["machine"] >= FULL * machine:
        most = sorted(
            ("workers", "server", "postgres", "model", "client"), key=lambda part: -cores[part]
        )
        return f"the {machine} cores of the machine: most for {most[0]}, then {most[1]}"
    return "nothing is full: round trips and commits that runs wait for"


def _database(cluster: PostgresCluster) -> dict[str, float]:
    commits = cluster.query("select sum(xact_commit) from pg_stat_database")
    wal = cluster.query("select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')")
    return {"commits": float(commits), "wal_bytes": float(wal)}


async def server_version(client: Client) -> str:
    """Return the version of the Temporal server."""
    from temporalio.api.workflowservice.v1 import GetSystemInfoRequest

    return (await client.workflow_service.get_system_info(GetSystemInfoRequest())).server_version


# --- Conversations -------------------------------------------------------------------------------


@dataclass(slots=True)
class Outcome:
    """What came of open conversations whose workers were all killed.

    Attributes:
        conversations: how many.
        processes: how many worker processes.
        open_s: seconds until all had answered their question.
        restarts: what each kill of all workers led to.
        failed_tasks: workflow tasks that failed.
        held: workflow tasks that took longer than their 10 s.
        sticky: workflow tasks that waited in vain for the worker that had had the run cached.
        repeated: activities that took more than one attempt.
        lost: messages and answers that are missing.
        doubled: messages and answers that are there twice.
        events: the events of a conversation in the median.
        history_bytes: its bytes.
        database_bytes: how much the databases had grown, per conversation.
        waiting_cores: cores that each part kept busy while all conversations waited.
        support: actions and bytes of one support conversation, see `measure_support`.
    """

    conversations: int
    processes: int
    open_s: float = 0.0
    restarts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    failed_tasks: int = 0
    held: int = 0
    sticky: int = 0
    repeated: int = 0
    lost: int = 0
    doubled: int = 0
    events: float = 0.0
    history_bytes: float = 0.0
    database_bytes: float = 0.0
    waiting_cores: dict[str, float] = field(default_factory=dict[str, float])
    support: dict[str, Any] = field(default_factory=dict[str, Any])


async def measure_conversations(options: argparse.Namespace) -> dict[str, Any]:
    """Start conversations, kill all workers, and send a message to each conversation."""
    outcome = Outcome(options.conversations, options.processes[0])
    ids = [f"support-{number}" for number in range(outcome.conversations)]
    async with parts() as everything:
        client = await Client.connect(everything.cluster.address)
        size = _database_bytes(everything.cluster)
        async with workers(everything, outcome.processes) as pids:
            begin = time.perf_counter()
            await open_all(client, ids)
            outcome.open_s = time.perf_counter() - begin
            outcome.waiting_cores = await _cores_during(everything, asyncio.sleep(5))
            killed = _kill(pids)
        number = 0
        while number < options.repeats:
            async with workers(everything, outcome.processes) as pids:
                ready = time.perf_counter() - killed
                restart: dict[str, Any] = {"ready_s": ready}
                writing = write_all(client, ids, f"message {number}", killed, restart)
                restart["cores"] = await _cores_during(everything, writing)
                outcome.restarts.append(restart)
                print(json.dumps(restart), file=sys.stderr)
                number += 1
                if number == options.repeats or time.perf_counter() - begin > options.within:
                    number = options.repeats
                    outcome.support = await measure_support(client)
                killed = _kill(pids)
        outcome.database_bytes = (_database_bytes(everything.cluster) - size) / len(ids)
        await examine(client, ids, 1 + len(outcome.restarts), outcome)
        version = await server_version(client)
    return {**asdict(outcome), **surroundings(version)}


async def open_all(client: Client, ids: list[str]) -> None:
    """Start the conversations, and wait until each has answered its question."""

    async def start(run_id: str) -> None:
        await Runner.start(
            AGENT, question(1), id=run_id, keep_open=True, client=client, task_queue=QUEUE
        )

    await lanes(AT_ONCE, ids, start)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (await client.count_workflows("OutlastStatus = 'idle'")).count < len(ids):  # noqa: ASYNC110  nothing announces it
            await asyncio.sleep(0.25)


def _kill(pids: list[int]) -> float:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    return time.perf_counter()


async def write_all(
    client: Client, ids: list[str], message: str, killed: float, restart: dict[str, Any]
) -> None:
    """Send a message to each conversation, wait for the answers, and note the times."""
    answered: list[float] = []

    async def write(run_id: str) -> None:
        sent = await RunHandle(client, run_id).send(message, message_id=message)
        await sent.answer()
        answered.append(time.perf_counter() - killed)

    await lanes(AT_ONCE, ids, write)
    half = answered[len(answered) // 2]
    restart |= {"first_s": answered[0], "half_s": half, "all_s": answered[-1]}


async def examine(client: Client, ids: list[str], questions: int, outcome: Outcome) -> None:
    """Read every history, and count what went wrong."""
    sizes: list[tuple[int, int]] = []

    async def read(run_id: str) -> None:
        state = await RunHandle(client, run_id).state()
        asked = sum(item.kind == "input" for item in state.items)
        for found in (asked, len(state.answers)):
            outcome.lost += max(0, questions - found)
            outcome.doubled += max(0, found - questions)
        workflow = client.get_workflow_handle(run_id)
        info = (await workflow.describe()).raw_description.workflow_execution_info
        sizes.append((info.history_length, info.history_size_bytes))
        async for event in workflow.fetch_history_events():
            over = event.workflow_task_timed_out_event_attributes.timeout_type
            outcome.failed_tasks += event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
            outcome.held += over == TimeoutType.TIMEOUT_TYPE_START_TO_CLOSE
            outcome.sticky += over == TimeoutType.TIMEOUT_TYPE_SCHEDULE_TO_START
            outcome.repeated += event.activity_task_started_event_attributes.attempt > 1

    await lanes(AT_ONCE, ids, read)
    outcome.events = median(events for events, _ in sizes)
    outcome.history_bytes = median(size for _, size in sizes)


async def measure_support(client: Client) -> dict[str, Any]:
    """Have one support conversation: four messages, eight model calls, four tool calls."""
    handle = await Runner.start(
        AGENT, question(5), id="a-support-case", keep_open=True, client=client, task_queue=QUEUE
    )
    async for progress in progress_of(handle):
        if progress.state.answers:
            break
    for number in range(3):
        await (await handle.send(f"Message {number}")).answer()
    await handle.cancel("after_turn")
    with suppress(Exception):  # a conversation that is stopped has been cancelled
        await client.get_workflow_handle(handle.id).result()
    workflow = client.get_workflow_handle(handle.id)
    info = (await workflow.describe()).raw_description.workflow_execution_info
    events = [event async for event in workflow.fetch_history_events()]
    return {
        "actions": dict(count_actions(events)),
        "events": info.history_length,
        "bytes": info.history_size_bytes,
    }


async def _cores_during(everything: Parts, work: Awaitable[None]) -> dict[str, float]:
    before, begin = everything.spent(), time.perf_counter()
    await work
    seconds = time.perf_counter() - begin
    return {
        part: (value - before.get(part, 0)) / seconds for part, value in everything.spent().items()
    }


def _database_bytes(cluster: PostgresCluster) -> float:
    return float(
        cluster.query(
            "select pg_database_size('temporal') + pg_database_size('temporal_visibility')"
        )
    )


# --- Results -------------------------------------------------------------------------------------


def table(measured: dict[str, list[dict[str, Any]]]) -> str:
    """Return the medians of all measurements as tables in Markdown."""
    rows: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for one in measured.get("throughput", []):
        for row in one["rows"]:
            rows.setdefault((row["processes"], row["concurrency"]), []).append(row)
    named = ("workers", "server", "postgres", "model", "client")
    lines = [
        f"| processes | at a time | runs/s | turns/s | cores: {', '.join(named)} | CPU ms a turn, the same | others | bottleneck |",
        "|---:|---:|---:|---:|---|---|---:|---|",
    ]
    for (processes, concurrency), same in sorted(rows.items()):

        def mid(read: Callable[[dict[str, Any]], float], same: Any = same) -> float:
            return median(read(row) for row in same)

        cores = {p: mid(lambda r, p=p: r["cores"][p]) for p in (*named, "machine")}
        spent = ", ".join(f"{mid(lambda r, p=p: r['cpu_ms_per_turn'][p]):.1f}" for p in named)
        lines.append(
            f"| {processes} | {concurrency} | {mid(lambda r: r['runs_per_s']):.1f} | "
            f"{mid(lambda r: r['turns_per_s']):.0f} | {', '.join(f'{cores[p]:.2f}' for p in named)} | "
            f"{spent} | {mid(lambda r: r['others_cores']):.1f} | {bottleneck(cores, processes)} |"
        )
    cases = measured.get("conversations", [])
    if cases:
        restarts = [restart for case in cases for restart in case["restarts"]]
        lines += ["", "| conversations | median | each |", "|---|---:|---|"]
        for source in (cases, restarts):
            for name, value in source[0].items():
                if isinstance(value, int | float):
                    values = [one[name] for one in source]
                    each = ", ".join(f"{one:.4g}" for one in values)
                    lines.append(f"| {name} | {median(values):.4g} | {each} |")
    return "\n".join(lines)


def numbers(text: str) -> list[int]:
    """Read numbers with commas between them."""
    return [int(one) for one in text.split(",")]


def main() -> int:
    """Measure and append, or print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("throughput", "conversations", "table"))
    parser.add_argument("--processes", type=numbers, help="worker processes")
    parser.add_argument("--concurrency", type=numbers, default=[5, 20, 60], help="runs at a time")
    parser.add_argument("--conversations", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--within", type=float, default=3600, help="no restart begins later, s")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    measured: dict[str, list[dict[str, Any]]] = (
        json.loads(options.out.read_text()) if options.out.exists() else {}
    )
    if options.what == "table":
        print(table(measured))
        return 0
    if options.what == "throughput":
        options.processes = options.processes or [1, 2, 4]
        found = asyncio.run(measure_throughput(options))
    else:
        options.processes = options.processes or [2]
        found = asyncio.run(measure_conversations(options))
    measured.setdefault(options.what, []).append(found)
    options.out.write_text(json.dumps(measured, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    wrong = [found.get(name, 0) for name in ("lost", "doubled", "failed_tasks")]
    return 1 if any(wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
