"""The runs that people have to do with: one look at the server for all lists of a desk."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import pytest

from outlast.serve import run_feed, visibility_feed
from outlast.serve.case_feed import CaseFeed
from outlast.serve.inbox_feed import InboxFeed, InboxFilter
from outlast.serve.run_feed import RunFeed

CLIENT: Any = None


class Server:
    """Stands for visibility: it lists as many runs as it is told."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.queries: list[str] = []

    async def executions(self, _client: Any, query: str) -> AsyncGenerator[Any]:
        self.queries.append(query)
        for one in range(self.number):
            yield one


async def test_all_lists_take_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(0)
    monkeypatch.setattr(run_feed, "executions", server.executions)
    runs = RunFeed(timedelta(hours=1))
    inbox, cases = InboxFeed(runs), CaseFeed(runs)
    async with (
        asyncio.timeout(5),
        inbox.reader(CLIENT, InboxFilter()) as one,
        cases.reader(CLIENT, ()) as other,
    ):
        assert await anext(one) == ()
        assert await anext(other) == ()
    [query] = server.queries
    for condition in ("Approvals > 0", "'held'", "Assignee IS NOT NULL", "!= 'resolved'", "Failed"):
        assert condition in query
    assert runs.is_followed
    await inbox.close()
    await cases.close()
    await asyncio.sleep(0)
    assert not runs.is_followed


@pytest.mark.parametrize(("number", "often"), [(0, True), (1, False)])
async def test_thousands_of_runs_are_looked_at_less_often(
    monkeypatch: pytest.MonkeyPatch, number: int, often: bool
) -> None:
    server = Server(number)
    monkeypatch.setattr(run_feed, "executions", server.executions)
    monkeypatch.setattr(visibility_feed, "LARGEST_PAGE", 1)
    monkeypatch.setattr(visibility_feed, "_SECONDS_PER_PAGE", 60.0)
    feed = RunFeed(timedelta())
    async with asyncio.timeout(5), feed.reader(CLIENT, None) as reader:
        assert len(await anext(reader)) == number
        await asyncio.sleep(0.05)
    assert (len(server.queries) > 1) == often
    await feed.close()
