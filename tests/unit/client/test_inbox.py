"""The inbox without a server: its queries, and the differences between two looks."""

import random
import re
from dataclasses import dataclass, replace
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
    asking = replace(B, pending=1)
    theirs, others = replace(asking, people=(odd, "x")), replace(asking, people=("the 'team'",))
    assert module.accepted([theirs, others], group=odd) == [theirs]
    anybodys = replace(asking, for_anybody=True)
    mine = Person(subject="ann", groups=(odd,))
    assert module.accepted([anybodys, theirs, others], mine=mine) == [anybodys, theirs]


def test_entries_are_filtered_as_a_server_does() -> None:
    due, high = replace(B, pending=1, due=NOW), replace(B, pending=1, risk="high")
    entries = [A, due, high]
    assert module.accepted(entries) == [due, high]
    assert module.accepted(entries, risk="low") == [due]
    assert module.accepted(entries, due_before=NOW) == []
    assert module.accepted(entries, due_before=NOW + timedelta(seconds=1)) == [due]


def test_held_conversations_are_listed_where_no_criterion_is_about_requests() -> None:
    held = replace(B, status="held", held_by="ann", pending=0)
    ann, bob = Person(subject="ann"), Person(subject="bob")
    everybodys = module._Filter(held=True)
    assert "OR OutlastStatus = 'held')" in everybodys.query()
    assert everybodys.accepts(held)
    assert module._Filter(mine=ann, held=True).accepts(held)
    assert not module._Filter(mine=bob, held=True).accepts(held)
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


@dataclass
class Visibility:
    """Stands for a server with entries, each of which is listed twice: nested runs are counted."""

    entries: list[InboxEntry]
    counts: int = 0
    listed: int = 0

    def found(self, query: str) -> list[InboxEntry]:
        entries = self.entries
        for condition in query.split(" AND "):
            entries = [one for one in entries if self._meets(one, condition)]
        return entries

    def _meets(self, one: InboxEntry, condition: str) -> bool:
        if match := re.fullmatch(r"(OutlastDue|StartTime) < '(.+)'", condition):
            value = one.due if match[1] == "OutlastDue" else one.started
            return value is not None and value < datetime.fromisoformat(match[2])
        conditions = {
            "OutlastDue IS NOT NULL": one.due is not None,
            "OutlastDue IS NULL": one.due is None,
            "OutlastStatus = 'held'": one.status == "held",
            "(OutlastStatus IS NULL OR OutlastStatus != 'held')": one.status != "held",
            "(OutlastRisk IS NULL OR OutlastRisk = 'low')": one.risk == "low",
            "OutlastRisk = 'medium'": one.risk == "medium",
            "OutlastRisk = 'high'": one.risk == "high",
        }
        return conditions.get(condition, True)

    async def count(self, _client: Any, query: str, _patience: Any) -> int:
        self.counts += 1
        return 2 * len(self.found(query))

    async def every(self, wanted: Any, query: str) -> Any:
        entries = self.found(query)
        self.listed += len(entries)
        return [one for one in entries if wanted.accepts(one)]


@pytest.mark.parametrize("seed", range(6))
async def test_the_most_urgent_entries_are_found_without_listing_all(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, now = random.Random(seed), datetime.now(UTC)  # noqa: TID251
    spread = timedelta(seconds=chance.choice([1, 3_600, 86_400 * 365]))
    dues = chance.choice([[None], [None, True], [True]])
    entries = [
        replace(
            B,
            run_id=f"r{at}",
            pending=1,
            started=now - chance.random() * spread,
            risk=chance.choice(["low", "low", "medium", "high"]),
            due=chance.choice(dues) and now + (chance.random() - 0.3) * spread,
            status=chance.choice(["held", "waiting", "waiting", "waiting"]),
        )
        for at in range(600)
    ]
    server = Visibility(entries)
    monkeypatch.setattr(module, "count_executions", server.count)
    inbox = Inbox.__new__(Inbox)
    inbox._client = inbox._patience = cast("Any", None)
    monkeypatch.setattr(inbox, "_every", server.every)
    limit = chance.choice([1, 5, 15])
    found = await inbox.urgent(limit=limit, held=True)
    assert list(found) == sorted(entries, key=module.urgency)[:limit]
    assert server.listed < 30 * limit
    assert server.counts < 150
    server.entries = entries[: limit - 1]
    assert len(await inbox.urgent(limit=limit, held=True)) == limit - 1


async def test_entries_of_one_moment_are_all_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Visibility([replace(B, run_id=f"r{at}", pending=1) for at in range(1_100)])
    monkeypatch.setattr(module, "count_executions", server.count)
    inbox = Inbox.__new__(Inbox)
    inbox._client = inbox._patience = cast("Any", None)
    monkeypatch.setattr(inbox, "_every", server.every)
    assert len(await inbox.urgent(limit=10)) == 10
    assert server.listed == 1_100


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
