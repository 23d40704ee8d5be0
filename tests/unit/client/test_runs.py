"""Which runs a list asks the server for."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.api.workflow.v1 import WorkflowExecutionInfo

from outlast.agents.errors import UserError
from outlast.client import runs
from outlast.client.runs import LARGEST_PAGE, ListedRun, RunFilter, find_runs, list_runs

BASE = "WorkflowType = 'AgentRun' AND ExecutionStatus != 'ContinuedAsNew'"
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("wanted", "terms"),
    [
        (RunFilter(), ""),
        (
            RunFilter(status="running"),
            " AND ExecutionStatus = 'Running' AND OutlastStatus IS NULL",
        ),
        (RunFilter(status="idle"), " AND ExecutionStatus = 'Running' AND OutlastStatus = 'idle'"),
        (
            RunFilter(status="failed"),
            " AND (ExecutionStatus = 'Failed' OR ExecutionStatus = 'TimedOut')",
        ),
        (RunFilter(agent="O'Neill"), " AND OutlastAgent = 'O''Neill'"),
        (RunFilter(agent='say "x"'), " AND OutlastAgent STARTS_WITH 'say '"),
        (RunFilter(tenant="O'Neill"), " AND OutlastTenant = 'O''Neill'"),
        (RunFilter(tenant='say "x"'), " AND OutlastTenant STARTS_WITH 'say '"),
        (RunFilter(customer="O'Neill"), " AND OutlastCustomer IN ('O''Neill')"),
        (RunFilter(customer='say "x"'), ""),
        (
            RunFilter(customer="c-17", listed_customers=("d1", "d2")),
            " AND OutlastCustomer IN ('d1', 'd2')",
        ),
        (RunFilter(agent="\n"), ""),
        (
            RunFilter(waiting=True),
            " AND ExecutionStatus = 'Running' AND OutlastPendingApprovals > 0",
        ),
        (
            RunFilter(group="billing", risk="high", due_before=START),
            (
                " AND ExecutionStatus = 'Running' AND OutlastPendingApprovals > 0"
                " AND OutlastWaitingGroups IN ('billing') AND OutlastRisk = 'high'"
                " AND OutlastDue < '2026-01-01T00:00:00.000000Z'"
            ),
        ),
        (
            RunFilter(group='say "x"'),
            " AND ExecutionStatus = 'Running' AND OutlastPendingApprovals > 0",
        ),
        (RunFilter(id_prefix="case-4"), " AND WorkflowId STARTS_WITH 'case-4'"),
        (RunFilter(id_prefix="what?s"), " AND WorkflowId STARTS_WITH 'what'"),
        (RunFilter(id_prefix="?"), ""),
    ],
)
def test_a_filter_is_a_query(wanted: RunFilter, terms: str) -> None:
    assert wanted.query() == BASE + terms


def _run(**fields: Any) -> ListedRun:
    settings: dict[str, Any] = {
        "run_id": "case-42",
        "status": "completed",
        "agent": "Desk",
        "approvals": 0,
        "started": START,
        "closed": START + timedelta(seconds=5),
    }
    return ListedRun(**(settings | fields))


def test_a_filter_looks_again_at_what_a_server_cannot_search_for() -> None:
    assert RunFilter(id_prefix="what?s").accepts(_run(run_id="what?s up"))
    assert not RunFilter(id_prefix="what?s").accepts(_run(run_id="what is up"))
    assert not RunFilter(agent='say "x"').accepts(_run(agent="say y"))
    assert RunFilter().accepts(_run(is_nested=True))
    assert not RunFilter(nested=False).accepts(_run(is_nested=True))
    assert RunFilter(tenant="acme").accepts(_run(tenant="acme"))
    assert not RunFilter(tenant="acme").accepts(_run(tenant="other"))
    assert not RunFilter(tenant="acme").accepts(_run())
    assert RunFilter(customer='say "x"').accepts(_run(customer='say "x"'))
    assert not RunFilter(customer='say "x"').accepts(_run(customer="say y"))
    assert not RunFilter(customer="c-17").accepts(_run())
    digests = RunFilter(customer="c-17", listed_customers=("d1", "d2"))
    assert [digests.accepts(_run(customer=one)) for one in ("d2", "c-17")] == [True, False]
    assert RunFilter(group='say "x"').accepts(_run(people=('say "x"', "leads")))
    assert not RunFilter(group='say "x"').accepts(_run(people=("say y",)))


def test_a_status_that_there_is_not_is_refused() -> None:
    with pytest.raises(UserError, match=r"'sleeping' is no status of a run\. Statuses: running"):
        RunFilter(status="sleeping")  # type: ignore[arg-type]


def test_a_risk_that_there_is_not_is_refused() -> None:
    with pytest.raises(UserError, match="risk= must be 'low', 'medium' or 'high'"):
        RunFilter(risk="deadly")  # type: ignore[arg-type]


async def test_a_list_ends_where_a_thousand_runs_do_not_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pages: list[bytes | None] = []
    of_others = [WorkflowExecutionInfo()] * 100
    ours = WorkflowExecutionInfo()
    ours.priority.fairness_key = "acme"

    async def listed(_client: Any, _query: str, _limit: int, page: bytes | None, _: Any) -> Any:
        pages.append(page)
        number = int(page or 0)
        return ([ours] if number == 12 else of_others), str(number + 1).encode()

    monkeypatch.setattr(runs, "list_executions", listed)
    client: Any = None
    first = await list_runs(client, RunFilter(tenant="acme"))
    assert (len(first), first.next, len(pages)) == (0, b"10", 10)
    second = await list_runs(client, RunFilter(tenant="acme"), page=first.next)
    assert [one.tenant for one in second] == ["acme"]
    assert second.next == b"13"
    found = await find_runs(client, RunFilter(tenant="acme"), limit=1)
    assert len(found) == 1


@pytest.mark.parametrize("limit", [0, -1, LARGEST_PAGE + 1, True, "5"])
async def test_a_page_that_no_server_answers_with_is_refused(limit: Any) -> None:
    client: Any = None
    with pytest.raises(UserError, match="must be a number from 1 to 1,000"):
        await list_runs(client, limit=limit)


def test_a_run_that_has_ended_has_a_record_for_programs() -> None:
    record = _run(agent="").record()

    assert record["agent"] is None
    assert record["closed"] == "2026-01-01T00:00:05+00:00"
