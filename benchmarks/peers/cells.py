"""Measures one cell of the table: a subject, a variant, a number of turns, a length of results."""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping

from benchmarks.actions import count_actions
from benchmarks.peers.drives import Conversation, Stored, SubjectFailedError, cause_of, new_id
from benchmarks.peers.process_usage import cpu_seconds_of_tree, peak_mib, reset_peak
from benchmarks.peers.stage import Actor, Stage

TURNS_TOGETHER = 50
MOST_RUNS = 10
CONCURRENCY = 10
CONCURRENT_RUNS = 20
CONCURRENT_TURNS = 8

METERED = {
    "record_activity_heartbeat": "grpc_RecordActivityTaskHeartbeat",
    "query_workflow": "grpc_QueryWorkflow",
}
"""What no history contains, by the name under which the server meters it."""


_METER_SECONDS = 1.5
"""After this time, the server's meter has all that was done before."""


def runs_of(turns: int, variant: str) -> int:
    """Return how many runs are measured together; a streamed one takes a second per turn."""
    if variant == "streamed":
        return 1
    return max(1, min(MOST_RUNS, TURNS_TOGETHER // turns))


async def measure_cell(
    stage: Stage, actor: Actor, turns: int, limit_s: float, *, metered: bool
) -> dict[str, float | dict[str, float] | str]:
    """Execute runs one after the other; return the figures, or how the subject died.

    Args:
        stage: where it takes place.
        actor: the subject.
        turns: of each run.
        limit_s: how long all of them may take.
        metered: also count actions, which takes some seconds more.
    """
    conversation, runs = Conversation(turns, stage.variant), runs_of(turns, stage.variant)
    if metered:
        await asyncio.sleep(_METER_SECONDS)
    meter = await stage.server.actions()
    before = await _look(stage, actor)
    reset_peak(actor.process.pid)
    begin, run_ids = time.perf_counter(), list[str]()
    try:
        async with asyncio.timeout(limit_s):
            for _ in range(runs):
                run_ids.append(new_id(actor.subject.name))
                await actor.drive.run(run_ids[-1], conversation)
    except Exception as error:  # noqa: BLE001  it is the result of the cell
        seconds = time.perf_counter() - begin
        return {"died": await _cause(actor, run_ids[-1], error, seconds), "after_s": seconds}
    seconds = time.perf_counter() - begin
    after = await _look(stage, actor)
    peak = peak_mib(actor.process.pid)
    spent = {name: after[name] - before[name] for name in after}
    done = runs * turns
    figures: dict[str, float | dict[str, float] | str] = {
        "runs": runs,
        "run_s": seconds / runs,
        "cpu_ms": spent["cpu"] / done * 1000,
        "outside_ms": (seconds - spent["model"]) / done * 1000,
        "peak_mib": peak,
    }
    if stage.store_pid(actor.subject) is not None:
        figures["store_cpu_ms"] = spent["store"] / done * 1000
    stored = await actor.drive.stored(run_ids[-1])
    figures |= {"stored_bytes": stored.bytes, "stored_events": stored.events}
    if stored.history is not None and metered:
        await asyncio.sleep(_METER_SECONDS)
        now = await stage.server.actions()
        meter = {name: (now[name] - meter[name]) / runs for name in now}
        figures["actions"] = actions_of(stored, meter)
        # A check: the server's own count.
        figures["metered"] = {name: number for name, number in meter.items() if number}
    return figures


def actions_of(stored: Stored, meter: Mapping[str, float]) -> dict[str, float]:
    """Return the actions of a run; of what no history contains, the metered average."""
    counted: Counter[str] = count_actions(stored.history or [])
    hidden = {name: meter.get(operation, 0) for name, operation in METERED.items()}
    return dict(counted) | {name: number for name, number in hidden.items() if number}


async def _look(stage: Stage, actor: Actor) -> dict[str, float]:
    """Return what has been spent so far."""
    pid = stage.store_pid(actor.subject)
    return {
        "model": (await stage.model_usage())["http_seconds"],
        "cpu": (await actor.spent())["cpu_s"],
        "store": 0.0 if pid is None else cpu_seconds_of_tree(pid),
    }


async def _cause(actor: Actor, run_id: str, error: Exception, seconds: float) -> str:
    error = cause_of(error)
    found = await actor.drive.autopsy(run_id)
    if isinstance(error, TimeoutError):
        return f"not done after {seconds:.0f} s" + (f": {found}" if found else "")
    said = (
        str(error) if isinstance(error, SubjectFailedError) else f"{type(error).__name__}: {error}"
    )
    return said[:300] + (f"; {found}" if found else "")


async def measure_throughput(actor: Actor, limit_s: float) -> dict[str, float | str]:
    """Carry many short runs, several at a time."""
    waiting = iter(range(CONCURRENT_RUNS))
    conversation = Conversation(CONCURRENT_TURNS, "plain")

    async def lane() -> None:
        for _ in waiting:
            await actor.drive.run(new_id(actor.subject.name), conversation)

    begin = time.perf_counter()
    try:
        async with asyncio.timeout(limit_s), asyncio.TaskGroup() as lanes:
            for _ in range(CONCURRENCY):
                lanes.create_task(lane())
    except (TimeoutError, ExceptionGroup) as error:
        return {"died": f"{type(error).__name__}: {error}"}
    return {"runs_per_s": CONCURRENT_RUNS / (time.perf_counter() - begin)}
