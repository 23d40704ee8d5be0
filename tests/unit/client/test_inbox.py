"""The inbox without a server: its queries, and the differences between two looks."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, cast

import pytest
from temporalio.client import Client

from outlast.agents.errors import UserError
from outlast.client import inbox as module
from outlast.client.inbox import Inbox, InboxChange, InboxEntry, InboxPage, bulk_problem
from outlast.loop.approvals import ApprovalRequest, ApprovalTerms, Person

NOW = datetime(2026, 11, 1, tzinfo=UTC)
A = InboxEntry(run_id="a", started=NOW, client=cast("Client", None))
B, C = replace(A, run_id="b"), replace(A, run_id="c")


def query(**criteria: Any) -> str:
    options: dict[str, Any] = dict.fromkeys(("group", "risk", "mine", "due_before")) | criteria
    return module._Filter(**options).query()


def test_a_query_has_a_condition_for_each_criterion() -> None:
    base = (
        "WorkflowType = 'AgentRun' AND ExecutionStatus = 'Running' AND OutlastPendingApprovals > 0"
    )
    assert query() == base
    assert query(group="billing") == f"{base} AND OutlastWaitingGroups IN ('billing')"
    assert query(risk="high") == f"{base} AND OutlastRisk = 'high'"
    ann = Person(subject="ann", groups=("billing", "billing"))
    assert query(mine=ann) == f"{base} AND OutlastWaitingGroups IN ('*', 'ann', 'billing')"
    assert query(mine=Person()) == f"{base} AND OutlastWaitingGroups IN ('*')"
    elsewhere = NOW.astimezone(timezone(timedelta(hours=5)))
    assert query(due_before=elsewhere).endswith("OutlastDue < '2026-11-01T00:00:00.000000Z'")


def test_what_no_server_can_search_for_is_compared_here() -> None:
    odd = 'the "team"'
    assert query(group=odd) == query()
    criteria = module._Filter(group=odd)
    assert criteria.accepts(B, [odd, "x"])
    assert not criteria.accepts(B, ["the 'team'"])
    mine = module._Filter(mine=Person(subject="ann", groups=(odd,)))
    assert mine.accepts(B, ["*"])
    assert mine.accepts(B, [odd])
    assert not mine.accepts(B, ["billing"])


def test_held_conversations_are_listed_where_no_criterion_is_about_requests() -> None:
    held = replace(B, status="held", held_by="ann", pending=0)
    ann, bob = Person(subject="ann"), Person(subject="bob")
    everybodys = module._Filter(held=True)
    assert "OR OutlastStatus = 'held')" in everybodys.query()
    assert everybodys.accepts(held, [])
    assert module._Filter(mine=ann, held=True).accepts(held, [])
    assert not module._Filter(mine=bob, held=True).accepts(held, [])
    high = module._Filter(risk="high", held=True)
    assert "held" not in high.query()
    assert "held" not in module._Filter().query()


def test_the_most_urgent_entry_is_first_however_old() -> None:
    due = replace(B, due=NOW, started=NOW - timedelta(days=9))
    held = replace(B, status="held", held_by="ann")
    high = replace(B, risk="high")
    old = replace(B, started=B.started - timedelta(days=1))
    found = sorted([B, old, high, held, due], key=module.urgency)
    assert found == [due, held, high, old, B]


def test_a_watcher_gets_the_differences_between_two_looks() -> None:
    changed = replace(B, pending=2)
    before, after = {"a": A, "b": B}, {"b": changed, "c": C}
    assert list(module._changes(before, after)) == [
        InboxChange("changed", changed),
        InboxChange("added", C),
        InboxChange("removed", A),
    ]
    assert list(module._changes(after, after)) == []


def test_a_page_is_a_collection_of_its_entries() -> None:
    page = InboxPage((A, B), b"next")
    assert (list(page), len(page)) == ([A, B], 2)
    assert "client" not in repr(A)


def test_only_requests_of_low_risk_whose_policy_says_so_are_decided_together() -> None:
    request = ApprovalRequest(
        id="a1", call_id="c", name="n", agent="A", arguments="{}", args_digest="d", requested_at_ms=0
    )  # fmt: skip
    assert bulk_problem(replace(request, terms=ApprovalTerms(bulk=True))) is None
    assert "no bulk decisions" in (bulk_problem(request) or "")
    risky = ApprovalTerms(bulk=True, risk="medium")
    assert "Its risk is medium" in (bulk_problem(replace(request, terms=risky)) or "")


def test_an_inbox_needs_a_client() -> None:
    with pytest.raises(UserError, match=r"Inbox\(client\)"):
        Inbox(cast("Client", "localhost:7233"))
