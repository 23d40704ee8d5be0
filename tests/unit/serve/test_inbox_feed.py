"""Live inboxes: the same for all readers, whatever their filters."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from outlast.agents.errors import ServerUnavailable
from outlast.client.inbox import InboxEntry, accepted
from outlast.loop.approvals import Person
from outlast.serve import inbox_feed, run_feed
from outlast.serve.inbox_feed import InboxFeed, InboxFilter
from outlast.serve.run_feed import RunFeed
from tests.unit.serve.test_inbox_page import NOW, entry

CLIENT: Any = None
ALL = InboxFilter()
HELD: dict[str, Any] = {"status": "held", "held_by": "bob", "pending": 0}


class Server:
    """Stands for visibility."""

    def __init__(self) -> None:
        self.entries: list[InboxEntry] = []
        self.looks = 0
        self.failure: Exception | None = None

    async def executions(self, _client: Any, _query: str) -> AsyncGenerator[InboxEntry]:
        self.looks += 1
        if self.failure is not None:
            raise self.failure
        for one in list(self.entries):
            yield one


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server()
    monkeypatch.setattr(run_feed, "executions", server.executions)
    monkeypatch.setattr(inbox_feed, "entries_of", entries_of)
    return server


def entries_of(_client: Any, found: Any, **criteria: Any) -> list[InboxEntry]:
    """The server's executions are entries here."""
    return accepted(found, **criteria)


def quick(grace: float = 0.01) -> InboxFeed:
    return InboxFeed(RunFeed(timedelta(milliseconds=1)), timedelta(seconds=grace))


async def test_many_readers_take_one_look(server: Server) -> None:
    server.entries = [entry("late", due=NOW + timedelta(hours=1)), entry("soon", due=NOW)]
    feed = InboxFeed(RunFeed(timedelta(hours=1)))
    async with feed.reader(CLIENT, ALL) as one, feed.reader(CLIENT, ALL) as other:
        first, second = await anext(one), await anext(other)
    assert [each.run_id for each in first] == ["soon", "late"]
    assert first is second
    assert server.looks == 1
    await feed.close()


async def test_a_reader_gets_what_is_new(server: Server) -> None:
    feed = quick()
    async with asyncio.timeout(5), feed.reader(CLIENT, ALL) as reader:
        assert await anext(reader) == ()
        server.entries = [entry()]
        assert len(await anext(reader)) == 1
        server.entries = [replace(entry(), pending=2)]
        assert (await anext(reader))[0].pending == 2
    await feed.close()


async def test_the_inbox_is_not_followed_without_readers_after_a_while(server: Server) -> None:
    feed = quick(grace=0.02)
    async with asyncio.timeout(5):
        async with feed.reader(CLIENT, ALL) as reader:
            await anext(reader)
        assert feed.is_followed
        async with feed.reader(CLIENT, ALL) as again:
            await anext(again)
            await asyncio.sleep(0.03)
            assert feed.is_followed
        while feed.is_followed:  # noqa: ASYNC110  nothing announces it
            await asyncio.sleep(0.01)
    assert server.looks


async def test_readers_hear_of_failures_and_the_next_one_tries_again(server: Server) -> None:
    server.failure = ServerUnavailable("No server.")
    feed = quick()
    async with asyncio.timeout(5):
        async with feed.reader(CLIENT, ALL) as reader:
            with pytest.raises(ServerUnavailable):
                await anext(reader)
        server.failure = None
        async with feed.reader(CLIENT, ALL) as reader:
            assert await anext(reader) == ()
    await feed.close()


async def test_closing_ends_readers(server: Server) -> None:
    feed = quick()
    async with asyncio.timeout(5), feed.reader(CLIENT, ALL) as reader:
        await anext(reader)
        await feed.close()
        assert [one async for one in reader] == []
    assert not feed.is_followed


async def test_all_filters_take_one_look_and_hear_of_their_own_changes(server: Server) -> None:
    ann, everybodys = Person(subject="ann", groups=("billing",)), entry("all", for_anybody=True)
    billing, held = entry("billing", people=("billing",)), entry("held", **HELD)
    server.entries = [everybodys, billing, held, entry("risky", risk="high", people=("leads",))]
    feed = quick()
    filters = (ALL, InboxFilter(mine=ann), InboxFilter(group="billing"), InboxFilter(risk="high"))
    async with asyncio.timeout(5), AsyncExitStack() as stack:
        readers = [await stack.enter_async_context(feed.reader(CLIENT, one)) for one in filters]
        found = [{each.run_id for each in await anext(reader)} for reader in readers]
        assert found == [
            {"all", "billing", "held", "risky"},
            {"all", "billing"},
            {"billing"},
            {"risky"},
        ]
        assert feed.known(InboxFilter(mine=Person(subject="bob"))) == (held, everybodys)
        risky = readers[-1]
        server.entries = [*server.entries, entry("new", for_anybody=True)]
        assert {each.run_id for each in await anext(readers[1])} == {"all", "billing", "new"}
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(risky), 0.02)
    await feed.close()


async def test_a_filter_sees_what_a_server_would_list(server: Server) -> None:
    odd = entry("odd", status="held", held_by="bob", people=("billing",))
    server.entries = [odd, entry("mute", pending=0)]
    feed = quick()
    async with asyncio.timeout(5), feed.reader(CLIENT, ALL) as reader:
        await anext(reader)
        ann, carl = Person(subject="ann", groups=("billing",)), Person(subject="carl")
        assert feed.known(InboxFilter(mine=ann)) == (odd,)
        assert feed.known(InboxFilter(mine=Person(subject="bob"))) == (odd,)
        assert feed.known(InboxFilter(mine=carl)) == feed.known(InboxFilter(group="leads")) == ()
        assert feed.known(ALL) == (odd,)
    await feed.close()
    assert feed.known(ALL) is None
