"""Measures start-up: each subject's imports, and its worker's first completed task."""

import asyncio
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.peers.drives import Conversation, new_id
from benchmarks.peers.environments import python_of
from benchmarks.peers.stage import Stage, say
from benchmarks.peers.subjects import Subject

ANSWER_SECONDS = 60

_TIMED = """
import time
start = time.perf_counter()
{statement}
print(time.perf_counter() - start)
"""


def import_seconds(subject: Subject) -> float:
    """Return how long a fresh interpreter takes for the imports."""
    command = [str(python_of(subject)), "-c", _TIMED.format(statement=subject.imports)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout)


async def measure_start(
    subjects: Sequence[Subject], rounds: int, add: Callable[[dict[str, Any]], None]
) -> None:
    """Time the imports, the worker until it is ready, and until it has answered, in turn."""
    async with Stage(1024, "plain") as stage:
        for round_ in range(rounds):
            for subject in subjects if round_ % 2 == 0 else reversed(subjects):
                if subject.store == "postgres" and stage.postgres is None:
                    continue
                figures = await _start_once(stage, subject)
                say(f"{round_} start {subject.name}: {figures}")
                add({"kind": "start", "subject": subject.name, "round": round_, **figures})


async def _start_once(stage: Stage, subject: Subject) -> dict[str, float]:
    imports = await asyncio.to_thread(import_seconds, subject)
    job = await stage.job_of(subject)
    begin = time.perf_counter()
    actor = await stage.start(subject, job)
    ready = time.perf_counter() - begin
    async with asyncio.timeout(ANSWER_SECONDS):
        await actor.drive.run(new_id(subject.name), Conversation(1, "plain"))
    answered = time.perf_counter() - begin
    rss = (await actor.spent())["peak_rss_bytes"] / 2**20
    actor.process.kill()
    return {"import_s": imports, "ready_s": ready, "answered_s": answered, "start_mib": rss}
