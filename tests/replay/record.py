"""Records the histories of this version's features: run it once, when a version is made.

    python -m tests.replay.record

What is recorded already is left alone: a released history is never recorded again, because it
stands for the runs that are out there. A change that breaks one of them breaks somebody's run.
"""

import asyncio
import contextlib
import gzip
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from temporalio.client import Client

from outlast import Agent, AgentsException
from outlast.client.handle import RunHandle
from outlast.client.read.history import RunReader
from outlast.client.schedules import ScheduleOptions
from outlast.client.schedules.plans import plan_of
from outlast.client.start.options import run_input
from outlast.contract import names, records
from outlast.dev import EmbeddedServer
from outlast.loop.values import JsonObject
from outlast.testing import ScriptedModel
from outlast.worker import AgentWorker
from tests.replay.scenarios import SCENARIOS, Scenario
from tests.workflow.laws import nested_runs

FOLDER = Path(__file__).parent / "histories" / "0.1"
SCHEDULED = Path(__file__).parent / "scheduled" / "0.1.json.gz"


async def main() -> None:
    """Record every scenario that has no recording yet."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    async with EmbeddedServer(search_attributes=names.SEARCH_ATTRIBUTES) as server:
        client = await Client.connect(server.address)
        for name, scenario in SCENARIOS.items():
            path = FOLDER / f"{name}.json.gz"
            if not path.exists():
                recording = await _record(client, name, scenario)
                data = json.dumps(recording, separators=(",", ":")).encode()
                await asyncio.to_thread(path.write_bytes, gzip.compress(data, mtime=0))
                sys.stdout.write(f"recorded {path.name}\n")
        if not SCHEDULED.exists():
            data = (await _scheduled_message(client)).encode()
            await asyncio.to_thread(SCHEDULED.write_bytes, gzip.compress(data, mtime=0))
            sys.stdout.write(f"recorded {SCHEDULED.name}\n")


async def _scheduled_message(client: Client) -> str:
    """Return the history of the workflow that sends a scheduled message."""
    agent = Agent[Any](name="Clerk")
    options = ScheduleOptions(agent=agent, to="scheduled-conversation")
    plan = await plan_of(client, "nudge", "Any news?", options)
    queue = "scheduled-messages"
    async with AgentWorker(
        client, agents=[agent], task_queue=queue, model_provider=ScriptedModel("None.")
    ):
        sending = await client.start_workflow(
            plan.workflow, plan.payload(visibility=True), id=plan.workflow_id, task_queue=queue
        )
        await sending.result()
        handle = RunHandle(client, "scheduled-conversation")
        await handle.wait_for_answer(sending.id)
        await handle.cancel("after_turn")
    return (await sending.fetch_history()).to_json()


async def _record(client: Client, name: str, scenario: Scenario) -> JsonObject:
    given = run_input(
        scenario.agent,
        scenario.question,
        context={},
        max_turns=scenario.max_turns,
        keep_open=scenario.keep_open,
        **scenario.options,
    )
    settings = {**(given.settings or {}), **scenario.settings}
    record = replace(given, settings=settings or None, visibility=True)
    model = ScriptedModel(*scenario.steps)
    async with AgentWorker(client, agents=[scenario.agent], task_queue=name, model_provider=model):
        await client.start_workflow(names.WORKFLOW, records.write(record), id=name, task_queue=name)
        handle = RunHandle(client, name)
        with contextlib.suppress(AgentsException):
            await scenario.play(handle)
        return await _recorded(client, name)


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


if __name__ == "__main__":
    asyncio.run(main())
