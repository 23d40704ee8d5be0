"""Kills workers at random moments while runs are under way, and counts the effects of their tools.

Before each kill some runs are started. Each call of their tool leaves a line in a file in the
middle of its 30 ms, so a kill may come before the effect, or after it and before the framework
knows. When all kills are done, one more worker finishes what is left.
"""

import asyncio
import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.peers.drives import Conversation, cause_of, new_id
from benchmarks.peers.stage import Actor, Stage, say
from benchmarks.peers.subjects import Subject

TURNS = 10
RUNS_PER_KILL = 2
KILL_AFTER_SECONDS = (0.1, 1.5)
"""A worker is killed this long after it was ready."""

PATIENCE_SECONDS = 240
RETRY_SECONDS = 0.1


@dataclass
class Theatre:
    """The runs of a subject, and the worker that is alive."""

    actor: Actor
    conversation: Conversation
    answers: dict[str, str] = field(default_factory=dict[str, str])
    errors: dict[str, str] = field(default_factory=dict[str, str])

    async def carry(self, run_id: str) -> None:
        """Execute a run, and ask for it again whenever its worker is gone."""
        while True:
            try:
                self.answers[run_id] = await self.actor.drive.run(run_id, self.conversation)
            except Exception as error:  # noqa: BLE001  it is a result
                cause = cause_of(error)
                if not isinstance(cause, OSError):
                    self.errors[run_id] = repr(cause)[:300]
                    return
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return


def count_effects(lines: Iterable[str], run_ids: Sequence[str], turns: int) -> dict[str, int]:
    """Return how many effects are lost or repeated, from the ledger.

    Args:
        lines: of the ledger.
        run_ids: of the runs that ended with an answer.
        turns: of each run; all but the last have an effect.
    """
    attempts: Counter[tuple[str, int]] = Counter()
    keys: dict[tuple[str, int], set[str]] = {}
    for line in lines:
        effect = json.loads(line)
        call = (effect["run"], effect["number"])
        attempts[call] += 1
        keys.setdefault(call, set()).add(effect["key"])
    wanted = [(run_id, number) for run_id in run_ids for number in range(turns - 1)]
    return {
        "effects": len(wanted),
        "lost": sum(call not in attempts for call in wanted),
        "repeated": sum(times - 1 for times in attempts.values()),
        "repeated_with_key": sum(len(found) - 1 for found in keys.values()),
    }


async def measure_kills(
    subjects: Sequence[Subject], kills: int, add: Callable[[dict[str, Any]], None]
) -> None:
    """Kill each subject's worker so often, one subject after the other."""
    for subject in subjects:
        async with Stage(100, "plain") as stage:
            if subject.store == "postgres" and stage.postgres is None:
                continue
            figures = await _kill(stage, subject, kills)
        say(f"kills {subject.name}: {figures}")
        add({"kind": "kills", "subject": subject.name, **figures})


async def _kill(stage: Stage, subject: Subject, kills: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as home:
        ledger = Path(home) / "effects"
        ledger.touch()
        actor = await stage.start(subject, await stage.job_of(subject, str(ledger)))
        theatre = Theatre(actor, Conversation(TURNS, "plain"))
        runs: dict[str, asyncio.Task[None]] = {}
        for number in range(kills):
            for _ in range(RUNS_PER_KILL):
                run_id = new_id(subject.name)
                runs[run_id] = asyncio.create_task(theatre.carry(run_id))
            await asyncio.sleep(random.uniform(*KILL_AFTER_SECONDS))
            theatre.actor = await stage.restart(theatre.actor)
            if number % 10 == 9:
                say(f"{subject.name}: {number + 1} kills, {len(theatre.answers)} runs done")
        begin = time.monotonic()
        _, late = await asyncio.wait(runs.values(), timeout=PATIENCE_SECONDS)
        seconds = time.monotonic() - begin
        for task in late:
            task.cancel()
        wrong = [f"{run_id}: {words}" for run_id, words in theatre.errors.items()]
        if late:
            stuck = next(run_id for run_id, task in runs.items() if task in late)
            wrong.append(f"{stuck}: {await theatre.actor.drive.autopsy(stuck)}")
        with ledger.open() as lines:
            counted = count_effects(lines, list(theatre.answers), TURNS)
    return {
        "kills": kills,
        "runs": len(runs),
        "answered": len(theatre.answers),
        "failed": len(theatre.errors),
        "stuck": len(late),
        **counted,
        "done_s": seconds,
        "errors": wrong[:3],
    }
