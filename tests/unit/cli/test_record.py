"""`outlast record`: a run of a server becomes a document, and the document a test."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from outlast.agents.agent import Agent
from outlast.client.recordings import Recording
from outlast.client.start.runner import Runner
from outlast.testing import ScriptedModel, call, load_run, replay
from tests.unit.cli.conftest import Invoke, Open, helper, look_up

REDACTOR = """
def redact(document):
    document["entries"] = [one for one in document["entries"] if one["kind"] != "tool"]
    return document

def nobody(document):
    return None

def wrong(document):
    return "?"
"""


@pytest.mark.smoke
async def test_a_run_of_a_server_is_recorded_and_replayed(
    cli: Invoke, client: Client, open_desk: Open, run_id: str, tmp_path: Path
) -> None:
    model = ScriptedModel(
        [call("look_up", "c1", order_id="A-1"), call("refund", "c2", order_id="A-1")], "Refunded."
    )
    queue = await open_desk(model)
    handle = await Runner.start("Helper", "Refund", id=run_id, client=client, task_queue=queue)
    await handle.wait(lambda state: state.status == "waiting")
    early = await cli("record", run_id)
    await cli("approve", run_id)
    await handle.result()

    done = await cli("record", run_id)
    assert (early.exit_code, done.exit_code) == (0, 0)
    assert "still open (waiting)" in early.stderr
    assert "still open" not in done.stderr
    opened = Recording.from_json(early.stdout)
    assert (opened.complete, opened.status) == (False, "waiting")
    assert (await replay(opened, helper())).is_same

    file = tmp_path / "run.json"
    file.write_text(done.stdout)
    recording = load_run(file)
    assert (recording.run_id, recording.status) == (run_id, "completed")
    replayed = await replay(recording, helper())
    assert replayed.is_same, replayed.report()
    guarded: list[Any] = [replace(look_up, needs_approval=True)]
    changed = Agent[Any](name="Helper", tools=guarded)
    kinds = [one.kind for one in (await replay(recording, changed)).differences]
    assert kinds == ["tool", "approval"]

    (tmp_path / "redacting.py").write_text(REDACTOR)
    place = ("--app-dir", str(tmp_path), "--redact")
    less = await cli("record", run_id, *place, "redacting:redact")
    assert "tool" not in [one["kind"] for one in json.loads(less.stdout)["entries"]]
    none = await cli("record", run_id, *place, "redacting:nobody")
    assert (none.exit_code, none.stdout) == (2, "")
    assert "leaves the run" in none.stderr
    wrong = await cli("record", run_id, *place, "redacting:wrong")
    assert "returned str: return the document, or None" in wrong.stderr
    missing = await cli("record", run_id, *place, "redacting:missing")
    assert "has no 'missing'" in missing.stderr
    assert (await cli("record", f"{run_id}-9")).exit_code == 4


async def test_the_recording_of_a_run_that_no_worker_has_begun_has_its_id(
    cli: Invoke, client: Client, run_id: str
) -> None:
    await Runner.start("Helper", "Hi", id=run_id, client=client, task_queue="nobody-is-here")

    done = await cli("record", run_id)
    await client.get_workflow_handle(run_id).terminate()

    assert json.loads(done.stdout)["run_id"] == run_id
