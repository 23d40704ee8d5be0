"""Whatever happens to a run and to its readers, each reader has each text and each event once."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from outlast.serve.cursor import Cursor
from outlast.serve.feed import (
    Cut,
    Ended,
    Feed,
    FeedEntry,
    FeedLimits,
    Happened,
    Snapshot,
    TextAdded,
    TextReset,
)
from tests.unit.serve.scripted_source import World

PROCESSES = 2
READERS = 3
PATIENT = FeedLimits(lag=timedelta(minutes=1))


@dataclass
class View:
    """What one reader has, from what it got."""

    world: World
    cursor: Cursor | None
    finished: list[str] = field(default_factory=list[str])
    text: str = ""
    replaced: int = 0
    is_over: bool = False

    def take(self, item: FeedEntry) -> None:
        match item:
            case Snapshot(cursor=cursor, text=text):
                self.finished, self.text = self.world.truth[: cursor.event], text
                self.replaced += 1
            case Happened(cursor=cursor, event=event):
                assert event.id == len(self.finished)
                goes_on = cursor.offset > 0
                self.finished.append("" if goes_on else self.text)
                self.text = self.text if goes_on else ""
            case TextAdded(text=text):
                assert text
                self.text += text
            case TextReset():
                assert self.text
                self.text = ""
                self.replaced += 1
            case Ended():
                self.is_over = True
            case Cut():
                pass
        assert item.cursor.event == len(self.finished)
        assert item.cursor.offset == len(self.text)
        self.cursor = item.cursor


class Screens:
    """Several processes with feeds of one run, and readers that go from one to another."""

    def __init__(self, world: World, seed: int, begins: Sequence[Cursor | None]) -> None:
        self.world = world
        self._chance = random.Random(seed)
        self._feeds = [self._feed() for _ in range(PROCESSES)]
        self.views = [View(world, after) for after in begins]
        self._at = [number % PROCESSES for number in range(len(begins))]
        self._awake = [asyncio.Event() for _ in begins]
        for awake in self._awake:
            awake.set()
        self._tasks = [asyncio.create_task(self._read(number)) for number in range(len(begins))]

    async def go_to(self, reader: int, feed: int) -> None:
        """A reader loses its connection, and comes back at a process."""
        await self._stop(reader)
        self._at[reader] = feed
        self._tasks[reader] = asyncio.create_task(self._read(reader))

    async def kill(self, feed: int) -> None:
        """A process ends, and another one takes its place."""
        old, self._feeds[feed] = self._feeds[feed], self._feed()
        await old.close()

    def pause(self, reader: int) -> None:
        self._awake[reader].clear()

    def resume(self, reader: int) -> None:
        self._awake[reader].set()

    async def finish(self) -> None:
        """Let all readers read to the end."""
        for awake in self._awake:
            awake.set()
        async with asyncio.timeout(20):
            await asyncio.gather(*self._tasks)
        for feed in self._feeds:
            await feed.close()

    async def _stop(self, reader: int) -> None:
        self._tasks[reader].cancel()
        with suppress(asyncio.CancelledError):
            await self._tasks[reader]

    async def _read(self, reader: int) -> None:
        view = self.views[reader]
        while not view.is_over:
            feed = self._feeds[self._at[reader]]
            async with feed.reader("run", view.cursor) as items:
                async for item in items:
                    await self._awake[reader].wait()
                    view.take(item)

    def _feed(self) -> Feed:
        seed = self._chance.random()

        def source(_run_id: str) -> Any:
            return self.world.follow(random.Random(seed))

        return Feed(source, PATIENT)


Action: TypeAlias = tuple[str, tuple[Any, ...]]


def action(name: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Action]:
    return st.tuples(st.just(name), st.tuples(*arguments))


READER = st.integers(0, READERS - 1)
FEED = st.integers(0, PROCESSES - 1)
SAFE = (
    *[action("write", st.text("abc", min_size=1, max_size=6))] * 3,
    action("reply", st.integers(1, 3)),
    action("happen", st.integers(0, 2)),
    *[action("go_to", READER, FEED)] * 2,
    action("kill", FEED),
    action("pause", READER),
    action("resume", READER),
)
VOIDING = (
    action("begin_call"),
    action("reply", st.just(0)),
    action("restart"),
    action("fail_call"),
)
TURNS = st.integers(0, 12)
"""How often the event loop runs between two actions: the processes lag behind differently."""


async def play(
    actions: Sequence[tuple[Action, int]], seed: int, begins: Sequence[Cursor | None]
) -> tuple[World, list[View]]:
    world = World()
    world.happen(1)
    screens = Screens(world, seed, begins)
    for (name, arguments), turns in actions:
        if hasattr(world, name):
            getattr(world, name)(*arguments)
        elif (done := getattr(screens, name)(*arguments)) is not None:
            await done
        for _ in range(turns):
            await asyncio.sleep(0)
    world.end()
    await screens.finish()
    assert len(asyncio.all_tasks()) == 1, "nothing is left"
    return world, screens.views


@given(
    st.lists(st.tuples(st.one_of(*SAFE, *VOIDING), TURNS), min_size=12, max_size=50),
    st.integers(),
    st.lists(st.sampled_from([None, Cursor()]), min_size=READERS, max_size=READERS),
)
def test_every_reader_has_each_text_and_each_event_once(
    actions: list[tuple[Action, int]], seed: int, begins: list[Cursor | None]
) -> None:
    world, views = asyncio.run(play(actions, seed, begins))
    for view in views:
        assert view.finished == world.truth
        assert view.text == world.unshown


@given(
    st.lists(st.tuples(st.one_of(*SAFE), TURNS), min_size=12, max_size=50),
    st.integers(),
)
def test_a_reader_that_comes_back_gets_exactly_what_follows(
    actions: list[tuple[Action, int]], seed: int
) -> None:
    """Where no model call starts over, nobody's text or state is replaced."""
    answered = [*actions, (("reply", (1,)), 0)]
    world, views = asyncio.run(play(answered, seed, [Cursor()] * READERS))
    for view in views:
        assert view.finished == world.truth
        assert view.replaced == 0
