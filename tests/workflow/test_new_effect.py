"""The effect that CONTRIBUTING.md adds as its example: it applies, and runs everywhere."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.servers import TemporalServer

ROOT = Path(__file__).parents[2]

PROGRAM = """
import asyncio, sys
from temporalio.client import Client
from outlast import Agent, Runner
from outlast.testing import ScriptedModel, run_in_memory
from outlast.worker import AgentWorker

agent = Agent(name="Clerk")

async def main():
    await run_in_memory(agent, "Hello", model=ScriptedModel("In memory."))
    client = await Client.connect(sys.argv[1])
    model = ScriptedModel("On a server.")
    async with AgentWorker(client, agents=[agent], task_queue="new-effect", model_provider=model):
        handle = await Runner.start(agent, "Hello", client=client, task_queue="new-effect")
        await handle.result()
    history = await client.get_workflow_handle(handle.id).fetch_history()
    for event in history.events:
        name = event.activity_task_scheduled_event_attributes.activity_type.name
        if name:
            print(name)

asyncio.run(main())
"""


def test_the_effect_of_the_guide_touches_four_files_and_works(
    server: TemporalServer, tmp_path: Path
) -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    change = re.findall(r"```diff\n(.*?)```", guide, re.DOTALL)[0]
    assert change.count("\n+++ ") == 4
    shutil.copytree(ROOT / "outlast", tmp_path / "outlast")
    (tmp_path / "effect.diff").write_text(change)
    subprocess.run(["git", "apply", "--unsafe-paths", "effect.diff"], cwd=tmp_path, check=True)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, server.address],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["call_model", "log_answer"]
    assert "in-memory: Clerk answered 'In memory.'" in done.stderr
    assert "Clerk answered 'On a server.'" in done.stderr
