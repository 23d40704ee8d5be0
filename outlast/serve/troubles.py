"""What servers say about runs, asked once for all readers: the cost grows with runs."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias, TypeVar

from temporalio.service import RPCError

from outlast.edges import clock
from outlast.edges.newest import keep_newest
from outlast.serve.access import Caller, Staff, may, redaction_for
from outlast.views.run import RunSnapshot
from outlast.views.trouble import (
    QUIET,
    ServerFacts,
    Trouble,
    trouble_words,
    troubles,
    words_for_customer,
)

T = TypeVar("T")

FRESH_SECONDS: Final = 4.0
"""How long what a server said about a run counts as present."""

ASKED_AT_ONCE: Final = 8
"""About how many rows of a list the server is asked at the same time."""

ROWS_SECONDS: Final = 1.0
"""How long a list waits for the trouble of its rows; what comes later is there the next time."""

MOST_RUNS: Final = 5_000
"""How many runs are remembered."""

ReadFacts: TypeAlias = Callable[[str, bool], Awaitable[ServerFacts]]
"""Asks the server about a run, which works or is at rest: see `outlast.client.trouble`."""


async def _nothing(_run_id: str, _works: bool) -> ServerFacts:  # noqa: FBT001
    return QUIET


@dataclass(frozen=True, slots=True)
class _Known:
    facts: ServerFacts
    at: float


@dataclass(eq=False)
class _Watched:
    """A run that is watched, for all of its readers.

    Attributes:
        state: returns its newest state.
        facts: what the server said last.
        readers: how many readers there are.
        woken: set when the run has changed.
        news: set when its trouble has changed, and then replaced.
    """

    state: Callable[[], RunSnapshot]
    facts: ServerFacts = QUIET
    readers: int = 0
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    def take(self, facts: ServerFacts) -> None:
        """Take what the server says, and wake the readers if that changes what they see."""
        state, now = self.state(), clock.now_ms()
        before, self.facts = self.facts, facts
        is_same = troubles(state, facts, now) == troubles(state, before, now)
        if not is_same or facts.first != before.first:
            self.news.set()
            self.news = asyncio.Event()


class Watch:
    """What one reader sees of the trouble of a run."""

    def __init__(self, shared: _Watched) -> None:
        self._shared = shared
        self._news = shared.news

    @property
    def facts(self) -> ServerFacts:
        """What the server said last."""
        return self._shared.facts

    def look(self) -> None:
        """Have the server asked soon: something has happened in the run."""
        self._shared.woken.set()

    async def news(self) -> None:
        """Wait until the trouble is another one than when this returned before."""
        await self._news.wait()
        self._news = self._shared.news

    async def or_news(self, other: Coroutine[Any, Any, object]) -> None:
        """Wait for something else, or until the trouble is another one; then the other is given up."""
        waiting = [asyncio.ensure_future(other), asyncio.create_task(self.news())]
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()
        finally:
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def beside(self, entries: AsyncGenerator[T]) -> AsyncGenerator[T | None]:
        """Yield entries of a feed, and None when the trouble has changed.

        No entry is taken before the one before it was.
        """
        news = asyncio.create_task(self.news())
        following: asyncio.Task[T | _End] | None = None
        try:
            while True:
                following = following or asyncio.create_task(_next_of(entries))
                await asyncio.wait({following, news}, return_when=asyncio.FIRST_COMPLETED)
                if following.done():
                    entry, following = following.result(), None
                    if isinstance(entry, _End):
                        return
                    self.look()
                    yield entry
                else:
                    news = asyncio.create_task(self.news())
                    yield None
        finally:
            left: list[asyncio.Task[Any]] = [news, *([following] if following else [])]
            for one in left:
                one.cancel()
            await asyncio.gather(*left, return_exceptions=True)
            await entries.aclose()


class _End:
    """Nothing follows."""


async def _next_of(entries: AsyncGenerator[T]) -> T | _End:
    return await anext(entries, _End())


class RunTroubles:
    """What keeps runs from going on, for the readers in this process.

    Args:
        read: asks the server about a run.
        answers: asks the server whether it is there, within a second.
    """

    def __init__(
        self, read: ReadFacts = _nothing, answers: Callable[[], Awaitable[bool]] | None = None
    ) -> None:
        self._read = read
        self._answers = answers
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._slots = asyncio.Semaphore(ASKED_AT_ONCE)
        self._asking: dict[str, asyncio.Task[ServerFacts]] = {}
        self._watched: dict[str, _Watched] = {}

    async def answers(self) -> bool:
        """Whether the server is there."""
        return self._answers is None or await self._answers()

    async def facts(self, run_id: str, state: RunSnapshot) -> ServerFacts:
        """Return what the server says about a run; it is asked if nobody did lately.

        Args:
            run_id: the run.
            state: its state.
        """
        if state.outcome is not None:
            return QUIET
        known = self._known.get(run_id)
        if known is not None and time.monotonic() - known.at < FRESH_SECONDS:
            return known.facts
        return await self._asked(run_id, works=state.status == "running")

    @asynccontextmanager
    async def watch(self, run_id: str, state: Callable[[], RunSnapshot]) -> "AsyncGenerator[Watch]":
        """Watch what the server says about a run, for one reader.

        All readers of a run share one watcher. It asks while the run works, or something waits for
        a worker, and not while the run is at rest.

        Args:
            run_id: the run.
            state: returns the newest state.
        """
        shared = self._watched.get(run_id)
        if shared is None:
            shared = self._watched[run_id] = _Watched(state)
            shared.task = asyncio.create_task(self._follow(run_id, shared))
        shared.readers += 1
        try:
            yield Watch(shared)
        finally:
            shared.readers -= 1
            if not shared.readers and shared.task is not None:
                del self._watched[run_id]
                shared.task.cancel()
                await asyncio.wait((shared.task,))

    async def _follow(self, run_id: str, shared: "_Watched") -> None:
        while True:
            shared.woken.clear()
            state = shared.state()
            shared.take(await self.facts(run_id, state))
            works = state.outcome is None and state.status == "running"
            if not (works or shared.facts.asks_again):
                await shared.woken.wait()
            known = self._known.get(run_id)
            since = 0.0 if known is None else time.monotonic() - known.at
            await asyncio.sleep(max(0.0, FRESH_SECONDS - since))

    async def _asked(self, run_id: str, *, works: bool) -> ServerFacts:
        task = self._asking.get(run_id)
        if task is None:
            task = self._asking[run_id] = asyncio.create_task(self._ask(run_id, works=works))
            task.add_done_callback(lambda _: self._asking.pop(run_id, None))
        return await asyncio.shield(task)  # others wait for the same answer

    async def rows(self, working: Mapping[str, bool]) -> dict[str, str]:
        """Return the trouble of listed runs in words, without reasons, as far as it is known soon.

        Of runs at rest, what is known here is said, and nobody is asked.

        Args:
            working: whether each run works, by its id.
        """
        asked = [
            asyncio.create_task(self._row(run_id)) for run_id, works in working.items() if works
        ]
        if asked:
            await asyncio.wait(asked, timeout=ROWS_SECONDS)
        found: dict[str, str] = {}
        for run_id in working:
            known = self._known.get(run_id)
            if known is not None and (line := row_trouble(known.facts)):
                found[run_id] = line
        return found

    async def _row(self, run_id: str) -> None:
        async with self._slots:
            await self.facts(run_id, RunSnapshot())

    async def of(self, run_id: str, state: RunSnapshot, caller: Caller) -> tuple[Trouble, ...]:
        """Return what keeps a run from going on, as a caller of the team sees it."""
        return seen_troubles(state, await self.facts(run_id, state), caller)

    async def _ask(self, run_id: str, *, works: bool) -> ServerFacts:
        try:
            facts = await self._read(run_id, works)
        except RPCError:
            facts = QUIET  # who reads the run learns it by that
        keep_newest(self._known, run_id, _Known(facts, time.monotonic()), MOST_RUNS)
        return facts


def seen_troubles(state: RunSnapshot, facts: ServerFacts, caller: Caller) -> tuple[Trouble, ...]:
    """Return what keeps a run from going on, as a caller of the team sees it."""
    found = troubles(state, facts, clock.now_ms(), redaction_for(caller, state))
    if may(caller, "view_payloads") is None:
        return found
    return tuple(replace(one, why="") for one in found)


def row_trouble(facts: ServerFacts) -> str:
    """Return the most important trouble of a run whose state was not read, without its reason."""
    found = troubles(RunSnapshot(), facts, clock.now_ms())
    return trouble_words(replace(found[0], why="")) if found else ""


def customer_trouble(state: RunSnapshot, facts: ServerFacts) -> str:
    """Return what keeps a run from going on, in words for its customer; or nothing."""
    return words_for_customer(troubles(state, facts, clock.now_ms()))


def told_trouble(state: RunSnapshot, facts: ServerFacts, caller: Caller) -> str:
    """Return what keeps a run from going on, in words for a caller of a chat; or nothing."""
    if not isinstance(caller, Staff):
        return customer_trouble(state, facts)
    found = seen_troubles(state, facts, caller)
    return trouble_words(found[0]) if found else ""
