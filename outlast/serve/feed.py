"""The live streams of runs: one follower for each run, however many readers it has.

A reader is a position in what its follower has read, so a slow reader holds nobody up and needs no
queue: it gets more text at once. Nothing is stored, and any process continues any reader.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Self, TypeAlias

from outlast.client.live import TextInProgress
from outlast.client.read.events import (
    NumberedEvent,
    RawResponsesStreamEvent,
    StreamedState,
)
from outlast.client.read.read_range import HistoryPlace
from outlast.client.timeline import Step, Timeline
from outlast.serve.cursor import Cursor, checksum, cursor_at
from outlast.views.records import Status
from outlast.views.run import RunSnapshot, reported_requests

_BETWEEN_MESSAGES: Final = "\n\n"

Source: TypeAlias = Callable[[str], AsyncGenerator[StreamedState | RawResponsesStreamEvent]]
"""Streams the run with an id: see `RunHandle.stream_states`."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state from which a reader goes on; it replaces all that the reader has.

    Attributes:
        cursor: the position.
        state: the state of the run.
        text: the text in progress so far.
        is_unjudged: whether no guardrail and no person will judge that text.
        turn: the number of the model call that writes it; 0 without a text.
    """

    cursor: Cursor
    state: RunSnapshot
    text: str
    is_unjudged: bool
    turn: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Happened:
    """An event of the run.

    The text in progress ends with it if the cursor has no offset: items have the text from now on,
    or the answer was not approved.
    """

    cursor: Cursor
    event: NumberedEvent


@dataclass(frozen=True, slots=True)
class TextAdded:
    """More of the text in progress: of what the model writes to people.

    Attributes:
        cursor: the position.
        text: the characters that are added.
        is_unjudged: whether no guardrail and no person will judge the text.
        turn: the number of the model call that writes it, as the items of its reply have it.
    """

    cursor: Cursor
    text: str
    is_unjudged: bool
    turn: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class TextReset:
    """The text in progress is void: the model call starts over, has failed or was cancelled."""

    cursor: Cursor


@dataclass(frozen=True, slots=True)
class Ended:
    """The run has ended; nothing follows."""

    cursor: Cursor
    status: Status


@dataclass(frozen=True, slots=True)
class Cut:
    """The reader is cut off, and nothing follows; it may come back with the cursor.

    It took nothing for too long, or this process is shutting down.
    """

    cursor: Cursor


@dataclass(slots=True)
class AnswerRange:
    """Which events of a run belong to a message, the same in every process.

    Attributes:
        begins: the number of the first event since the message arrived.
        ends: the number of the first event after its answer, or after the failure to answer it; None
            without one so far, and while the question is retried.
    """

    begins: int
    ends: int | None = None


FeedEntry: TypeAlias = Snapshot | Happened | TextAdded | TextReset | Ended | Cut
"""What a reader gets."""


class TooManyReaders(Exception):
    """A run or a person has as many readers as are allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedLimits:
    """The bounds of a feed.

    Attributes:
        readers_per_run: how many readers a run may have in this process.
        readers_per_person: how many streams a person, or a customer, may have in this process, of
            every kind.
        streams: how many streams this process sends at once, to everybody.
        streams_per_program: how many streams a program with an API key may have in this process: one
            for each customer who waits, often.
        stalled_after: how long a reader may take nothing, although there is something for it.
        grace: how long a follower without readers waits for another one.
        lag: how long a reader that is ahead of this process waits for it to catch up; then its
            position counts as one that does not exist.
    """

    readers_per_run: int = 100
    readers_per_person: int = 50
    streams: int = 1_000
    streams_per_program: int = 500
    stalled_after: timedelta = timedelta(seconds=30)
    grace: timedelta = timedelta(seconds=10)
    lag: timedelta = timedelta(seconds=5)


class Feed:
    """The streams of runs for the readers in this process.

    Close it with `async with` or `close`; readers that are left get a `Cut`.
    """

    def __init__(self, source: Source, limits: FeedLimits | None = None) -> None:
        self._source = source
        self._limits = limits or FeedLimits()
        self._runs: dict[str, _Run] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    @property
    def followed(self) -> frozenset[str]:
        """The ids of the runs that are followed at the moment."""
        return frozenset(self._runs)

    @asynccontextmanager
    async def reader(
        self, run_id: str, after: Cursor | None = None
    ) -> "AsyncGenerator[FeedReader]":
        """Read a run along.

        With a cursor, exactly what follows it comes. Without one, and if what was before the cursor
        is not what is there now, a `Snapshot` comes first.

        Args:
            run_id: the run.
            after: the cursor of the last thing that the reader got; `Cursor()` for everything.

        Raises:
            TooManyReaders: the run has too many readers.
        """
        run = self._followed(run_id)
        if len(run.readers) >= self._limits.readers_per_run:
            raise TooManyReaders(
                f"{len(run.readers)} readers follow the run {run_id!r} already. Try again later."
            )
        reader = FeedReader(run, after, self._limits.lag.total_seconds())
        run.readers.add(reader)
        if run.idle is not None:
            run.idle.cancel()
            run.idle = None
        try:
            yield reader
        finally:
            run.readers.discard(reader)
            self._end_later(run)

    async def close(self) -> None:
        """Stop following, and cut all readers."""
        runs = list(self._runs.values())
        for run in runs:
            run.cut_all()
            self._end(run)
        await asyncio.gather(*(run.task for run in runs if run.task), return_exceptions=True)

    def _followed(self, run_id: str) -> "_Run":
        run = self._runs.get(run_id)
        if run is None:
            run = self._runs[run_id] = _Run(run_id, self._limits.stalled_after.total_seconds())
            run.task = asyncio.create_task(self._follow(run))
        return run

    async def _follow(self, run: "_Run") -> None:
        try:
            async with aclosing(self._source(run.id)) as stream:
                async for one in stream:
                    run.take(one)
                    self._end_later(run)  # its readers may have been cut
            run.end()
        except Exception as error:  # noqa: BLE001  its readers raise it
            run.end(error)
        finally:
            self._forget(run)

    def _end_later(self, run: "_Run") -> None:
        """End a follower after the grace, unless a reader comes."""
        if run.readers or self._runs.get(run.id) is not run or run.idle is not None:
            return
        grace = self._limits.grace.total_seconds()
        run.idle = asyncio.get_running_loop().call_later(grace, self._end, run)

    def _end(self, run: "_Run") -> None:
        self._forget(run)
        if run.task is not None:
            run.task.cancel()

    def _forget(self, run: "_Run") -> None:
        """Forget a follower that ends: the next reader looks whether the run was reset."""
        if self._runs.get(run.id) is run:
            del self._runs[run.id]
        if run.idle is not None:
            run.idle.cancel()


@dataclass(frozen=True, slots=True)
class _LoggedEvent:
    """An event, and the reply that ended with it."""

    event: NumberedEvent
    reply: str | None
    """The whole text of the reply; None if the text in progress goes on after the event."""

    text_number: int
    """The number of the text in progress before the event."""

    is_unjudged: bool
    """Whether nobody judges that text."""

    turn: int
    """The model call that writes that text."""

    check: int
    """The checksum of all events up to this one."""


@dataclass(eq=False)
class _Run:
    """What a follower has read of a run.

    Attributes:
        log: the events from the first one on.
        timeline: what the run did.
        writing: the text in progress.
        is_present: whether the follower has caught up with the run.
        places: how far each history was read, the newest one last.
        news: set when something is new, and then replaced.
    """

    id: str
    stalled_after: float
    log: list[_LoggedEvent] = field(default_factory=list[_LoggedEvent])
    state: RunSnapshot = field(default_factory=RunSnapshot)
    timeline: Timeline = field(default_factory=Timeline)
    writing: TextInProgress = field(default_factory=TextInProgress)
    is_present: bool = False
    is_ended: bool = False
    is_cut: bool = False
    failure: Exception | None = None
    news: asyncio.Event = field(default_factory=asyncio.Event)
    readers: "set[FeedReader]" = field(default_factory=set["FeedReader"])
    task: asyncio.Task[None] | None = None
    idle: asyncio.TimerHandle | None = None
    places: dict[str, int] = field(default_factory=dict[str, int])
    ranges: dict[str, AnswerRange] = field(default_factory=dict[str, AnswerRange])
    reported: dict[str, int] = field(default_factory=dict[str, int])
    _answered: int = 0
    _call: int | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing follows in this process."""
        return self.is_ended or self.is_cut or self.failure is not None

    def has_read(self, place: HistoryPlace) -> bool:
        """Whether the follower has read a place of the history."""
        return self.places.get(place[0], -1) >= place[1] or (
            place[0] in self.places and next(reversed(self.places)) != place[0]
        )

    def take(self, one: StreamedState | RawResponsesStreamEvent) -> None:
        """Take the next thing of the stream."""
        if isinstance(one, StreamedState):
            self._take_state(one)
        elif not self.writing.take(one.raw, self.state):
            return
        self._publish()

    def end(self, failure: Exception | None = None) -> None:
        """Record that the stream has ended."""
        self.failure = failure
        self.is_ended = failure is None
        self._publish()

    def cut_all(self) -> None:
        """Cut all readers."""
        self.is_cut = True
        self._publish()

    def check_before(self, event: int) -> int:
        """Return the checksum of all events before one."""
        return self.log[event - 1].check if event else 0

    def text_from(self, event: int) -> tuple[str, int, bool]:
        """Return the text in progress at an event, its number, and whether it stays like that."""
        for at in range(event, len(self.log)):
            entry = self.log[at]
            if entry.reply is not None:
                return entry.reply, entry.text_number, True
        return (
            self.writing.text,
            self.writing.number,
            self.is_over or (self.writing.is_whole and self.is_present),
        )

    def _take_state(self, one: StreamedState) -> None:
        is_same_call = one.model_call == self._call
        if not is_same_call and not self.writing.is_whole:
            self.writing.renew()
        self._note_messages(one.state)
        self._note_nested(one.state)
        for event in one.events:
            reply = self.writing.text if self.writing.is_whole else None
            check = checksum(f"{one.state.updated_at_ms} ", self.check_before(len(self.log)))
            logged = _LoggedEvent(
                event,
                reply,
                self.writing.number,
                self.writing.is_unjudged,
                self.writing.turn,
                check,
            )
            self.log.append(logged)
            if reply is not None:
                self.writing.renew()
        self._note_answers(one.state)
        if not is_same_call and one.model_call is not None:
            self.writing.renew()
        self.timeline.take_state(one)
        self.state, self._call = one.state, one.model_call
        self.places[one.place[0]] = one.place[1]
        self.is_present = self.is_present or one.is_present

    def _note_messages(self, state: RunSnapshot) -> None:
        """Record where messages arrive, and which of them have no answer yet or again."""
        new = state.answers[self._answered :]
        open_ids = [*(message.id for message in state.unread), *state.answering]
        for message_id in (*open_ids, *(one for answer in new for one in answer.to)):
            self.ranges.setdefault(message_id, AnswerRange(len(self.log)))
        for message_id in open_ids:
            self.ranges[message_id].ends = None

    def _note_nested(self, state: RunSnapshot) -> None:
        """Record where nested runs have reported their requests."""
        for request in reported_requests(state):
            self.reported.setdefault(request.id, len(self.log))

    def _note_answers(self, state: RunSnapshot) -> None:
        """Record where answers end."""
        for answer in state.answers[self._answered :]:
            for message_id in answer.to:
                self.ranges[message_id].ends = len(self.log)
        self._answered = len(state.answers)

    def _publish(self) -> None:
        self.news.set()
        self.news = asyncio.Event()
        now = asyncio.get_running_loop().time()
        for reader in list(self.readers):
            if reader.busy_since is not None and now - reader.busy_since > self.stalled_after:
                reader.is_cut = True
                self.readers.discard(reader)


class FeedReader:
    """One reader of a run: an asynchronous iterator.

    Attributes:
        cursor: the position.
        busy_since: since when the reader has not come for the next thing, in the event loop's time.
        is_cut: whether it was too slow.
        text: the text in progress up to the cursor.
        turn: the number of the model call that writes it; 0 without a text.
        is_unjudged: whether no guardrail and no person will judge that text.
    """

    def __init__(self, run: _Run, after: Cursor | None, lag: float) -> None:
        self.cursor: Cursor = after or Cursor()
        self.busy_since: float | None = asyncio.get_running_loop().time()
        self.is_cut = False
        self.text = ""
        self.turn = 0
        self.is_unjudged = False
        self._run = run
        self._news = run.news
        self._begins_at = after
        self._lag = lag
        self._has_begun = self._is_over = False
        self._event = self._offset = 0
        self._text_number = 0
        self._text_check = 0

    @property
    def state(self) -> RunSnapshot:
        """The newest state of the run that was read here; it may be ahead of the cursor."""
        return self._run.state

    @property
    def steps(self) -> Sequence[Step]:
        """What the run did up to that state."""
        return self._run.timeline.steps

    @property
    def times(self) -> Sequence[int]:
        """When each item of the transcript was written: see `Timeline`."""
        return self._run.timeline.times

    @property
    def recorded(self) -> int:
        """The number of events that were read here; text after all of them is of a call under way."""
        return len(self._run.log)

    @property
    def has_more(self) -> bool:
        """Whether the next thing is there already, or the reader is over or about to fail."""
        return self.is_behind or self._run.is_over or self.is_cut

    @property
    def is_behind(self) -> bool:
        """Whether the next event or more of the text is there already."""
        run = self._run
        if self._event < len(run.log):
            return True
        if run.writing.number != self._text_number:
            return bool(self._offset or run.writing.text)
        return self._offset < len(run.writing.text)

    @property
    def reported_requests(self) -> Mapping[str, int]:
        """The requests that nested runs have reported, with the number of the next event then.

        Anybody who reaches the server can send a report, so it says where to look, and nothing else.
        """
        return self._run.reported

    def answer_range(self, message_id: str) -> AnswerRange | None:
        """Return which events belong to a message; None for one that was not read here."""
        return self._run.ranges.get(message_id)

    async def until_present(self) -> None:
        """Wait until this process has read all that was recorded when it began to follow.

        Raises:
            AgentsException: the run cannot be read.
        """
        while not (self._run.is_present or self._run.is_over):
            await self._run.news.wait()
        if self._run.failure is not None:
            raise self._run.failure

    async def until_read(self, place: HistoryPlace) -> None:
        """Wait until this process has read a place of the history, or for the lag."""
        await self.until(lambda: self._run.has_read(place), self._lag)

    async def until(self, is_enough: Callable[[], bool], seconds: float) -> None:
        """Wait until what was read here is enough, until nothing follows, or for some time.

        Args:
            is_enough: says so, of `state` or `answer_range`.
            seconds: the time.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not (is_enough() or self._run.is_over):
                    await self._run.news.wait()

    async def news(self) -> None:
        """Wait until more is read of the run: the next thing, or a state that no event tells of.

        What came since the last time this returned counts, so nothing is missed in between.
        """
        self.busy_since = None
        try:
            await self._news.wait()
        finally:
            self.busy_since = asyncio.get_running_loop().time()
        self._news = self._run.news

    async def changes(self) -> AsyncGenerator[FeedEntry | None]:
        """Yield each next thing, and None for a state that no event tells of.

        Raises:
            AgentsException: the run cannot be read.
        """
        has_begun = False
        while True:
            if self.has_more or not has_begun:
                has_begun = True
                try:
                    entry = await anext(self)
                except StopAsyncIteration:
                    return
                yield entry
            else:
                await self.news()
                if not self.has_more:
                    yield None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> FeedEntry:
        """Wait for the next thing.

        Raises:
            AgentsException: the run cannot be read.
        """
        if self._is_over:
            raise StopAsyncIteration
        self.busy_since = None
        try:
            entry = await self._next()
        finally:
            self.busy_since = asyncio.get_running_loop().time()
        self.cursor = entry.cursor
        self._take_text(entry)
        self._is_over = isinstance(entry, Ended | Cut)
        return entry

    def _take_text(self, entry: FeedEntry) -> None:
        match entry:
            case Snapshot() | TextAdded():
                self.text = entry.text if isinstance(entry, Snapshot) else self.text + entry.text
                self.turn, self.is_unjudged = entry.turn, entry.is_unjudged
            case TextReset():
                self.text, self.turn, self.is_unjudged = "", 0, False
            case Happened(cursor=cursor) if not cursor.offset:
                self.text, self.turn, self.is_unjudged = "", 0, False
            case _:
                pass

    async def _next(self) -> FeedEntry:
        if not self._has_begun and (begun := await self._begin()) is not None:
            return begun
        while True:
            news = self._run.news
            if self.is_cut or self._run.is_cut:
                return Cut(self.cursor)
            if (entry := self._step()) is not None:
                return entry
            if self._run.failure is not None:
                raise self._run.failure
            await news.wait()

    async def _begin(self) -> FeedEntry | None:
        """Find the reader's position; without one, return what it begins with instead."""
        run, at = self._run, self._begins_at
        if at is not None and await self._resume(at):
            self._has_begun = True
            return None
        while not (run.is_present or run.is_over):
            await run.news.wait()
        if run.is_cut:
            return Cut(self.cursor)
        if run.failure is not None:
            raise run.failure
        self._has_begun = True
        return self._snapshot()

    async def _resume(self, at: Cursor) -> bool:
        """Go to a position, once the follower is there; return whether there is such a position."""
        run = self._run
        deadline: float | None = None
        while (found := self._go_to(at)) is None:
            if run.is_over:
                return False
            if not run.is_present or run.writing.has_gap:
                deadline = None
            elif deadline is None:
                deadline = asyncio.get_running_loop().time() + self._lag
            try:
                async with asyncio.timeout_at(deadline):
                    await run.news.wait()
            except TimeoutError:
                return False
        return found

    def _go_to(self, at: Cursor) -> bool | None:
        """Go to a position, and return whether it exists; None as long as nobody knows."""
        run = self._run
        if at.event > len(run.log):
            return None
        begun, number, is_final = run.text_from(at.event) if at.offset else ("", 0, True)
        begun, has_all = begun[: at.offset], len(begun) >= at.offset
        if at == cursor_at(at.event, len(begun), run.check_before(at.event), checksum(begun)):
            self._event, self._offset, self._text_number = at.event, at.offset, number
            self._text_check = checksum(begun)
            writers = (one for one in run.log[at.event :] if one.reply is not None)
            writer = next(writers, run.writing)
            self.text = begun
            self.turn, self.is_unjudged = (writer.turn, writer.is_unjudged) if begun else (0, False)
            return True
        return False if is_final or (has_all and run.is_present) else None

    def _snapshot(self) -> Snapshot:
        run = self._run
        self._event, self._offset, self._text_number = (
            len(run.log),
            len(run.writing.text),
            run.writing.number,
        )
        self._text_check = checksum(run.writing.text)
        turn = run.writing.turn if run.writing.text else 0
        return Snapshot(self._cursor(), run.state, run.writing.text, run.writing.is_unjudged, turn)

    def _step(self) -> FeedEntry | None:
        """Return the next thing there is, and go behind it."""
        run = self._run
        logged = run.log[self._event] if self._event < len(run.log) else None
        text = run.writing.text if logged is None else logged.reply or ""
        number = run.writing.number if logged is None else logged.text_number
        if number != self._text_number:
            self._text_number = number
            if self._offset:
                self._offset = self._text_check = 0
                return TextReset(self._cursor())
        if added := text[self._offset :]:
            self._offset = len(text)
            self._text_check = checksum(added, self._text_check)
            call = run.writing if logged is None else logged
            return TextAdded(self._cursor(), added, call.is_unjudged, call.turn)
        if logged is not None:
            self._event += 1
            if logged.reply is not None:
                self._offset = self._text_check = 0
            return Happened(self._cursor(), logged.event)
        return Ended(self._cursor(), run.state.status) if run.is_ended else None

    def _cursor(self) -> Cursor:
        before = self._run.check_before(self._event)
        return cursor_at(self._event, self._offset, before, self._text_check)
