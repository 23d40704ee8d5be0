"""A run whose stream is written down: what happens in it, and what its readers' sources show."""

import asyncio
import random
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field, replace

from outlast.client.read.events import RawResponsesStreamEvent, StatusStreamEvent, StreamedState
from outlast.contract.streams.delta_reader import GAP, RESTARTED
from outlast.loop.effects import CallModel
from outlast.loop.state import LoopState
from outlast.loop.values import JsonObject
from outlast.views.run import snapshot_of

BEHIND = 0.2
"""How often a follower is behind the run."""

Streamed = StreamedState | RawResponsesStreamEvent


def raw(kind: str, **fields: object) -> RawResponsesStreamEvent:
    """Return an event of the model."""
    event: JsonObject = {"type": kind, **fields}
    return RawResponsesStreamEvent(raw=event)


def delta(text: str, message: int = 0) -> RawResponsesStreamEvent:
    """Return the next piece of the text."""
    return raw("response.output_text.delta", delta=text, output_index=message)


COMPLETED = raw("response.completed")
RESTART = raw(RESTARTED, attempt=2)
MISSED = raw(GAP, missed=5)


def event(number: int) -> StatusStreamEvent:
    """Return the event with a number."""
    return StatusStreamEvent(id=number, status="running")


def state(
    *numbers: int, call: int | None = None, at_ms: int = 0, present: bool = True
) -> StreamedState:
    """Return a state after events with these numbers; `call` is the number of the pending model call."""
    pending = () if call is None else (model_call(call),)
    reached = LoopState(at_ms=at_ms, pending=pending)
    return StreamedState(
        state=snapshot_of(reached), events=tuple(map(event, numbers)), is_present=present
    )


def model_call(effect: int) -> CallModel:
    """Return a pending model call."""
    return CallModel(effect=effect, agent="A", turn=1, input_length=1, run_id="run")


@dataclass
class ScriptedSource:
    """A source that shows what is put into it, to every follower from the first thing on.

    Attributes:
        opened: how often the run was followed.
        open: how many follow it now.
    """

    shown: list[Streamed] = field(default_factory=list[Streamed])
    is_over: bool = False
    failure: Exception | None = None
    opened: int = 0
    open: int = 0
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, *streamed: Streamed) -> None:
        """Show more."""
        self.shown += streamed
        self._tell()

    def end(self, failure: Exception | None = None) -> None:
        """End the run, or fail."""
        self.is_over, self.failure = True, failure
        self._tell()

    async def __call__(self, run_id: str) -> AsyncGenerator[Streamed]:
        self.opened += 1
        self.open += 1
        try:
            at = 0
            while True:
                news = self._news
                for one in self.shown[at:]:
                    yield one
                    at += 1
                if at < len(self.shown):
                    continue
                if self.failure is not None:
                    raise self.failure
                if self.is_over:
                    return
                await news.wait()
        finally:
            self.open -= 1

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


def pieces(chance: random.Random, text: str) -> list[str]:
    """Cut a text anywhere."""
    found: list[str] = []
    while text:
        length = chance.randint(1, len(text))
        found.append(text[:length])
        text = text[length:]
    return found


@dataclass(frozen=True)
class Recorded:
    """A step of the history: a state, and the reply that led to it, if one did."""

    state: StreamedState
    call: int
    reply: str | None = None


@dataclass
class World:
    """A run, as its history and the window of its pending model call have it.

    A follower gets the texts in pieces of its own. One that comes late reads recorded replies in
    whole, and of the pending call what the present attempt has.

    Attributes:
        truth: for each event, the reply that ended with it.
        history: what is recorded.
        text: the text in progress; None without a model call.
        attempt: the number of the newest model call, and that of its attempt.
        unshown: the newest reply, until an event ends it.
    """

    truth: list[str] = field(default_factory=list[str])
    history: list[Recorded] = field(default_factory=list[Recorded])
    is_over: bool = False
    attempt: tuple[int, int] = (0, 0)
    text: str | None = None
    unshown: str = ""
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def begin_call(self) -> None:
        """A model is called; a call under way is given up."""
        self.attempt = (self.attempt[0] + 1, 1)
        self.text, self.unshown = "", ""
        self._record(0)

    def write(self, text: str) -> None:
        """Let the model write more of its answer, after calling it if no call is pending."""
        if self.text is None:
            self.begin_call()
        self.text = (self.text or "") + text
        self._tell()

    def restart(self) -> None:
        """The attempt breaks off, and another one begins."""
        if self.text is not None:
            self.attempt = (self.attempt[0], self.attempt[1] + 1)
            self.text = ""
            self._tell()

    def fail_call(self) -> None:
        """The call is given up."""
        if self.text is not None:
            self.text = None
            self._record(0)

    def reply(self, events: int) -> None:
        """The reply is recorded, with so many events."""
        if self.text is not None:
            reply, self.text = self.text, None
            self.unshown = reply
            self._record(events, reply)

    def happen(self, events: int) -> None:
        """Something else happens."""
        self._record(events)

    def end(self) -> None:
        """The run ends."""
        self.fail_call()
        self.is_over = True
        self._tell()

    async def follow(self, chance: random.Random) -> AsyncGenerator[Streamed]:
        """Stream the run to a follower, who is sometimes behind."""
        follower = _Follower(self, chance)
        while True:
            news = self._news
            for one in follower.catch_up():
                if chance.random() < BEHIND:
                    await asyncio.sleep(0)
                yield one
            if news is self._news:
                if self.is_over:
                    return
                await news.wait()

    def _record(self, events: int, reply: str | None = None) -> None:
        first = len(self.truth)
        for _ in range(events):
            self.truth.append(self.unshown)
            self.unshown = ""
        numbers = range(first, first + events)
        call = self.attempt[0] if self.text is not None else None
        reached = state(*numbers, call=call, at_ms=1_000 + len(self.history))
        self.history.append(Recorded(reached, self.attempt[0], reply))
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


class _Follower:
    """What one follower has seen of a world."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self._world = world
        self._chance = chance
        self._present = len(world.history)
        self._at = 0
        self._attempt = (0, 0)
        self._said = ""

    def catch_up(self) -> Iterator[Streamed]:
        """Yield the rest of the history, and then the rest of the text in progress."""
        while self._at < len(self._world.history):
            step = self._world.history[self._at]
            self._at += 1
            if step.reply is not None:
                yield from self._go_on((step.call, self._attempt[1]), step.reply)
                yield COMPLETED
            yield replace(step.state, is_present=self._at >= self._present)
        if self._world.text is not None:
            yield from self._go_on(self._world.attempt, self._world.text)

    def _go_on(self, attempt: tuple[int, int], text: str) -> Iterator[Streamed]:
        """Yield the rest of a text; one that does not go on is of another attempt."""
        before, self._attempt = self._attempt, attempt
        if before[0] != attempt[0]:
            self._said = ""
        elif self._said and (before != attempt or not text.startswith(self._said)):
            yield RESTART
            self._said = ""
        rest, self._said = text[len(self._said) :], text
        for piece in pieces(self._chance, rest):
            yield delta(piece)
