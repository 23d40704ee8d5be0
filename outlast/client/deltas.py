"""Following what a model says while it says it.

The server shows the heartbeats of activities that are running to whoever asks, so readers ask
while a model call is pending, and only then. Nothing is added to the history by it. Owns: when is
asked, and what is told between which events of the history. Must not know: what windows look like
(`outlast.contract.deltas`), and who is told.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, TypeAlias

from temporalio.client import Client
from temporalio.service import RPCError

from outlast.client.history import Progress
from outlast.contract import names
from outlast.contract.delta_reader import DeltaReader
from outlast.contract.reply_events import response_object
from outlast.loop.effects import CallModel, EffectFailed, ModelReplied
from outlast.loop.state import LoopState
from outlast.loop.values import JsonObject

RawEvent: TypeAlias = JsonObject
"""An event of a provider's stream, or one of the `outlast.` types of `delta_reader.py`."""

SHORTEST_WAIT: Final = timedelta(milliseconds=50)
"""Between two questions, while there is something new."""

LONGEST_WAIT: Final = timedelta(milliseconds=250)
"""The same, while the model thinks."""

PATIENCE: Final = 0.1
"""The wait is this share of the time for which there was nothing new."""


async def with_deltas(
    progress: AsyncIterator[Progress], client: Client, run_id: str
) -> AsyncGenerator[Progress | RawEvent]:
    """Yield what the history says, and between it what models say.

    Before the `Progress` with a model's reply there are all events that tell the reply and were
    not yielded before, so the deltas of each reply add up to its text for every reader, whether
    it read along or came later. The server is asked while the reader is busy, too, so that a slow
    reader misses nothing.

    Args:
        progress: the run, as `RunHandle.follow` reads it.
        client: connected to the run's server.
        run_id: which run.
    """
    poller = DeltaPoller(client, run_id)
    listening = asyncio.create_task(poller.listen())
    hearing = asyncio.create_task(poller.heard.wait())
    coming = _next(progress)
    try:
        while True:
            await asyncio.wait({coming, hearing, listening}, return_when=asyncio.FIRST_COMPLETED)
            if listening.done():
                listening.result()  # it ends by failing only
            if hearing.done():
                for event in poller.heard_events():
                    yield event
                hearing = asyncio.create_task(poller.heard.wait())
            if coming.done():
                step = coming.result()
                if step is None:
                    return
                for event in [*poller.heard_events(), *poller.take(step)]:
                    yield event
                yield step
                coming = _next(progress)
    finally:
        for task in (coming, hearing, listening):
            task.cancel()
        await asyncio.gather(coming, hearing, listening, return_exceptions=True)
        if isinstance(progress, AsyncGenerator):
            await progress.aclose()


def _next(progress: AsyncIterator[Progress]) -> asyncio.Task[Progress | None]:
    async def take() -> Progress | None:
        return await anext(progress, None)

    return asyncio.create_task(take())


@dataclass
class DeltaPoller:
    """Asks the server what the models of one run have said.

    Attributes:
        state: the run, as far as `take` was told.
        heard: set while there are events for `heard_events`.
    """

    client: Client
    run_id: str
    state: LoopState = field(default_factory=LoopState)
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    _events: list[RawEvent] = field(default_factory=list[RawEvent])
    _model_is_asked: asyncio.Event = field(default_factory=asyncio.Event)
    _readers: dict[int, DeltaReader] = field(default_factory=dict[int, DeltaReader])
    _quiet_since: float | None = None

    @staticmethod
    def waits_for(state: LoopState) -> bool:
        """Whether a model is being asked, so that there may be something to read."""
        return any(isinstance(effect, CallModel) for effect in state.pending)

    def take(self, step: Progress) -> list[RawEvent]:
        """Take note of what the history says; return what is still to be told before it."""
        before, self.state = self.state, step.state
        if not self.waits_for(self.state):
            self._model_is_asked.clear()
        elif not self.waits_for(before):
            self._quiet_since = None
            self._model_is_asked.set()
        match step.event:
            case ModelReplied(effect=effect, result=reply, at_ms=at_ms):
                reader = self._readers.setdefault(effect, DeltaReader())
                return reader.complete(
                    response_object(
                        reply.items,
                        reply.usage,
                        response_id=reply.response_id,
                        model=reply.model,
                        created_at=at_ms / 1000,
                    )
                )
            case EffectFailed(effect=effect):
                self._readers.pop(effect, None)
                return []
            case _:
                return []

    def heard_events(self) -> list[RawEvent]:
        """Return what was heard since the last time."""
        events, self._events = self._events, []
        self.heard.clear()
        return events

    async def listen(self) -> None:
        """Ask again and again, while a model is asked, and keep what is heard; until cancelled."""
        while True:
            await self._model_is_asked.wait()
            await self.ask()

    async def ask(self) -> None:
        """Wait for as long as is due, ask once, and keep what is new. Never raises for it.

        Whoever cannot be asked now is asked again: the end of every text is in the history.
        """
        loop = asyncio.get_running_loop()
        if self._quiet_since is None:
            self._quiet_since = loop.time()
        idle_seconds = (loop.time() - self._quiet_since) * PATIENCE
        longest = LONGEST_WAIT.total_seconds()
        await asyncio.sleep(min(max(idle_seconds, SHORTEST_WAIT.total_seconds()), longest))
        try:
            description = await self.client.get_workflow_handle(self.run_id).describe()
        except RPCError:
            return
        for info in description.raw_description.pending_activities:
            if info.activity_type.name == names.ACTIVITY_MODEL and info.activity_id.isdigit():
                await self._read(int(info.activity_id), info)

    async def _read(self, effect: int, info: Any) -> None:
        reader = self._readers.setdefault(effect, DeltaReader())
        self._keep(reader.restart(info.attempt))
        try:
            details = await self.client.data_converter.decode(info.heartbeat_details.payloads)
        except Exception:  # noqa: BLE001  a codec that fails here fails in reading the history, too
            return
        if details:
            self._keep(reader.feed(details[0]))

    def _keep(self, events: list[RawEvent]) -> None:
        """Keep events at once: the reply may be recorded before the next look."""
        if events:
            self._events += events
            self._quiet_since = asyncio.get_running_loop().time()
            self.heard.set()
