"""`outlast fork`: a run of a server begins again after an event, and both name each other."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.converter import DataConverter, PayloadCodec

from outlast.agents.errors import ServerUnavailable
from outlast.client.forks import fork_run, known_forks, list_forks
from outlast.client.handle import RunHandle
from outlast.client.start.runner import Runner
from outlast.testing import ScriptedModel, call
from tests.servers import LOOK_SECONDS, PATIENCE_SECONDS
from tests.unit.cli.conftest import Invoke, Open


class _NoKey(PayloadCodec):
    """The codec of a client that lacks the key."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return list(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        raise ValueError("no key")


UNREADABLE = DataConverter(payload_codec=_NoKey())


@pytest.mark.smoke
async def test_a_run_is_forked_and_both_runs_name_each_other(
    cli: Invoke, client: Client, open_desk: Open, run_id: str, tmp_path: Path
) -> None:
    model = ScriptedModel([call("refund", "c1", order_id="A-1")], "Refunded.", "Not in a fork.")
    queue = await open_desk(model)
    source = await Runner.start("Helper", "Refund", id=run_id, client=client, task_queue=queue)
    await source.wait(lambda state: state.status == "waiting")
    await cli("approve", run_id)
    await source.result()

    listed = json.loads((await cli("fork", run_id, "--list", "--json")).stdout)
    assert [one["event"] for one in listed] == list(range(1, len(listed) + 1))
    assert "Choose a later event" in listed[0]["obstacle"]
    assert "Choose an earlier event" in listed[-1]["obstacle"]
    table = (await cli("fork", run_id, "--list")).stdout
    assert 'refund(order_id="A-1")' in table

    asked = next(one["event"] for one in listed if 'refund(order_id="A-1")' in one["what"])
    prompt = tmp_path / "brief.md"
    prompt.write_text("Be brief.")
    done = await cli(
        "fork", run_id, "--at", f"{asked}", "--name", "brief", "--prompt", f"@{prompt}", "--json"
    )
    fork_id = f"{run_id}~brief"
    assert json.loads(done.stdout) == {
        "run_id": fork_id,
        "forked_from": run_id,
        "event": asked,
    }
    # The request waits in the fork, too: the decision about the source does not count for it.
    fork = RunHandle(client, fork_id)
    await fork.wait(lambda state: state.status == "waiting")
    await cli("approve", fork_id)
    assert (await fork.result()).final_output == "Not in a fork."
    assert model.requests[-1].instructions == "Be brief."
    assert model.requests[-1].input[-1]["output"] == "A-1 is refunded"  # the source's result

    shown = await cli("show", fork_id)
    assert f"fork of    {run_id}, after event {asked}" in shown.stdout
    record = json.loads((await cli("show", fork_id, "--json")).stdout)
    assert (record["forked_from"], record["forked_after_event"]) == (run_id, asked)
    await _until_listed(client, run_id, fork_id)
    assert f"fork       {fork_id}" in (await cli("show", run_id)).stdout
    assert json.loads((await cli("show", run_id, "--json")).stdout)["forks"] == [fork_id]
    entries = [
        json.loads(line)
        for line in (await cli("audit", fork_id, "--json")).stdout.split("\n")
        if line
    ]
    assert entries[0]["event"] == "forked"
    assert entries[0]["note"] == f"It began as a copy of {run_id} after event {asked}."
    assert [one["event"] for one in entries].count("vote") == 1
    assert "cannot be replayed" in (await cli("record", fork_id)).stderr


async def _until_listed(client: Client, run_id: str, fork_id: str) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while fork_id not in await list_forks(client, run_id):  # noqa: ASYNC110  nothing announces it
            await asyncio.sleep(LOOK_SECONDS)


async def test_a_run_whose_id_looks_like_a_fork_is_none(
    client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel("Hi.", "Hi.", "Hi again."))
    source = await Runner.start("Helper", "Hi", id=run_id, client=client, task_queue=queue)
    other = f"{run_id}~other"
    await Runner.run("Helper", "Hi", id=other, client=client, task_queue=queue)
    await source.result()
    made = await fork_run(client, run_id, at=2)
    await made.result()
    await _until_listed(client, run_id, made.id)
    assert await list_forks(client, run_id) == (made.id,)
    config: dict[str, Any] = {**client.config(), "data_converter": UNREADABLE}
    stranger = Client(**config)
    assert await list_forks(stranger, run_id) == ()


async def test_a_server_that_cannot_search_has_no_forks_to_show(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: object) -> None:
        raise ServerUnavailable("no visibility")

    monkeypatch.setattr("outlast.client.forks.list_executions", refused)
    with pytest.raises(ServerUnavailable):
        await list_forks(client, "run")
    assert await known_forks(client, "run") == ()


async def test_what_cannot_be_forked_is_said_with_the_way_out(
    cli: Invoke, client: Client, open_desk: Open, run_id: str, tmp_path: Path
) -> None:
    queue = await open_desk(ScriptedModel([call("refund", "c1", order_id="A-1")], "Done."))
    source = await Runner.start("Helper", "Hi", id=run_id, client=client, task_queue=queue)
    await source.wait(lambda state: state.status == "waiting")
    for arguments, words in (
        (("--at", "99"), "has no event 99: choose one from 1 to"),
        (("--at", "1"), "has not begun to work there"),
        (("--name", "a/b"), "must not be empty or have / or ~"),
        (("--arguments", "[]"), "must be a JSON object"),
        (("--arguments", '{"c1": {"order_id": "B"}}'), "Under way: none. A call that waits for"),
        (("--prompt", f"@{tmp_path / 'nothing'}"), "cannot be read"),
        (("--model", " "), "must be a non-empty string"),
    ):
        done = await cli("fork", run_id, *arguments)
        assert (done.exit_code, words in done.stderr) == (2, True), (arguments, done.stderr)
    assert (await cli("fork", f"{run_id}-9")).exit_code == 4
    assert (await cli("fork", run_id, "--name", "twice")).exit_code == 0
    again = await cli("fork", run_id, "--name", "twice")
    assert f"There is a run '{run_id}~twice' already. Choose another name." in again.stderr
    await RunHandle(client, f"{run_id}~twice").cancel()
    await source.cancel()
