"""Streams model output by polling, while the model call is pending.

The server shows the heartbeats of running activities, so readers poll it only while a model call is
pending. Nothing is added to the history. `outlast.contract.deltas` has the format of the windows.
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
"""The wait between two polls, while there is news."""

LONGEST_WAIT: Final = timedelta(milliseconds=250)
"""The same, while the model has not begun to answer."""

PATIENCE: Final = 0.1
"""The wait as a share of the time without news."""


async def with_deltas(
    progress: AsyncIterator[Progress], client: Client, run_id: str
) -> AsyncGenerator[Progress | RawEvent]:
    """Yield the history's events, and the models' events between them.

    Before the `Progress` with a model's reply come all events of the reply that were not yielded
    before, so the deltas of each reply add up to its text for every reader, live or late. The
    server is polled while the reader is busy, too, so that a slow reader misses nothing.

    Args:
        progress: the run's progress, from `RunHandle.follow`.
        client: connected to the run's server.
        run_id: the run's workflow id.
    """
    poller = DeltaPoller(client, run_id)
    listening = asyncio.create_task(poller.listen())
    hearing = asyncio.create_task(poller.heard.wait())
    coming = _next(progress)
    try:
        while True:
            await asyncio.wait({coming, hearing, listening}, return_when=asyncio.FIRST_COMPLETED)
            if listening.done():
                listening.result()  # it only ends with an error
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
    """Polls the server for the models' output in one run.

    Attributes:
        state: the run's state, as last passed to `take`.
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
        """Whether a model call is pending, so that there may be something to read."""
        return any(isinstance(effect, CallModel) for effect in state.pending)

    def take(self, step: Progress) -> list[RawEvent]:
        """Note the history's next step; return the events to yield before it."""
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
        """Return the events since the last call."""
        events, self._events = self._events, []
        self.heard.clear()
        return events

    async def listen(self) -> None:
        """Poll while a model call is pending, and keep the events; until cancelled."""
        while True:
            await self._model_is_asked.wait()
            await self.ask()

    async def ask(self) -> None:
        """Wait until a poll is due, poll once, and keep what is new. Never raises for the server.

        A failed poll is repeated: the end of every text is in the history.
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
        except Exception:  # noqa: BLE001  a failing codec also fails to read the history
            return
        if details:
            self._keep(reader.feed(details[0]))

    def _keep(self, events: list[RawEvent]) -> None:
        """Keep events at once: the reply may be recorded before the next poll."""
        if events:
            self._events += events
            self._quiet_since = asyncio.get_running_loop().time()
            self.heard.set()
