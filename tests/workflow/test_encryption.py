"""Encrypted runs: what was planted is nowhere in the server's database, and readers read it all."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from temporalio.client import Client

from outlast.agents.agent import Agent
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import InputGuardrailTripwireTriggered, UserError
from outlast.agents.guardrails.guardrail import GuardrailFunctionOutput, input_guardrail
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle
from outlast.client.runner import Runner
from outlast.contract import names
from outlast.dev import EmbeddedServer
from outlast.testing import ScriptedModel, call, say
from outlast.worker import AgentWorker
from tests.workflow.codecs import Sealed, with_codec
from tests.workflow.laws import check_run

WORDS = "message instructions context argument result text reason guardrail error nested answer"
SECRETS = [f"secret-{word}" for word in WORDS.split()]


class Notes(BaseModel):
    diary: str = "secret-context"


@function_tool(needs_approval=True)
async def look_up(ctx: RunContextWrapper[Notes], topic: str) -> str:
    return "secret-result"


@function_tool(retry=2)
async def fails() -> str:
    raise ValueError("secret-error")


@input_guardrail
async def watch(ctx: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
    tripped = "trip" in str(given)
    return GuardrailFunctionOutput(output_info="secret-guardrail", tripwire_triggered=tripped)


INNER = Agent[Any](name="Inner", instructions="secret-instructions")
DESK = Agent[Any](
    name="Desk",
    instructions="secret-instructions",
    tools=[look_up, fails, INNER.as_tool("consult", "Ask.")],
    input_guardrails=[watch],
)


def script() -> ScriptedModel:
    return ScriptedModel(
        [call("look_up", "c1", topic="secret-argument")],
        [call("look_up", "c2", topic="secret-argument"), call("fails", "c3")],
        [call("consult", "c4", input="secret-nested")],
        say("secret-answer"),
        say("secret-text"),
        say("secret-answer"),  # of the run that a guardrail stops, which may begin its call first
    )


async def encrypted_runs(client: Client) -> str:
    """Run everything that may hold a secret, and return what the readers read."""
    async with AgentWorker(
        client, agents=[DESK], task_queue="q", model_provider=script(), context_types=[Notes]
    ):
        handle = await Runner.start(
            "Desk", "secret-message", id="r", client=client, task_queue="q", context=Notes()
        )
        await handle.wait_for_people()
        await handle.approve("a1", by="ann")
        await handle.wait(lambda state: any(one.id == "a2" for one in state.pending_approvals))
        await handle.reject("a2", message="secret-reason", by="ann")
        result = await handle.result()
        assert result.final_output == "secret-text"
        with pytest.raises(InputGuardrailTripwireTriggered):
            await Runner.run("Desk", "trip", id="t", client=client, task_queue="q", context=Notes())
        for run_id in ("r", "t"):
            await check_run(client, run_id)
        return repr((await handle.state(), await RunHandle(client, "t").state()))


async def test_no_secret_is_in_the_servers_database(tmp_path: Path):
    data_dir = tmp_path / "server"
    attributes = names.SEARCH_ATTRIBUTES
    async with EmbeddedServer(
        data_dir=data_dir, ui_port=None, search_attributes=attributes
    ) as server:
        plain = await Client.connect(server.address)
        read = await encrypted_runs(with_codec(plain, Sealed(b"key")))
        for secret in ("message", "argument", "result", "reason", "context", "answer"):
            assert f"secret-{secret}" in read, secret
        with pytest.raises(UserError, match=r"cannot be read here: .*--codec or OUTLAST_CODEC"):
            await RunHandle(plain, "r").state()
        shown, listed = outlast_commands(server.address, tmp_path)
        assert "secret-text" in shown
        assert {one["run_id"] for one in listed} >= {"r", "t"}
    stored = b"".join(path.read_bytes() for path in data_dir.rglob("*") if path.is_file())
    assert b"tool:look_up" in stored
    assert not [secret for secret in SECRETS if secret.encode() in stored]


def outlast_commands(address: str, folder: Path) -> tuple[str, list[Any]]:
    """Return what `outlast show` prints with the codec, and `outlast list` without."""
    text = "from tests.workflow.codecs import Sealed\ncodec = Sealed(b'key')\n"
    (folder / "sealing.py").write_text(text)

    def run(*words: str) -> str:
        command = [sys.executable, "-m", "outlast.cli.entry", *words, "--address", address]
        paths = {"PYTHONPATH": f"{folder}:{Path.cwd()}", "PATH": "/usr/bin:/bin"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=paths)
        assert done.returncode == 0, done.stderr
        return done.stdout

    shown = run("show", "r", "--codec", "sealing:codec", "--json")
    return shown, json.loads(run("list", "--json"))


async def test_a_worker_may_have_the_codec_instead_of_its_client(client: Client) -> None:
    codec, queue = Sealed(b"key"), "codec-of-a-worker"
    model = ScriptedModel("secret-answer")
    worker = AgentWorker(
        client, agents=[INNER], task_queue=queue, model_provider=model, codec=codec
    )
    async with worker:
        runner = Runner.using(client=with_codec(client, codec), task_queue=queue)
        result = await runner.run("Inner", "secret-message", id="codec-of-a-worker")

    assert result.final_output == "secret-answer"
    history = await client.get_workflow_handle("codec-of-a-worker").fetch_history()
    assert "secret" not in history.to_json()
