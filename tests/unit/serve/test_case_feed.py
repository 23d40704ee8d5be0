"""The lists and counts of shared conversations: one look at the server for everybody."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from outlast.agents.errors import ServerUnavailable
from outlast.client.identity import person
from outlast.client.runs import FAILED_FOR, ListedRun, RunFilter, attention_query
from outlast.edges import clock
from outlast.serve import case_feed, run_feed
from outlast.serve.case_feed import (
    CaseFeed,
    Recent,
    choices_of,
    counts_of,
    of_view,
    unless_away,
)
from outlast.serve.run_feed import RunFeed
from outlast.temporal.visibility.scopes import RunScope
from tests.unit.serve.played import Shared

CLIENT: Any = None
NOW = clock.now()
ANN = person("ann", groups=["billing", "leads"])


def run(run_id: str, **fields: Any) -> ListedRun:
    given: dict[str, Any] = {
        "status": "idle",
        "agent": "Triage",
        "approvals": 0,
        "started": NOW - timedelta(hours=1),
        "closed": None,
    }
    return ListedRun(run_id=run_id, **(given | fields))


FAILED = {"status": "failed", "closed": NOW - timedelta(hours=1)}
RUNS = (
    run("mine", assignee="ann", team="billing"),
    run("bobs", assignee="bob", team="leads", tags=("vip", "@ann")),
    run("team", team="billing", tags=("vip",)),
    run("others", team="sales"),
    run("asks", status="waiting", approvals=1),
    run("late", status="waiting", assignee="bob", due=NOW - timedelta(minutes=1)),
    run("soon", status="waiting", assignee="bob", due=NOW + timedelta(minutes=9)),
    run("stuck", status="blocked"),
    run("unanswered", waits_for="retry: max_turns"),
    run("rests", waits_for="message"),
    run("held", status="held", waits_for="person: bob"),
    run("given", status="held", waits_for="person: ", team="sales"),
    run("failed", **FAILED),
    run("long ago", status="failed", closed=NOW - FAILED_FOR - timedelta(hours=1)),
    run("put off", status="snoozed", due=NOW - timedelta(hours=1)),
)


@pytest.mark.parametrize(
    ("view", "found"),
    [
        ("mine", ["mine"]),
        ("team", ["mine", "bobs", "team"]),
        ("nobody", ["team", "others", "asks", "stuck", "unanswered", "given"]),
        ("attention", ["late", "stuck", "unanswered", "failed"]),
        ("mentions", ["bobs"]),
    ],
)
def test_a_list_has_what_its_name_says(view: Any, found: list[str]) -> None:
    assert [one.run_id for one in of_view(RUNS, view, ANN)] == found
    assert counts_of(RUNS, ANN)[view] == len(found)


def test_choices_are_counted_the_most_frequent_first() -> None:
    assert next(iter(choices_of(RUNS, "team").items())) == ("billing", 2)
    assert choices_of(RUNS, "assignee") == {"bob": 3, "ann": 1}
    assert choices_of(RUNS, "tags", most=1) == {"vip": 2}


async def test_customers_who_wait_come_first_and_many_readers_take_one_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[str] = []

    def same(one: ListedRun) -> ListedRun:
        return one

    async def listed(_client: Any, query: str) -> Any:
        looks.append(query)
        for one in RUNS[:8]:
            yield one
        yield replace(RUNS[0], run_id="mine/nested", is_nested=True)
        yield RUNS[-1]  # put off, though it asks something

    monkeypatch.setattr(run_feed, "executions", listed)
    monkeypatch.setattr(case_feed, "listed_run", same)
    feed = CaseFeed(RunFeed(timedelta(hours=1)))
    found = await asyncio.gather(*(feed.entries(CLIENT, ()) for _ in range(50)))
    assert [one.run_id for one in found[0]] == [
        *("late", "soon", "asks", "stuck"),
        *("mine", "bobs", "team", "others"),
    ]
    assert len(looks) == 1
    scoped = (RunScope(tenants=frozenset({"acme"})),)
    assert feed.known(scoped) == ()
    await feed.close()
    assert await feed.entries(CLIENT, ()) == found[0]
    await feed.close()


def test_what_needs_attention_is_searched_for() -> None:
    words = attention_query(NOW)
    for one in (
        "= 'blocked'",
        "STARTS_WITH 'retry: '",
        "OutlastDue <",
        "OutlastCaseDue <",
        "TimedOut",
    ):
        assert one in words
    assert words[:90] in RunFilter(attention=True).query()
    assert RunFilter(attention=True).accepts(RUNS[7])
    assert not RunFilter(attention=True).accepts(RUNS[9])


def test_a_filter_compares_what_a_server_finds_by_its_beginning() -> None:
    odd = "a'b?c"
    one = run("odd", assignee=odd, team=odd, tags=(odd,))
    for wanted in (RunFilter(assignee=odd), RunFilter(team=odd), RunFilter(tag=odd)):
        assert wanted.accepts(one)
        assert not wanted.accepts(replace(one, assignee="a'b", team="a'b", tags=("a'b",)))
        assert wanted.query()


async def test_counts_are_asked_once_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def count(_client: Any, query: str, _patience: Any) -> int:
        asked.append(query)
        number = len(asked)
        await asyncio.sleep(0)
        return number

    monkeypatch.setattr(case_feed, "count_executions", count)
    feed = CaseFeed(RunFeed())
    assert feed.known_counts(()) == {}
    both = await asyncio.gather(*(feed.counted(CLIENT, ()) for _ in range(20)))
    assert both == [{"snoozed": 1, "resolved": 2}] * 20
    assert feed.known_counts(()) == both[0]
    other = (RunScope(agents=frozenset({"Triage"})),)
    assert (await feed.counted(CLIENT, other))["snoozed"] == 3
    assert "OutlastStatus = 'snoozed'" in asked[0]


async def test_what_is_remembered_is_asked_again_after_a_while() -> None:
    asked: list[int] = []

    async def ask() -> int:
        asked.append(1)
        if len(asked) == 2:
            raise ServerUnavailable("No server.")
        return len(asked)

    stale = Recent(0.0)
    assert await stale.get("a", ask) == 1
    with pytest.raises(ServerUnavailable):
        await stale.get("a", ask)
    assert stale.known("a") == 1
    assert await unless_away(stale.get("a", ask), None) == 3
    kept = Recent()
    for key in range(600):
        await kept.get(key, ask)
    assert (kept.known(0), kept.known(599)) == (None, 603)


async def test_a_server_that_is_away_has_no_lists() -> None:
    class Away(Shared):
        async def looks(self, client: Any) -> AsyncGenerator[tuple[ListedRun, ...]]:
            raise ServerUnavailable("No server.")
            yield ()

    feed = Away()
    assert await unless_away(feed.entries(CLIENT, ()), "nothing") == "nothing"
    assert feed.known(()) is None
