"""Feeds of runs on a server: every reader has each text once, whatever is killed in mid-answer."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.client.handle import RunHandle
from outlast.client.read import delta_poller as reader
from outlast.contract.streams.call_windows import CallWindows
from outlast.serve.cursor import Cursor
from outlast.serve.feed import (
    Ended,
    Feed,
    FeedEntry,
    FeedReader,
    Happened,
    Snapshot,
    TextAdded,
    TextReset,
)
from outlast.testing import ScriptedModel, paced
from tests.workflow.desk import PATIENCE_SECONDS, QUICK, Desk
from tests.workflow.test_streams import WORDS, numbered, read

A = Agent[Any](name="A")


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The readers are in another process than the worker."""
    monkeypatch.setattr(reader, "call_windows", CallWindows())


@asynccontextmanager
async def processes(desk: Desk) -> AsyncGenerator[tuple[Feed, Feed]]:
    """Two processes with a feed each."""

    def source(run_id: str) -> Any:
        return RunHandle(desk.client, run_id).stream_states()

    async with asyncio.timeout(PATIENCE_SECONDS), Feed(source) as one, Feed(source) as other:
        yield one, other


def texts(items: list[FeedEntry]) -> list[str]:
    """Return the texts that a reader has, each until an event ends it."""
    found = [""]
    for item in items:
        match item:
            case TextAdded(text=text):
                found[-1] += text
            case TextReset():
                found[-1] = ""
            case Snapshot(text=text):
                found[-1] = text
            case Happened(cursor=cursor) if not cursor.offset:
                found.append("")
            case _:
                pass
    return [text for text in found if text]


def events(items: list[FeedEntry]) -> list[Any]:
    return [item.event for item in items if isinstance(item, Happened)]


async def take_pieces(items: FeedReader, count: int) -> list[FeedEntry]:
    """Take what comes until so many pieces of text have come."""
    found: list[FeedEntry] = []
    while sum(isinstance(item, TextAdded) for item in found) < count:
        found.append(await anext(items))
    return found


async def take_all(feed: Feed, run_id: str, after: Cursor | None) -> list[FeedEntry]:
    async with feed.reader(run_id, after) as items:
        return [item async for item in items]


@pytest.mark.smoke
async def test_a_reader_that_comes_back_in_mid_answer_has_the_text_once(desk: Desk):
    await desk.open(A, model=ScriptedModel(paced(0.1, WORDS)))
    handle = await desk.start(A, stream=True)
    async with processes(desk) as (one, other):
        stays = asyncio.create_task(take_all(one, handle.id, Cursor()))
        async with one.reader(handle.id, Cursor()) as first:
            begin = await take_pieces(first, 3)
        async with other.reader(handle.id, begin[-1].cursor) as second:
            middle = await take_pieces(second, 2)
        rest = await take_all(one, handle.id, middle[-1].cursor)
        goes = [*begin, *middle, *rest]
        stayed = await stays
    async with processes(desk) as (one, other):
        late = await take_all(one, handle.id, None)
        whole = await take_all(other, handle.id, Cursor())
    assert texts(goes) == texts(stayed) == texts(whole) == [WORDS]
    assert not [item for item in goes if isinstance(item, Snapshot | TextReset)]
    assert (
        events(goes)
        == events(stayed)
        == events(whole)
        == numbered(await read(RunHandle(desk.client, handle.id)))
    )
    assert len([item for item in goes if isinstance(item, TextAdded)]) > 5
    assert stayed[-1] == late[-1] == Ended(stayed[-1].cursor, "completed")
    [snapshot, _] = late
    assert isinstance(snapshot, Snapshot)
    assert (snapshot.state, snapshot.cursor) == (await handle.state(), stayed[-1].cursor)


async def test_a_worker_and_a_process_that_end_in_mid_answer_double_no_text(desk: Desk):
    worker = await desk.open(A, model=ScriptedModel(paced(0.3, WORDS)))
    handle = await desk.start(A, stream=True, run_config=QUICK)
    async with processes(desk) as (one, other):
        stays = asyncio.create_task(take_all(one, handle.id, Cursor()))
        async with other.reader(handle.id, Cursor()) as first:
            begin = await take_pieces(first, 2)
            await desk.close(worker)
            await other.close()
            cut = [item async for item in first]
        await desk.open(A, model=ScriptedModel(paced(0.02, WORDS)))
        rest = await take_all(other, handle.id, cut[-1].cursor)
        stayed = await stays
    assert texts(stayed) == [WORDS]
    assert [item for item in stayed if isinstance(item, TextReset)]
    assert stayed[-1].cursor == rest[-1].cursor
    if not [item for item in rest if isinstance(item, Snapshot)]:
        assert texts([*begin, *cut, *rest]) == [WORDS]
        assert events([*begin, *cut, *rest]) == events(stayed)
