"""Encrypted runs: what was planted is nowhere in the server's database, and readers read it all."""

import asyncio
import base64
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from temporalio.client import Client

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy, Audience
from outlast.agents.config.model_settings import ModelSettings
from outlast.agents.config.run_config import RunConfig
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import InputGuardrailTripwireTriggered, UserError
from outlast.agents.guardrails.guardrail import GuardrailFunctionOutput, input_guardrail
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle
from outlast.client.start.runner import Runner
from outlast.contract import names
from outlast.dev import EmbeddedServer
from outlast.encryption import EncryptionCodec
from outlast.loop.approvals import Person
from outlast.loop.start import Customer
from outlast.testing import ScriptedModel, call, say
from outlast.views.run import loop_state
from outlast.worker import AgentWorker
from tests.workflow.codecs import Sealed, with_codec
from tests.workflow.laws import check_run

WORDS = (
    "message instructions context argument result text reason guardrail error nested answer "
    "decider requester name note"
)
SECRETS = [f"secret-{word}" for word in WORDS.split()]
READABLE = ["readable-group", "readable-person", "readable-holder", "readable-tenant"]
"""Names that the guide to encryption says are readable."""

KEYS = {"old": os.urandom(32), "new": os.urandom(32)}


class Notes(BaseModel):
    diary: str = "secret-context"


ASKED = ApprovalPolicy(
    audience=Audience(groups=["readable-group"], subjects=["readable-person"]),
    unverified="allow",
)


@function_tool(needs_approval=ASKED)
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
            "Desk",
            "secret-message",
            id="r",
            client=client,
            task_queue="q",
            context=Notes(),
            tenant="readable-tenant",
            customer=Customer("secret-requester", "secret-name"),
        )
        await handle.wait_for_people()
        await handle.hold(by="readable-holder")
        await handle.release(by="readable-holder", note="secret-note")
        decider = Person(subject="secret-decider", groups=("readable-group",))
        await handle.approve("a1", by=decider)
        await handle.wait(lambda state: any(one.id == "a2" for one in state.pending_approvals))
        await handle.reject("a2", message="secret-reason", by=decider)
        result = await handle.result()
        assert result.final_output == "secret-text"
        with pytest.raises(InputGuardrailTripwireTriggered):
            await Runner.run("Desk", "trip", id="t", client=client, task_queue="q", context=Notes())
        for run_id in ("r", "t"):
            await check_run(client, run_id)
        return repr([loop_state(await one.state()) for one in (handle, RunHandle(client, "t"))])


def codec_of(current: str) -> EncryptionCodec:
    return EncryptionCodec(KEYS, current)


async def test_no_secret_is_in_the_servers_database(tmp_path: Path):
    data_dir = tmp_path / "server"
    attributes = names.SEARCH_ATTRIBUTES
    async with EmbeddedServer(
        data_dir=data_dir, ui_port=None, search_attributes=attributes
    ) as server:
        plain = await Client.connect(server.address)
        read = await encrypted_runs(with_codec(plain, codec_of("new")))
        for secret in ("message", "argument", "result", "reason", "context", "answer", "note"):
            assert f"secret-{secret}" in read, secret
        with pytest.raises(UserError, match=r"cannot be read here: .*--codec or OUTLAST_CODEC"):
            await RunHandle(plain, "r").state()
        for shown in (
            outlast(server.address, tmp_path, "show", "r", "--codec", "outlast.encryption:codec"),
            outlast(
                server.address, tmp_path, "show", "r", OUTLAST_CODEC="outlast.encryption:codec"
            ),
        ):
            assert "secret-text" in shown
        listed = json.loads(outlast(server.address, tmp_path, "list", "--json"))
        assert {one["run_id"] for one in listed} >= {"r", "t"}
    stored = b"".join(path.read_bytes() for path in data_dir.rglob("*") if path.is_file())
    assert b"tool:look_up" in stored
    assert not [secret for secret in SECRETS if secret.encode() in stored]
    assert not [name for name in READABLE if name.encode() not in stored]


def test_the_guide_says_which_names_are_readable() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "how-to" / "encryption.md").read_text()
    readable = " ".join(line.split("|")[2] for line in guide.splitlines() if line.count("|") == 3)
    for word in ("groups", "people", "holds", "tenant", "risk", "deadline"):
        assert re.search(rf"\b{word}", readable), word


def outlast(address: str, folder: Path, *words: str, **variables: str) -> str:
    """Return what a command prints that has the keys in a file."""
    file = folder / "keys.toml"
    keys = "".join(f'{name} = "{base64.b64encode(key).decode()}"\n' for name, key in KEYS.items())
    file.touch(mode=0o600)
    file.write_text(f'current = "new"\n[keys]\n{keys}')
    command = [sys.executable, "-m", "outlast.cli.entry", *words, "--address", address]
    environment = {"PATH": "/usr/bin:/bin", "OUTLAST_ENCRYPTION_KEYS": str(file), **variables}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.smoke
async def test_a_run_goes_on_with_a_new_key(client: Client, tmp_path: Path) -> None:
    address, queue = client.service_client.config.target_host, "keys"
    agents = [Agent[Any](name="Asker", tools=[look_up])]
    model = ScriptedModel([call("look_up", "c1", topic="x")], "secret-text")

    def worker(codec: EncryptionCodec) -> AgentWorker:
        return AgentWorker(
            with_codec(client, codec), agents=agents, task_queue=queue, model_provider=model
        )

    before = with_codec(client, codec_of("old"))
    async with worker(codec_of("old")):
        handle = await Runner.start(
            "Asker", "Go.", id="keys", client=before, task_queue=queue, context=Notes()
        )
        await handle.wait_for_people()
        state = await handle.state()
        digest = state.pending_approvals[0].digest
    now = with_codec(client, codec_of("new"))
    async with worker(codec_of("new")):
        decision = ("--by", "readable-person", "--yes", "--digest", digest)
        printed = await asyncio.to_thread(
            outlast, address, tmp_path, "approve", "keys", "a1", *decision,
            "--codec", "outlast.encryption:codec",
        )  # fmt: skip
        assert "Approved by readable-person" in printed
        result = await RunHandle(now, "keys").result()
        await check_run(now, "keys")
    assert result.final_output == "secret-text"
    history = await client.get_workflow_handle("keys").fetch_history()
    used = set(re.findall(rb"encryption-key-id..?.?(old|new)", b"".join(
        event.SerializeToString() for event in history.events
    ), re.DOTALL))  # fmt: skip
    assert used == {b"old", b"new"}


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


async def test_an_agents_own_headers_stay_on_its_worker(client: Client) -> None:
    """The place for secrets that a run's settings refuse."""
    agent = Agent[Any](
        name="Caller",
        model_settings=ModelSettings(extra_headers={"Authorization": "Bearer secret-header"}),
        tools=[INNER.as_tool("consult", "Ask.")],
    )
    model = ScriptedModel([call("consult", "c1", input="Why?")], "Because.", "Done.")
    worker = AgentWorker(client, agents=[agent], task_queue="headers", model_provider=model)
    async with worker:
        runner = Runner.using(client=client, task_queue="headers")
        await runner.run("Caller", "Go.", id="headers")
        with pytest.raises(UserError, match=r"extra_headers\.Authorization looks like a secret"):
            await runner.run(
                "Caller", "Go.", run_config=RunConfig(model_settings=agent.model_settings)
            )
    sent = model.requests[0].settings
    assert sent is not None
    assert sent.extra_headers == {"Authorization": "Bearer secret-header"}
    history = await client.get_workflow_handle("headers").fetch_history()
    assert "secret" not in history.to_json()
    for event in history.events:
        assert b"secret" not in event.SerializeToString()
