import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from temporalio.client import Client

from outlast.cli.run_list import Row
from outlast.client.handle import RunHandle
from outlast.client.runner import Runner
from outlast.testing import ScriptedModel, call
from tests.unit.cli.conftest import Invoke, Open


async def test_runs_are_listed_for_people_and_for_programs(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel([call("refund", "c1", order_id="A-42")]))
    handle = await Runner.start("Helper", "Refund", id=run_id, client=client, task_queue=queue)
    await handle.wait(lambda state: state.status == "waiting")
    records: list[dict[str, object]] = []
    async with asyncio.timeout(30):  # visibility is a moment behind
        while run_id not in {record["run_id"] for record in records}:
            records = json.loads((await cli("list", "--status", "waiting", "--json")).stdout)

    shown = await cli("list", "--waiting")

    header, *rows = shown.stdout.splitlines()
    assert header.split() == ["ID", "STATUS", "AGENT", "APPROVALS", "STARTED", "TOOK"]
    (row,) = [row.split() for row in rows if row.startswith(run_id)]
    assert row[:4] == [run_id, "waiting", "Helper", "1"]
    await handle.cancel()


async def test_a_list_that_may_go_on_says_so(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel(always="Hi."))
    for number in range(2):
        await Runner.run("Helper", "Hi", id=f"{run_id}-{number}", client=client, task_queue=queue)

    done = await cli("list", "--limit", "1")

    assert len(done.stdout.splitlines()) == 2
    assert "more than these 1; see --limit" in done.stderr


async def test_an_empty_list_is_no_error(cli: Invoke, client: Client) -> None:
    done = await cli("list", "--agent", "Nobody-at-all")

    assert (done.exit_code, done.stdout) == (0, "")
    assert "No such runs" in done.stderr
    assert (await cli("list", "--agent", "Nobody-at-all", "--json")).stdout == "[]\n"


async def test_a_status_that_there_is_not_is_a_wrong_argument(cli: Invoke) -> None:
    done = await cli("list", "--status", "sleeping")

    assert done.exit_code == 2
    assert "sleeping" in done.stderr


async def test_a_run_is_shown_for_people_and_for_programs(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel("It is here."))
    await Runner.run("Helper", "Where?", id=run_id, client=client, task_queue=queue)

    shown = await cli("show", run_id)
    record = json.loads((await cli("show", run_id, "--json")).stdout)

    assert shown.exit_code == 0
    assert shown.stdout.splitlines()[0] == run_id
    assert "user       Where?\nHelper     It is here.\n" in shown.stdout
    assert (record["status"], record["final_output"]) == ("completed", "It is here.")
    assert [entry["text"] for entry in record["transcript"]] == ["Where?", "It is here."]


async def test_a_run_that_is_not_there_is_not_found(cli: Invoke, client: Client) -> None:
    assert (await cli("show", "never-was")).exit_code == 4


async def test_showing_needs_no_worker(cli: Invoke, client: Client, run_id: str) -> None:
    await Runner.start("Helper", "Hi", id=run_id, client=client, task_queue="nobody-is-here")

    done = await cli("show", run_id)

    assert done.exit_code == 0
    assert "status     running" in done.stdout
    await client.get_workflow_handle(run_id).terminate()
    assert "status     terminated" in (await cli("show", run_id)).stdout
    assert RunHandle(client, run_id).id == run_id


async def test_a_run_that_was_terminated_asks_nobody(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel([call("refund", "c1", order_id="A-42")]))
    handle = await Runner.start("Helper", "Refund", id=run_id, client=client, task_queue=queue)
    await handle.wait(lambda state: state.status == "waiting")
    assert f"outlast approve {run_id}" in (await cli("show", run_id)).stdout
    await client.get_workflow_handle(run_id).terminate()

    shown = (await cli("show", run_id)).stdout
    told = (await cli("tail", run_id)).stdout

    assert "status     terminated" in shown
    assert "approve" not in shown
    assert told.splitlines()[-1].split() == ["outlast", "terminated"]


async def test_a_narrow_terminal_has_fewer_columns_and_whole_ids(
    cli: Invoke, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Row(
        run_id="support-42/ask_billing-3",
        status="waiting",
        agent="Billing",
        approvals=1,
        started=datetime(2026, 1, 1, tzinfo=UTC),
        closed=datetime(2026, 1, 1, tzinfo=UTC),
    )

    async def find_runs(*_: Any, **_options: Any) -> list[Row]:
        return [one]

    async def listed(width: int) -> tuple[str, list[str]]:
        monkeypatch.setenv("COLUMNS", str(width))
        header, *lines = (await cli("list")).stdout.splitlines()
        return header, lines

    monkeypatch.setattr("outlast.cli.run_list.find_runs", find_runs)
    header, (row,) = await listed(66)
    assert header.split() == ["ID", "STATUS", "AGENT", "APPROVALS", "TOOK"]
    assert row.split() == [one.run_id, "waiting", "Billing", "1", "0", "s"]
    header, (row,) = await listed(40)
    assert (header.split(), row.split()) == (["ID", "STATUS"], [one.run_id, "waiting"])
    _, lines = await listed(20)
    assert "".join(line[:11].strip() for line in lines) == one.run_id
    assert lines[0].split()[-1] == "waiting"
