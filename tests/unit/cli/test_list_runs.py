import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.client import Client

from outlast.agents.approvals.policy_file import ApprovalFile
from outlast.agents.errors import UserError
from outlast.cli.durations import rough
from outlast.cli.list_runs import Filter, Row, find_runs, with_tokens
from outlast.cli.policy import try_policies
from outlast.client.handle import RunHandle
from outlast.client.start.runner import Runner
from outlast.dev import EmbeddedServer
from outlast.testing import ScriptedModel, call
from tests.servers import server_for_tests
from tests.unit.cli.conftest import Invoke, Open

BASE = "WorkflowType = 'AgentRun' AND ExecutionStatus != 'ContinuedAsNew'"


async def row_of(client: Client, run_id: str, wanted: Filter, status: str) -> Row:
    """Return a run's row once it has this status: visibility is a moment behind."""
    async with asyncio.timeout(20):
        while True:
            for row in await find_runs(client, wanted, limit=1_000):
                if row.run_id == run_id and row.status == status:
                    return row


@pytest.mark.parametrize(
    ("wanted", "terms"),
    [
        (Filter(), ""),
        (
            Filter(status="running"),
            " AND ExecutionStatus = 'Running' AND OutlastStatus IS NULL",
        ),
        (Filter(status="idle"), " AND ExecutionStatus = 'Running' AND OutlastStatus = 'idle'"),
        (
            Filter(status="failed"),
            " AND (ExecutionStatus = 'Failed' OR ExecutionStatus = 'TimedOut')",
        ),
        (Filter(agent="O'Neill"), " AND OutlastAgent = 'O''Neill'"),
        (Filter(agent='say "x"'), " AND OutlastAgent STARTS_WITH 'say '"),
        (Filter(agent="\n"), ""),
        (Filter(waiting=True), " AND ExecutionStatus = 'Running' AND OutlastPendingApprovals > 0"),
    ],
)
def test_a_filter_is_a_query(wanted: Filter, terms: str) -> None:
    assert wanted.query() == BASE + terms


@pytest.mark.parametrize(
    ("length", "said"),
    [(-1, "0 s"), (0, "0 s"), (119, "119 s"), (120, "2 min"), (7_200, "2 h"), (200_000, "2 d")],
)
def test_a_duration_is_rough(length: int, said: str) -> None:
    assert rough(timedelta(seconds=length)) == said


def test_a_row_that_is_over_took_until_its_end() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    row = Row(
        run_id="r",
        status="completed",
        agent="",
        approvals=0,
        started=start,
        closed=start + timedelta(seconds=5),
    )

    assert row.took == "5 s"
    assert row.record()["agent"] is None
    assert row.record()["closed"] == "2026-01-01T00:00:05+00:00"


async def test_runs_are_found_by_what_they_wait_for(
    client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel([call("refund", "c1", order_id="A-42")], "Done."))
    handle = await Runner.start("Helper", "Refund", id=run_id, client=client, task_queue=queue)
    await handle.wait(lambda state: state.status == "waiting")

    for wanted in (
        Filter(),
        Filter(status="waiting"),
        Filter(waiting=True),
        Filter(agent="Helper", status="waiting"),
    ):
        row = await row_of(client, run_id, wanted, "waiting")
        assert row.approvals == 1
        assert row.closed is None
    for wanted in (Filter(status="idle"), Filter(agent="Nobody"), Filter(status="completed")):
        assert run_id not in {row.run_id for row in await find_runs(client, wanted, limit=100)}

    await handle.approve("a1")
    await handle.result()
    row = await row_of(client, run_id, Filter(), "completed")
    assert row.approvals == 0
    assert row.closed is not None


async def test_a_run_that_works_is_found_as_running(client: Client, run_id: str) -> None:
    await Runner.start("Helper", "Hi", id=run_id, client=client, task_queue=f"{run_id}-nobody")
    await row_of(client, run_id, Filter(status="running"), "running")
    await client.get_workflow_handle(run_id).terminate()


async def test_each_way_to_end_is_a_status(client: Client, open_desk: Open, run_id: str) -> None:
    queue = await open_desk(ScriptedModel(always="Hi."))
    ids = {status: f"{run_id}-{status}" for status in ("cancelled", "failed", "terminated")}
    for one in (ids["cancelled"], ids["terminated"]):
        handle = await Runner.start(
            "Helper", "Hi", id=one, client=client, task_queue=queue, keep_open=True
        )
        await handle.wait(lambda state: state.phase == "idle")
    await RunHandle(client, ids["cancelled"]).cancel()
    await RunHandle(client, ids["cancelled"]).wait(lambda state: state.phase == "closed")
    await client.get_workflow_handle(ids["terminated"]).terminate()
    failing = await Runner.start("Nobody", "Hi", id=ids["failed"], client=client, task_queue=queue)
    await failing.wait(lambda state: state.phase == "closed")

    for wanted in (Filter(), Filter(status="cancelled")):
        await row_of(client, ids["cancelled"], wanted, "cancelled")
    for wanted in (Filter(), Filter(status="terminated")):
        await row_of(client, ids["terminated"], wanted, "terminated")
    for wanted in (Filter(), Filter(status="failed")):
        await row_of(client, ids["failed"], wanted, "failed")
    cancelled = await find_runs(client, Filter(status="cancelled"), limit=1_000)
    assert all(row.status == "cancelled" for row in cancelled)


async def test_no_more_runs_than_wanted_are_returned_and_the_newest_first(
    client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel(always="Hi."))
    for number in range(3):
        await Runner.run("Helper", "Hi", id=f"{run_id}-{number}", client=client, task_queue=queue)

    await row_of(client, f"{run_id}-2", Filter(), "completed")
    rows = await find_runs(client, Filter(status="completed"), limit=2)

    assert [row.run_id for row in rows] == [f"{run_id}-2", f"{run_id}-1"]


async def test_an_id_that_was_used_again_has_a_row_with_its_own_tokens_for_each_run(
    client: Client, open_desk: Open, run_id: str
) -> None:
    calls = [call("look_up", "c1", order_id="A-42")]
    queue = await open_desk(ScriptedModel(calls, "Two calls.", "One call."))
    for asked in ("First", "Second"):
        await Runner.run("Helper", asked, id=run_id, client=client, task_queue=queue)

    async with asyncio.timeout(20):  # visibility is a moment behind
        rows: list[Row] = []
        while len(rows) < 2:
            found = await find_runs(client, Filter(status="completed"), limit=1_000)
            rows = [row for row in found if row.run_id == run_id]
    second, first = await with_tokens(client, rows)
    assert first.tokens is not None
    assert (first.tokens, first.execution_id) == (2 * (second.tokens or 0), rows[1].execution_id)

    file = ApprovalFile("approvals.toml", "[tool.look_up]\n")
    tried, _ = await try_policies(client, file, first.started, limit=1_000)
    assert any(one.name == "look_up" for one in tried.tallies)  # of the first run only


async def test_a_namespace_that_is_not_there_is_said(server: EmbeddedServer) -> None:
    elsewhere = await Client.connect(server.address, namespace="elsewhere")

    with pytest.raises(UserError, match="elsewhere"):
        await find_runs(elsewhere, Filter(), limit=1)


async def test_missing_search_attributes_are_said() -> None:
    async with server_for_tests({}, shared=False) as bare:
        client = await bare.connect()

        assert await find_runs(client, Filter(), limit=1) == []
        with pytest.raises(UserError, match="outlast doctor --fix"):
            await find_runs(client, Filter(waiting=True), limit=1)


@pytest.mark.smoke
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
    assert header.split() == ["ID", "STATUS", "AGENT", "WAITS", "FOR", "TOKENS", "AGE", "TOOK"]
    (row,) = [row.split() for row in rows if row.startswith(run_id)]
    assert row[:7] == [run_id, "waiting", "Helper", "approval", "of", "refund", "15"]
    await handle.cancel()


async def test_a_list_that_may_go_on_says_so(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel(always="Hi."))
    for number in range(2):
        await Runner.run("Helper", "Hi", id=f"{run_id}-{number}", client=client, task_queue=queue)

    done = await cli("list", "--limit", "1")

    assert len(done.stdout.splitlines()) == 2
    assert "Limited to 1: there may be more, see --limit" in done.stderr


async def test_an_empty_list_is_no_error(cli: Invoke, client: Client) -> None:
    done = await cli("list", "--agent", "Nobody-at-all")

    assert (done.exit_code, done.stdout) == (0, "")
    assert "No runs found" in done.stderr
    assert (await cli("list", "--agent", "Nobody-at-all", "--json")).stdout == "[]\n"


async def test_a_status_that_there_is_not_is_a_wrong_argument(cli: Invoke) -> None:
    done = await cli("list", "--status", "sleeping")

    assert done.exit_code == 2
    assert "sleeping" in done.stderr


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
        waits_for="approval of refund",
        tokens=15,
    )

    async def find_runs(*_: Any, **_options: Any) -> list[Row]:
        return [one]

    async def listed(width: int) -> tuple[str, list[str]]:
        monkeypatch.setenv("COLUMNS", str(width))
        header, *lines = (await cli("list")).stdout.splitlines()
        return header, lines

    async def with_tokens(_client: Client, rows: list[Row]) -> list[Row]:
        return rows

    monkeypatch.setattr("outlast.cli.list_runs.find_runs", find_runs)
    monkeypatch.setattr("outlast.cli.list_runs.with_tokens", with_tokens)
    monkeypatch.setattr(Row, "age", "1 d")
    header, (row,) = await listed(66)
    assert header.split() == ["ID", "STATUS", "AGENT", "WAITS", "FOR"]
    assert row.split() == [one.run_id, "waiting", "Billing", "approval", "of", "refund"]
    header, (row,) = await listed(40)
    assert (header.split(), row.split()) == (["ID", "STATUS"], [one.run_id, "waiting"])
    _, lines = await listed(20)
    assert "".join(line[:11].strip() for line in lines) == one.run_id
    assert lines[0].split()[-1] == "waiting"


async def test_the_histories_of_a_long_list_are_only_read_on_request(
    cli: Invoke, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    read: list[str] = []

    async def find_runs(*_: Any, limit: int) -> list[Row]:
        return [
            Row(
                run_id=f"run-{number}",
                status="completed",
                agent="Desk",
                approvals=0,
                started=moment,
                closed=moment,
            )
            for number in range(limit)
        ]

    async def with_tokens(_client: Client, rows: list[Row]) -> list[Row]:
        read.extend(row.run_id for row in rows)
        return [replace(row, tokens=15) for row in rows]

    monkeypatch.setattr("outlast.cli.list_runs.find_runs", find_runs)
    monkeypatch.setattr("outlast.cli.list_runs.with_tokens", with_tokens)

    async def tokens(*options: str) -> tuple[set[int | None], str]:
        done = await cli("list", "--json", *options)
        return {row["tokens"] for row in json.loads(done.stdout)}, done.stderr

    assert await tokens("--limit", "50") == ({15}, "")
    assert len(read) == 50
    unread, remark = await tokens("--limit", "1000")
    assert (unread, len(read)) == ({None}, 50)
    assert "--tokens reads them" in remark
    assert await tokens("--limit", "51", "--no-tokens") == ({None}, "")
    assert await tokens("--limit", "51", "--tokens") == ({15}, "")
