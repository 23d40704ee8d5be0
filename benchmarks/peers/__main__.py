"""Compares outlast with other ways to keep the runs of agents, side by side.

    python -m benchmarks.peers --rows plain --turns 8,50 --rounds 5 --out FILE.json

All subjects carry the same scripted conversation, in turn, against one model. Results are appended
to the file, so a long measurement can be made in parts; `python -m benchmarks.peers.page` draws the
page from all of them.
"""

import argparse
import asyncio
import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from temporalio.api.workflowservice.v1 import GetSystemInfoRequest

from benchmarks.peers.cells import measure_cell, measure_throughput
from benchmarks.peers.drives import Conversation, new_id
from benchmarks.peers.environments import versions_of
from benchmarks.peers.kills import measure_kills
from benchmarks.peers.stage import Actor, Stage, say
from benchmarks.peers.starts import measure_start
from benchmarks.peers.subjects import BY_NAME, VARIANTS, Subject
from benchmarks.surroundings import OtherPrograms, surroundings

WARM_TURNS = 8
WARM_SECONDS = 60


class Results:
    """The file of results: a list of sessions, each with its cells and surroundings."""

    def __init__(self, path: Path, session: dict[str, Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._sessions: list[dict[str, Any]] = []
        if path.exists():
            self._sessions = json.loads(path.read_text())["sessions"]
        self._session = {**session, "cells": list[dict[str, Any]]()}
        self._sessions.append(self._session)

    def add(self, cell: dict[str, Any]) -> None:
        """Append a cell, and save."""
        self._session["cells"].append(cell)
        self.save()

    def describe(self, **facts: Any) -> None:
        """Add facts of this session, and save."""
        self._session |= facts
        self.save()

    def save(self) -> None:
        """Write the file at once."""
        written = self._path.with_suffix(".part")
        written.write_text(json.dumps({"sessions": self._sessions}, indent=1) + "\n")
        written.replace(self._path)


def cannot(subject: Subject, variant: str, stage: Stage) -> str | None:
    """Return why a subject has no cells of a variant on this machine, if so."""
    if subject.store == "postgres" and stage.postgres is None:
        return "there is no PostgreSQL on this machine"
    return subject.cannot.get(variant)


async def perform(options: argparse.Namespace, variant: str, results: Results) -> None:
    """Measure all cells of one variant, round by round."""
    subjects = [BY_NAME[name] for name in options.subjects]
    async with Stage(options.bytes, variant) as stage:
        system = await stage.client.workflow_service.get_system_info(GetSystemInfoRequest())
        postgres = stage.postgres.version if stage.postgres else ""
        results.describe(**surroundings(system.server_version), postgres=postgres)
        actors: list[Actor] = []
        for subject in subjects:
            reason = cannot(subject, variant, stage)
            if reason is None:
                actors.append(await stage.start(subject, await stage.job_of(subject)))
            else:
                results.add({"subject": subject.name, "variant": variant, "cannot": reason})
        results.describe(packages={one.subject.name: versions_of(one.subject) for one in actors})
        for place, actor in enumerate(actors):
            actors[place] = await _warm(stage, actor)
        own = [stage.model.pid, stage.server.pid, *(one.process.pid for one in actors)]
        others = OtherPrograms(own)
        try:
            await _rounds(options, stage, actors, results)
        finally:
            results.describe(others_cores=others.cores())


async def _warm(stage: Stage, actor: Actor) -> Actor:
    """Load packages, build schemas and open connections."""
    try:
        async with asyncio.timeout(WARM_SECONDS):
            conversation = Conversation(WARM_TURNS, stage.variant)
            await actor.drive.run(new_id(actor.subject.name), conversation)
    except Exception as error:  # noqa: BLE001  the cells will say
        say(f"{actor.subject.name} cannot warm up: {error!r}")
        return await stage.restart(actor)
    return actor


async def _rounds(
    options: argparse.Namespace, stage: Stage, actors: list[Actor], results: Results
) -> None:
    dead: set[tuple[str, int]] = set()
    for round_ in range(options.rounds):
        order = range(len(actors)) if round_ % 2 == 0 else reversed(range(len(actors)))
        places = list(order)
        for turns in [*options.turns, *([0] if options.throughput else [])]:
            for place in places:
                actor = actors[place]
                name = actor.subject.name
                if (name, turns) in dead:
                    continue
                if turns:
                    figures: dict[str, Any] = await measure_cell(
                        stage, actor, turns, options.limit, metered=round_ == 0
                    )
                else:
                    figures = dict(await measure_throughput(actor, options.limit))
                cell = {"subject": name, "variant": stage.variant, "turns": turns}
                cell |= {"bytes": stage.result_bytes, "round": round_, **figures}
                results.add(cell)
                say(f"{round_} {stage.variant} {turns} {name}: {_short(figures)}")
                if "died" in figures:
                    dead.add((name, turns))
                    actors[place] = await _warm(stage, await stage.restart(actor))


def _short(figures: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} {value:.1f}" if isinstance(value, float) else f"{name} {value}"
        for name, value in figures.items()
    )


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", default="", help=f"of {','.join(VARIANTS)}")
    parser.add_argument("--turns", default="8,50,100")
    parser.add_argument("--bytes", type=int, default=1024, help="length of the tool's results")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--subjects", default=",".join(BY_NAME))
    parser.add_argument("--limit", type=float, default=120, help="seconds that a cell may take")
    parser.add_argument("--throughput", action="store_true", help="also runs per second")
    parser.add_argument("--starts", type=int, default=0, help="how often to time the start")
    parser.add_argument("--kills", type=int, default=0, help="how often to kill each worker")
    parser.add_argument("--note", default="", help="what the page is to say of these results")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.turns = [int(one) for one in options.turns.split(",") if one]
    options.subjects = options.subjects.split(",")
    wrong = sorted(set(options.subjects) - set(BY_NAME))
    if wrong:
        parser.error(f"no subject {', '.join(wrong)}: there are {', '.join(BY_NAME)}")
    asyncio.run(measure(options))


async def measure(options: argparse.Namespace) -> None:
    """Measure the rows, the starts and the kills that are asked for."""
    began = time.monotonic()
    session = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),  # noqa: TID251  a report has a time
        "load": os.getloadavg()[0],
        "note": options.note,
    }
    results = Results(options.out, session)
    for variant in filter(None, options.rows.split(",")):
        await perform(options, variant, results)
    subjects = [BY_NAME[name] for name in options.subjects]
    if options.starts:
        await measure_start(subjects, options.starts, results.add)
    if options.kills:
        await measure_kills(subjects, options.kills, results.add)
    results.describe(seconds=time.monotonic() - began)


if __name__ == "__main__":
    main()
