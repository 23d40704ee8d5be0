"""What runs wait for outside, and its delivery, from the command line."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from temporalio.client import Client

from outlast.agents.agent import Agent
from outlast.agents.context.wrapper import ToolContext
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle
from outlast.client.identity import os_user
from outlast.client.start.runner import Runner
from outlast.testing import ScriptedModel, call
from tests.unit.cli.conftest import Invoke, Open

BOOK = [call("book", "c1", order="7")]
TWO = [call("book", "c1", order="7"), call("book", "c2", order="8")]


class Pickup(BaseModel):
    """What a courier reports."""

    parcel: str


def shipper() -> Agent[Any]:
    """Return an agent with a tool that waits for a courier for two days."""

    @function_tool
    async def book(ctx: ToolContext[Any], order: str) -> str:
        """Book a courier."""
        pickup = await ctx.wait_for("courier", timeout=timedelta(days=2), schema=Pickup)
        return f"{order}: {pickup.parcel}"

    return Agent[Any](name="Shipper", instructions="Ship.", tools=[book])


async def parked_run(client: Client, queue: str, run_id: str) -> RunHandle:
    handle = await Runner.start("Shipper", "Ship it", id=run_id, client=client, task_queue=queue)
    await handle.wait(lambda state: state.status == "parked")
    return handle


@pytest.mark.smoke
async def test_a_parked_run_is_shown_and_finished(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel(BOOK, "Shipped."), shipper())
    handle = await parked_run(client, queue, run_id)
    [wait] = await handle.pending_waits()
    assert wait.until is not None

    shown = await cli("show", run_id)
    [record] = json.loads((await cli("show", run_id, "--json")).stdout)["waits"]
    listed = await cli("waits", run_id)

    assert "status     parked: waiting for something from outside" in shown.stdout
    since, until = (at.isoformat(timespec="milliseconds") for at in (wait.since, wait.until))
    for output in (shown.stdout, listed.stdout):
        assert f"{run_id} waits for courier" in output
        assert f"  outlast finish {run_id} --value JSON" in output
        for fact in (
            "tool       book, called by Shipper",
            f"since      {since}",
            f"until      {until}",
        ):
            assert fact in output
        assert wait.token in "".join(output.split())
    assert json.loads((await cli("waits", run_id, "--json")).stdout) == [record]
    assert (record["waits_for"], record["until"], record["token"]) == ("courier", until, wait.token)
    assert record["schema"]["required"] == ["parcel"]

    done = await cli("finish", run_id, "--value", '{"parcel": "p1"}')

    assert (done.exit_code, done.stdout) == (
        0,
        f"Delivered courier to {run_id}; its tool goes on.\n",
    )
    assert (await handle.result()).final_output == "Shipped."
    lines = (await cli("show", run_id)).stdout
    assert f"{os_user().subject}" in lines
    assert "delivers courier" in lines
    assert "7: p1" in lines
    none = await cli("waits", run_id)
    assert (none.exit_code, none.stdout) == (0, "")
    assert f"The run {run_id} does not wait." in none.stderr


async def test_all_parked_runs_are_listed_with_their_tokens(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel(BOOK, BOOK), shipper())
    handles = [await parked_run(client, queue, f"{run_id}-{one}") for one in "ab"]
    found: list[str] = []
    async with asyncio.timeout(30):
        while len(found) < 2:  # lists are a moment behind
            records = json.loads((await cli("waits", "--json", "--limit", "1000")).stdout)
            found = [one["token"] for one in records if one["run_id"].startswith(run_id)]

    assert found == [(await one.pending_waits())[0].token for one in handles]

    table = (await cli("waits", "--limit", "1000")).stdout
    assert table.split()[:8] == ["RUN", "CALL", "TOOL", "WAITS", "FOR", "FOR", "ENDS", "IN"]
    [row] = [line.split() for line in table.splitlines() if line.startswith(f"{run_id}-a")]
    assert row[1:4] == ["c1", "book", "courier"]
    for one in handles:
        await one.cancel()


async def test_two_waits_are_told_apart(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel(TWO, "Shipped."), shipper())
    handle = await parked_run(client, queue, run_id)
    value = ("--value", '{"parcel": "p"}')

    ambiguous = await cli("finish", run_id, *value)
    unknown = await cli("finish", f"{run_id}/c3", *value)

    assert (ambiguous.exit_code, unknown.exit_code) == (2, 5)
    assert "waits for 2 values. Name the call:" in ambiguous.stderr
    for one in ("c1", "c2"):
        assert f"outlast finish {run_id}/{one} --value JSON: courier (book), since" in " ".join(
            ambiguous.stderr.split()
        )
    assert "has no call 'c3' that waits. Calls that wait: c1, c2." in unknown.stderr

    assert (await cli("finish", f"{run_id}/c1", *value)).exit_code == 0
    assert (await cli("finish", run_id, *value)).exit_code == 0  # one is left
    assert (await handle.result()).final_output == "Shipped."


async def test_a_delivery_is_refused_in_words_and_the_tool_goes_on_waiting(
    cli: Invoke, client: Client, open_desk: Open, run_id: str, tmp_path: Path
) -> None:
    queue = await open_desk(ScriptedModel(BOOK, "Shipped."), shipper())
    handle = await parked_run(client, queue, run_id)
    [wait] = await handle.pending_waits()

    cases = [
        ((run_id, "--value", "{parcel: 1}"), 2, "--value is not JSON: line 1, column 2"),
        ((run_id,), 2, "Write what the tool waits for: --value with JSON"),
        ((run_id, "--value", "1", "--value-file", "x"), 2, "Write what the tool waits for"),
        ((run_id, "--value-file", str(tmp_path / "no")), 2, "cannot be read"),
        ((run_id, "--value", '{"weight": 1}'), 5, "The value for 'courier' does not fit"),
        (("no-run", "--value", "1"), 4, "no token of a wait, either"),
        ((run_id, "--value", "1", "--delivery-id", "x" * 201), 2, "at most 200 characters"),
    ]
    for arguments, code, words in cases:
        refused = await cli("finish", *arguments)
        assert (refused.exit_code, words in refused.stderr) == (code, True), refused.stderr
    assert await handle.pending_waits() == (wait,)

    value = tmp_path / "pickup.json"
    value.write_text('{"parcel": "p1"}')
    by_file = ("finish", wait.token, "--value-file", str(value), "--delivery-id", "webhook-1")
    done = json.loads((await cli(*by_file, "--source", "courier.example", "--json")).stdout)
    assert (done["run_id"], done["name"], done["token"]) == (run_id, "courier", wait.token)
    await handle.result()
    again = await cli(*by_file, "--json")
    other = await cli("finish", run_id, "--value", "1")
    assert (again.exit_code, other.exit_code) in {(0, 5), (4, 5)}  # the run has ended


async def test_the_value_comes_from_standard_input(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel(BOOK, "Shipped."), shipper())
    handle = await parked_run(client, queue, run_id)
    done = await cli("finish", run_id, "--value-file", "-", input='{"parcel": "p1"}')
    assert done.exit_code == 0
    await handle.result()


async def test_run_returns_when_its_tool_waits(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel(BOOK, "Shipped.", "Hello."), shipper())
    run = ("run", "Shipper", "Ship it", "--id", run_id, "--task-queue", queue)

    done = await cli(*run)
    shown = json.loads((await cli(*run, "--json")).stdout.splitlines()[-1])

    assert done.exit_code == 3
    assert f"outlast finish {run_id} --value JSON" in done.stderr
    assert "waits for courier until" in done.stderr
    assert (shown["type"], shown["status"]) == ("result", "parked")
    assert [one["waits_for"] for one in shown["waits"]] == ["courier"]

    await cli("finish", run_id, "--value", '{"parcel": "p1"}')
    assert (await RunHandle(client, run_id).result()).final_output == "Shipped."
    assert (await cli(*run)).exit_code == 0
