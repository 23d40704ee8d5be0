"""Records what this version leaves behind: histories, archives, exports, proofs and sessions.

    python -m tests.replay.record unreleased
    python -m tests.replay.record 0.1.0

With `unreleased`, what is recorded already, here or in a release, is left alone: only what is missing
is recorded. With a version, everything is recorded into a new folder, and `unreleased` goes. A release
is never recorded again, because it stands for the runs that are out there: a change that breaks one of
its recordings breaks somebody's run.
"""

import argparse
import asyncio
import contextlib
import gzip
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowExecutionStatus

import outlast
from outlast import Agent, AgentsException
from outlast.agents.references import RunReferences
from outlast.agents.run_objects import RUN_OBJECTS, RunKey, RunObjects
from outlast.archive import Archive
from outlast.client.audit import audit_run
from outlast.client.audit_chain import chained, sealed
from outlast.client.deletion import Deletion
from outlast.client.handle import RunHandle
from outlast.client.read.history import RunReader
from outlast.client.recordings import record_run
from outlast.client.schedules import ScheduleOptions
from outlast.client.schedules.plans import plan_of
from outlast.client.start.options import run_input
from outlast.client.start.runner import Runner
from outlast.contract import names, records
from outlast.contract.identity import KEY_VARIABLE
from outlast.dev import EmbeddedServer
from outlast.edges import clock
from outlast.loop.values import JsonObject
from outlast.monitor.process import MonitorProcess
from outlast.monitor.reading import NamespaceReader
from outlast.testing import ScriptedModel
from outlast.worker import AgentWorker
from tests.replay import kept_sessions, outside_scenarios, proofs, public_names, releases, surface
from tests.replay.scenarios import SCENARIOS as AGENTS
from tests.replay.scenarios import Scenario
from tests.workflow.laws import nested_runs

SCENARIOS = {**AGENTS, **outside_scenarios.SCENARIOS}
LONGEST_SECONDS = 30
"""How long people and programs take in a scenario, at most."""

ARCHIVED = ("continued_as_new", "conversation", "nested", "spoken")
"""Scenarios whose histories the worker archives."""

NOT_EXPORTED = frozenset({"stored_outside"})
"""The content of this run is in a store that is gone: its export would be a megabyte of it."""


async def main(version: str) -> None:
    """Record a version.

    Raises:
        SystemExit: a public name has no tier.
    """
    if version != releases.UNRELEASED and (
        wrong := public_names.without_a_tier(public_names.tiers())
    ):
        raise SystemExit("\n".join([f"{public_names.TIERS} is not complete:", *wrong]))
    folder = releases.FOLDER / version
    with tempfile.TemporaryDirectory() as scratch:
        draft = Path(scratch) / "release"
        if version == releases.UNRELEASED and folder.exists():
            shutil.copytree(folder, draft)
        async with EmbeddedServer(search_attributes=names.SEARCH_ATTRIBUTES) as server:
            client = await Client.connect(server.address, identity="recorder")
            before = releases.releases() if version == releases.UNRELEASED else []
            recorder = Recorder(client, draft, Path(scratch), before)
            await recorder.record()
        if version != releases.UNRELEASED:
            (draft / "names.pyi").write_text(public_names.written(), encoding="utf-8")
            (draft / "surface.json").write_text(surface.written(), encoding="utf-8")
        (draft / releases.SUMS).write_text(releases.sums_of(draft), encoding="utf-8")
        for done in (folder, releases.FOLDER / releases.UNRELEASED):
            shutil.rmtree(done, ignore_errors=True)
        shutil.copytree(draft, folder)


class Recorder:
    """Records into a folder what is missing there.

    Args:
        client: of a server on which nothing else runs.
        folder: the release's folder.
        scratch: where files may be that are not kept.
        before: folders whose recordings are not made again.
    """

    def __init__(
        self, client: Client, folder: Path, scratch: Path, before: Sequence[Path] = ()
    ) -> None:
        self._client = client
        self._before = before
        self._folder = folder
        self._scratch = scratch
        self._recorded: dict[str, str] = {}

    async def record(self) -> None:
        """Record what is missing."""
        for name, scenario in SCENARIOS.items():
            if self._lacks(f"histories/{name}.json.gz"):
                await self.scenario(name, scenario)
        if self._lacks(f"workflows/{names.WORKFLOW_SCHEDULED}.json.gz"):
            await self._scheduled_message()
        if self._lacks(f"workflows/{names.WORKFLOW_QUALITY}.json.gz"):
            await self._quality_check()
        if self._lacks(f"workflows/{names.WORKFLOW_MONITOR}.json.gz"):
            await self._monitor()
        if self._lacks("archive.json.gz"):
            await self._archive()
        if self._lacks("exports.jsonl.gz"):
            await self._exports()
        if self._lacks("proofs.json.gz"):
            self._write("proofs", await proofs.make())
        if self._lacks("audit.jsonl.gz"):
            await self._audit()
        if self._lacks("sessions"):
            (self._folder / "sessions").mkdir()
            await kept_sessions.write(self._folder / "sessions")

    def _lacks(self, name: str) -> bool:
        return not any((one / name).exists() for one in (self._folder, *self._before))

    def _write(self, name: str, value: Any) -> None:
        releases.write(self._folder / f"{name}.json.gz", value)
        sys.stdout.write(f"recorded {name}\n")

    def _write_lines(self, name: str, lines: list[str]) -> None:
        text = "".join(f"{line}\n" for line in lines)
        (self._folder / name).write_bytes(gzip.compress(text.encode(), mtime=0))
        sys.stdout.write(f"recorded {name}\n")

    async def scenario(self, name: str, scenario: Scenario) -> None:
        """Record the history of a scenario, and those of other workflows that it started."""
        recording, others = await self._played(name, scenario)
        self._write(f"histories/{name}", recording)
        for kind, workflow_id in others.items():
            workflow = self._client.get_workflow_handle(workflow_id)
            with contextlib.suppress(Exception):
                await workflow.result()
            history = json.loads((await workflow.fetch_history()).to_json())
            self._write(f"workflows/{kind}", history)

    async def _played(
        self, name: str, scenario: Scenario, archive: Archive | None = None
    ) -> tuple[JsonObject, dict[str, str]]:
        references = RunReferences()
        given = run_input(
            scenario.agent,
            scenario.question,
            references=references,
            context={},
            max_turns=scenario.max_turns,
            keep_open=scenario.keep_open,
            **scenario.options,
        )
        settings = {**(given.settings or {}), **scenario.settings}
        record = replace(given, settings=settings or None, visibility=True, **scenario.fields)
        model: Any = scenario.model() if scenario.model else ScriptedModel(*scenario.steps)
        options = scenario.worker(self._scratch / "files")
        if archive is not None:
            options["archive"] = archive
        client, queue = self._client, name
        async with AgentWorker(
            client, agents=[scenario.agent], task_queue=queue, model_provider=model, **options
        ):
            with RUN_OBJECTS.starting(client.namespace, name):  # as a runner does
                started = await client.start_workflow(
                    names.WORKFLOW, records.write(record), id=name, task_queue=queue
                )
                key = RunKey(client.namespace, started.result_run_id or "")
                RUN_OBJECTS.fill(key, RunObjects(references=references))
            handle = RunHandle(client, name)
            try:
                async with asyncio.timeout(LONGEST_SECONDS):
                    handle = await scenario.play(handle) or handle
            except AgentsException:  # the run's own error, or the scenario's mistake
                if not await _has_ended(client, name):
                    raise
            recording = await _recorded(client, handle.id)
            others = await scenario.others(handle) if scenario.others else {}
            for workflow_id in others.values():
                with contextlib.suppress(Exception):
                    await client.get_workflow_handle(workflow_id).result()
            if archive is not None:
                await _until_archived(client, archive, name)
            else:
                self._recorded[name] = handle.id
            return recording, others

    async def _scheduled_message(self) -> None:
        """Record the history of the workflow that sends a scheduled message."""
        agent = Agent[Any](name="Clerk")
        options = ScheduleOptions(agent=agent, to="scheduled-conversation")
        plan = await plan_of(self._client, "nudge", "Any news?", options)
        queue = "scheduled-messages"
        async with AgentWorker(
            self._client, agents=[agent], task_queue=queue, model_provider=ScriptedModel("None.")
        ):
            sending = await self._client.start_workflow(
                plan.workflow, plan.payload(visibility=True), id=plan.workflow_id, task_queue=queue
            )
            await sending.result()
            handle = RunHandle(self._client, "scheduled-conversation")
            await handle.wait_for_answer(sending.id)
            await handle.cancel("after_turn")
        history = json.loads((await sending.fetch_history()).to_json())
        self._write(f"workflows/{names.WORKFLOW_SCHEDULED}", history)

    async def _quality_check(self) -> None:
        """Record the history of the workflow that scores the runs of a day."""
        agent, queue = Agent[Any](name="Judged", instructions="Be polite."), "quality-checks"
        verdict = '{"reason": "It is rude.", "passes": false}'
        async with AgentWorker(
            self._client,
            agents=[agent],
            task_queue=queue,
            model_provider=ScriptedModel("Hello.", verdict),
        ):
            run = await Runner.start(
                agent, "Hello?", id=queue, client=self._client, task_queue=queue
            )
            await run.result()
            query = f"WorkflowId = '{queue}' AND ExecutionStatus = 'Completed'"
            while (await self._client.count_workflows(query)).count == 0:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            check = records.QualityRecord(
                check="polite", rubric="It is polite.", agent="Judged", below=0.8,
                day=str(clock.now().date()),
            )  # fmt: skip
            workflow = await self._client.start_workflow(
                names.WORKFLOW_QUALITY, records.write(check), id="quality-polite", task_queue=queue
            )
            assert (await workflow.result())["mean"] == 0
        history = json.loads((await workflow.fetch_history()).to_json())
        self._write(f"workflows/{names.WORKFLOW_QUALITY}", history)

    async def _monitor(self) -> None:
        """Record the history of the workflow that lets a process count; it is always open."""
        process = MonitorProcess(reader=NamespaceReader(self._client))
        async with process.running(), asyncio.timeout(LONGEST_SECONDS):
            while process.counts() is None:  # noqa: ASYNC110  the server gives it the lease
                await asyncio.sleep(0.05)
        workflow = self._client.get_workflow_handle(names.MONITOR_QUEUE)
        history = json.loads((await workflow.fetch_history()).to_json())
        await workflow.terminate()
        self._write(f"workflows/{names.WORKFLOW_MONITOR}", history)

    async def _archive(self) -> None:
        """Record the archive of some runs, and a deletion in it, with the states of the runs."""
        archive = Archive(self._folder / "archive", every=timedelta(milliseconds=100))
        states: JsonObject = {}
        for name in (*ARCHIVED, "answer"):
            run_id = f"archived-{name}"
            recording, _ = await self._played(run_id, SCENARIOS[name], archive)
            states[run_id] = recording["state"]
        deletion = Deletion(self._client, archive, by="ann", why="a recording")
        await deletion.delete_run("archived-answer")
        states.pop("archived-answer")
        self._write("archive", states)

    async def _exports(self) -> None:
        """Record the documents of all runs."""
        lines: list[str] = []
        for name in sorted(SCENARIOS.keys() - NOT_EXPORTED):
            if name not in self._recorded:
                await self._played(name, SCENARIOS[name])
            lines.append((await record_run(self._client, self._recorded[name])).to_json())
        self._write_lines("exports.jsonl.gz", lines)

    async def _audit(self) -> None:
        """Record a signed audit of a run with decisions and a takeover."""
        lines: list[JsonObject] = []
        for run_id in ("decided_by_two", "taken_over"):
            if run_id not in self._recorded:
                await self._played(run_id, SCENARIOS[run_id])
            lines += await chained(self._client, await audit_run(self._client, run_id))
        seal = await sealed(self._client, lines)
        assert seal is not None
        self._write_lines("audit.jsonl.gz", [json.dumps(one) for one in [*lines, seal]])


async def _has_ended(client: Client, run_id: str) -> bool:
    described = await client.get_workflow_handle(run_id).describe()
    return described.status is not WorkflowExecutionStatus.RUNNING


async def _until_archived(client: Client, archive: Archive, run_id: str) -> None:
    async with asyncio.timeout(20):
        while True:
            entries = await archive.histories_of(client.namespace, run_id)
            if entries and not entries[-1].continues:
                return
            await asyncio.sleep(0.05)


async def _recorded(client: Client, run_id: str) -> JsonObject:
    """Return the newest history of a run, with those of the runs nested in it."""
    with contextlib.suppress(AgentsException):
        await RunHandle(client, run_id).result()
    history = await client.get_workflow_handle(run_id).fetch_history()
    state = await RunReader(client, run_id).catch_up()
    recording: JsonObject = {
        "run_id": run_id,
        "state": json.loads(records.dump(state)),
        "history": json.loads(history.to_json(), object_hook=_without_stack),
    }
    nested = [await _recorded(client, one) for one in nested_runs(list(history.events))]
    return {**recording, "nested": nested} if nested else recording


def _without_stack(fields: JsonObject) -> JsonObject:
    """Leave out where on somebody's machine a failure arose."""
    return {name: value for name, value in fields.items() if name != "stackTrace"}


def why_not(version: str) -> str | None:
    """Return why a version cannot be recorded, or None."""
    if version == releases.UNRELEASED:
        return None
    if version != outlast.__version__:
        return f"this is version {outlast.__version__} of outlast, not {version}"
    if (releases.FOLDER / version).exists():
        return f"{version} is recorded, and stands for the runs that it has left behind"
    return None


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="make record-release")
    parser.add_argument("version", help=f"{releases.UNRELEASED}, or the version of the package")
    chosen = parser.parse_args().version
    if why := why_not(chosen):
        sys.exit(f"make record-release VERSION={chosen}: {why}.")
    os.environ[KEY_VARIABLE] = proofs.SIGNS["ed25519"]
    asyncio.run(main(chosen))
