import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.client import Client

from outlast.agents.approvals.policy_file import ApprovalFile
from outlast.agents.errors import UserError
from outlast.cli.policy import try_policies
from outlast.client.handle import RunHandle
from outlast.client.runs import ListedRun, RunFilter, find_runs, list_runs, with_costs
from outlast.client.start.runner import Runner
from outlast.dev import EmbeddedServer
from outlast.edges.rendering import rough
from outlast.pricing import Cost, CostPart
from outlast.testing import ScriptedModel, call
from outlast.views.run import loop_state
from tests.servers import server_for_tests
from tests.unit.cli.conftest import Invoke, Open

USED = Cost((CostPart(agent="Desk", model="m", calls=1, tokens=15, usd=None),))


async def row_of(client: Client, run_id: str, wanted: RunFilter, status: str) -> ListedRun:
    """Return a run's row once it has this status: visibility is a moment behind."""
    async with asyncio.timeout(20):
        while True:
            for row in await find_runs(client, wanted, limit=1_000):
                if row.run_id == run_id and row.status == status:
                    return row


@pytest.mark.parametrize(
    ("length", "said"),
    [(-1, "0 s"), (0, "0 s"), (119, "119 s"), (120, "2 min"), (7_200, "2 h"), (200_000, "2 d")],
)
def test_a_duration_is_rough(length: int, said: str) -> None:
    assert rough(timedelta(seconds=length)) == said


async def test_runs_are_found_by_what_they_wait_for(
    client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel([call("refund", "c1", order_id="A-42")], "Done."))
    handle = await Runner.start("Helper", "Refund", id=run_id, client=client, task_queue=queue)
    await handle.wait(lambda state: state.status == "waiting")

    for wanted in (
        RunFilter(),
        RunFilter(status="waiting"),
        RunFilter(waiting=True),
        RunFilter(agent="Helper", status="waiting"),
    ):
        row = await row_of(client, run_id, wanted, "waiting")
        assert row.approvals == 1
        assert row.closed is None
    for wanted in (
        RunFilter(status="idle"),
        RunFilter(agent="Nobody"),
        RunFilter(status="completed"),
    ):
        assert run_id not in {row.run_id for row in await find_runs(client, wanted, limit=100)}

    await handle.approve("a1")
    await handle.result()
    row = await row_of(client, run_id, RunFilter(), "completed")
    assert row.approvals == 0
    assert row.closed is not None


async def test_a_run_that_works_is_found_as_running(client: Client, run_id: str) -> None:
    await Runner.start("Helper", "Hi", id=run_id, client=client, task_queue=f"{run_id}-nobody")
    await row_of(client, run_id, RunFilter(status="running"), "running")
    await client.get_workflow_handle(run_id).terminate()


async def test_each_way_to_end_is_a_status(client: Client, open_desk: Open, run_id: str) -> None:
    queue = await open_desk(ScriptedModel(always="Hi."))
    ids = {status: f"{run_id}-{status}" for status in ("cancelled", "failed", "terminated")}
    for one in (ids["cancelled"], ids["terminated"]):
        handle = await Runner.start(
            "Helper", "Hi", id=one, client=client, task_queue=queue, keep_open=True
        )
        await handle.wait(lambda state: loop_state(state).phase == "idle")
    await RunHandle(client, ids["cancelled"]).cancel()
    await RunHandle(client, ids["cancelled"]).wait(
        lambda state: loop_state(state).phase == "closed"
    )
    await client.get_workflow_handle(ids["terminated"]).terminate()
    failing = await Runner.start("Nobody", "Hi", id=ids["failed"], client=client, task_queue=queue)
    await failing.wait(lambda state: loop_state(state).phase == "closed")

    for wanted in (RunFilter(), RunFilter(status="cancelled")):
        await row_of(client, ids["cancelled"], wanted, "cancelled")
    for wanted in (RunFilter(), RunFilter(status="terminated")):
        await row_of(client, ids["terminated"], wanted, "terminated")
    for wanted in (RunFilter(), RunFilter(status="failed")):
        await row_of(client, ids["failed"], wanted, "failed")
    cancelled = await find_runs(client, RunFilter(status="cancelled"), limit=1_000)
    assert all(row.status == "cancelled" for row in cancelled)


async def test_an_id_that_was_used_again_has_a_row_with_its_own_tokens_for_each_run(
    client: Client, open_desk: Open, run_id: str
) -> None:
    calls = [call("look_up", "c1", order_id="A-42")]
    queue = await open_desk(ScriptedModel(calls, "Two calls.", "One call."))
    for asked in ("First", "Second"):
        await Runner.run("Helper", asked, id=run_id, client=client, task_queue=queue)

    async with asyncio.timeout(20):  # visibility is a moment behind
        rows: list[ListedRun] = []
        while len(rows) < 2:
            found = await find_runs(client, RunFilter(status="completed"), limit=1_000)
            rows = [row for row in found if row.run_id == run_id]
    second, first = await with_costs(client, rows)
    assert first.cost is not None
    assert second.cost is not None
    assert (first.cost.tokens, first.cost.calls) == (2 * second.cost.tokens, 2)
    assert first.execution_id == rows[1].execution_id

    file = ApprovalFile("approvals.toml", "[tool.look_up]\n")
    tried, _ = await try_policies(client, file, first.started, limit=1_000)
    assert any(one.name == "look_up" for one in tried.tallies)  # of the first run only


async def test_runs_are_listed_page_by_page_and_by_the_beginning_of_their_ids(
    client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel(always="Hi."))
    ids = [f"{run_id}-{number}" for number in range(3)]
    for one in ids:
        await Runner.run("Helper", "Hi", id=one, client=client, task_queue=queue)
    wanted = RunFilter(id_prefix=run_id)
    await row_of(client, ids[-1], wanted, "completed")

    seen: list[str] = []
    page = await list_runs(client, wanted, limit=2)
    while True:
        seen += [run.run_id for run in page]
        if page.next is None:
            break
        page = await list_runs(client, wanted, limit=2, page=page.next)

    assert seen == ids[::-1]
    assert await find_runs(client, RunFilter(id_prefix=f"{run_id}-1"), limit=5) != []
    assert await find_runs(client, RunFilter(id_prefix=f"{run_id}?"), limit=5) == []


async def test_a_namespace_that_is_not_there_is_said(server: EmbeddedServer) -> None:
    elsewhere = await Client.connect(server.address, namespace="elsewhere")

    with pytest.raises(UserError, match="elsewhere"):
        await find_runs(elsewhere, RunFilter(), limit=1)


async def test_missing_search_attributes_are_said() -> None:
    async with server_for_tests({}, shared=False) as bare:
        client = await bare.connect()

        assert await find_runs(client, RunFilter(), limit=1) == []
        with pytest.raises(UserError, match="outlast doctor --fix"):
            await find_runs(client, RunFilter(waiting=True), limit=1)


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
    assert header.split() == [
        "ID",
        "STATUS",
        "AGENT",
        "WAITS",
        "FOR",
        "TOKENS",
        "COST",
        "AGE",
        "TOOK",
    ]
    (row,) = [row.split() for row in rows if row.startswith(run_id)]
    assert row[:7] == [run_id, "waiting", "Helper", "approval", "of", "refund", "15"]
    assert row[7] == "unknown"
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
    one = ListedRun(
        run_id="support-42/ask_billing-3",
        status="waiting",
        agent="Billing",
        approvals=1,
        started=datetime(2026, 1, 1, tzinfo=UTC),
        closed=datetime(2026, 1, 1, tzinfo=UTC),
        waits_for="approval of refund",
        cost=USED,
    )

    async def find_runs(*_: Any, **_options: Any) -> list[ListedRun]:
        return [one]

    async def listed(width: int) -> tuple[str, list[str]]:
        monkeypatch.setenv("COLUMNS", str(width))
        header, *lines = (await cli("list")).stdout.splitlines()
        return header, lines

    async def with_costs(_client: Client, rows: list[ListedRun]) -> list[ListedRun]:
        return rows

    monkeypatch.setattr("outlast.client.runs.find_runs", find_runs)
    monkeypatch.setattr("outlast.client.runs.with_costs", with_costs)
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

    async def find_runs(*_: Any, limit: int) -> list[ListedRun]:
        return [
            ListedRun(
                run_id=f"run-{number}",
                status="completed",
                agent="Desk",
                approvals=0,
                started=moment,
                closed=moment,
            )
            for number in range(limit)
        ]

    async def with_costs(_client: Client, rows: list[ListedRun]) -> list[ListedRun]:
        read.extend(row.run_id for row in rows)
        return [replace(row, cost=USED) for row in rows]

    monkeypatch.setattr("outlast.client.runs.find_runs", find_runs)
    monkeypatch.setattr("outlast.client.runs.with_costs", with_costs)

    async def tokens(*options: str) -> tuple[set[int | None], str]:
        done = await cli("list", "--json", *options)
        return {row["tokens"] for row in json.loads(done.stdout)}, done.stderr

    assert await tokens("--limit", "50") == ({15}, "")
    assert len(read) == 50
    unread, remark = await tokens("--limit", "1000")
    assert (unread, len(read)) == ({None}, 50)
    assert "--costs reads them" in remark
    assert await tokens("--limit", "51", "--no-costs") == ({None}, "")
    assert await tokens("--limit", "51", "--costs") == ({15}, "")
