"""Streams model output by polling, while the model call is pending.

Calls of this process are looked at directly. Of all others, the server shows the heartbeats.
Nothing is added to the history. `outlast.contract.streams.window` has the format of the windows.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, TypeAlias

from temporalio.client import Client
from temporalio.service import RPCError

from outlast.agents.json_values import as_object
from outlast.client.read.history import Progress
from outlast.client.transport.executions import first_of
from outlast.contract import names
from outlast.contract.streams.call_windows import FinishedCall, call_windows, place_of
from outlast.contract.streams.delta_reader import DeltaReader
from outlast.contract.streams.reply_events import response_object
from outlast.contract.streams.window import DeltaWindow
from outlast.loop.calls import ModelReply
from outlast.loop.effects import CallModel, EffectAnswered
from outlast.loop.state import LoopState
from outlast.loop.values import JsonObject

RawEvent: TypeAlias = JsonObject
"""An event of a provider's stream, or one of the `outlast.` types of `delta_reader.py`."""

SHORTEST_WAIT: Final = timedelta(milliseconds=25)
"""The wait between two polls, when the next window is due."""

LONGEST_WAIT: Final = timedelta(milliseconds=250)
"""The same, while the model says nothing, and while the next window is not due."""

PATIENCE: Final = 0.1
"""The wait as a share of the time for which a window is overdue."""

EARLY: Final = timedelta(milliseconds=20)
"""How long before a window is due it is polled for: the poll that found the one before was late."""


async def with_deltas(
    progress: AsyncIterator[Progress], client: Client, run_id: str, *, first: str | None = None
) -> AsyncGenerator[Progress | RawEvent]:
    """Yield the history's events, and the models' events between them.

    Before the `Progress` with a model's reply come all events of the reply that were not yielded
    before, so the deltas of each reply add up to its text for every reader, live or late. The
    server is polled while the reader is busy, too, so that a slow reader misses nothing.
    """
    poller = DeltaPoller(client, run_id, first)
    polling = asyncio.create_task(poller.poll_repeatedly())
    waiting = asyncio.create_task(poller.has_events.wait())
    next_step = _next(progress)
    try:
        while True:
            await asyncio.wait({next_step, waiting, polling}, return_when=asyncio.FIRST_COMPLETED)
            if polling.done():
                polling.result()  # it only ends with an error
            if waiting.done():
                for event in poller.pop_events():
                    yield event
                waiting = asyncio.create_task(poller.has_events.wait())
            if next_step.done():
                step = next_step.result()
                if step is None:
                    return
                for event in [*poller.pop_events(), *poller.note(step)]:
                    yield event
                yield step
                next_step = _next(progress)
    finally:
        for task in (next_step, waiting, polling):
            task.cancel()
        await asyncio.gather(next_step, waiting, polling, return_exceptions=True)
        if isinstance(progress, AsyncGenerator):
            await progress.aclose()


def _next(progress: AsyncIterator[Progress]) -> asyncio.Task[Progress | None]:
    async def take() -> Progress | None:
        return await anext(progress, None)

    return asyncio.create_task(take())


@dataclass
class DeltaPoller:
    """Polls for the models' output in one run, whose state `note` has seen.

    With `first`, the run's first execution, nothing is read of a later run with its id.
    """

    client: Client
    run_id: str
    first: str | None = None
    state: LoopState = field(default_factory=LoopState)
    has_events: asyncio.Event = field(default_factory=asyncio.Event)
    _events: list[RawEvent] = field(default_factory=list[RawEvent])
    _call_pending: asyncio.Event = field(default_factory=asyncio.Event)
    _readers: dict[int, DeltaReader] = field(default_factory=dict[int, DeltaReader])
    _own: dict[str, bool] = field(default_factory=dict[str, bool])
    _quiet_since: float | None = None
    _next_seconds: float = 0.0
    _looked_at: tuple[DeltaWindow, int] | None = None

    @property
    def _place(self) -> str:
        return place_of(self.client, self.run_id)

    @staticmethod
    def waits_for(state: LoopState) -> bool:
        """Whether a model call is pending, so that there may be something to read."""
        return bool(_model_calls(state))

    def note(self, step: Progress) -> list[RawEvent]:
        """Note the history's next step; return the events to yield before it."""
        before, self.state = _model_calls(self.state), step.state
        if not self.waits_for(self.state):
            self._call_pending.clear()
        elif not self._call_pending.is_set():
            self._quiet_since, self._next_seconds = None, 0.0
            self._call_pending.set()
        match step.event:
            case EffectAnswered(
                effect=effect, result=ModelReply(begun=None, withheld=False) as reply, at_ms=at_ms
            ) if effect in before:
                reader = self._readers.setdefault(effect, DeltaReader())
                response = response_object(
                    reply.items,
                    reply.usage,
                    response_id=reply.response_id,
                    model=reply.model,
                    created_at=at_ms / 1000,
                )
                call = FinishedCall(self._place, effect, reply.response_id)
                last = call_windows.pop(call)
                pieces = reader.feed(last) if reader.continues(last) else []
                return [*pieces, *reader.complete(response)]
            case _:
                for effect in before - _model_calls(self.state):  # failed or cancelled
                    self._readers.pop(effect, None)
                return []

    def pop_events(self) -> list[RawEvent]:
        """Return the events since the last call."""
        events, self._events = self._events, []
        self.has_events.clear()
        return events

    async def poll_repeatedly(self) -> None:
        """Poll while a model call is pending, and keep the events; until cancelled."""
        with call_windows.reading(self._place):
            while True:
                await self._call_pending.wait()
                await self.poll()

    async def poll(self) -> None:
        """Wait until a poll is due, poll once, and keep the new events.

        A failed poll raises nothing and is repeated: the end of every text is in the history.
        """
        if call_windows.of_run(self._place):
            await asyncio.sleep(SHORTEST_WAIT.total_seconds())
        if windows := call_windows.of_run(self._place):
            for window in windows:
                if await self._is_own(window.execution):
                    self._look_at(window)
            return
        loop = asyncio.get_running_loop()
        if self._quiet_since is None:
            self._quiet_since = loop.time()
        await asyncio.sleep(_wait(loop.time() - self._quiet_since - self._next_seconds))
        try:
            description = await self.client.get_workflow_handle(self.run_id).describe()
        except RPCError:
            return
        if self.first is not None and first_of(description) != self.first:
            return
        for info in description.raw_description.pending_activities:
            if info.activity_type.name == names.ACTIVITY_MODEL and info.activity_id.isdigit():
                await self._read(int(info.activity_id), info)

    async def _is_own(self, execution: str) -> bool:
        """Whether an execution is one of the run's: after the first, the server is asked once."""
        if self.first is None or execution in {"", self.first}:
            return True
        if execution not in self._own:
            handle = self.client.get_workflow_handle(self.run_id, run_id=execution)
            try:
                self._own[execution] = first_of(await handle.describe()) == self.first
            except RPCError:
                return False
        return self._own[execution]

    def _is_pending(self, effect: int) -> bool:
        """Whether the reader is at a state that waits for a call.

        Where it is not, the call is one that the reader has yet to come to, or one that was given
        up, and its text does not belong between these events.
        """
        return effect in _model_calls(self.state)

    def _look_at(self, window: DeltaWindow) -> None:
        if not self._is_pending(window.effect):
            return
        if self._looked_at == (looked_at := (window, window.fed_bytes)):
            return
        self._looked_at = looked_at
        reader = self._readers.setdefault(window.effect, DeltaReader())
        self._keep(reader.feed(window.details()))

    async def _read(self, effect: int, info: Any) -> None:
        if not self._is_pending(effect):
            return
        reader = self._readers.setdefault(effect, DeltaReader())
        self._keep(reader.restart(info.attempt))
        try:
            details = await self.client.data_converter.decode(info.heartbeat_details.payloads)
        except Exception:  # noqa: BLE001  a failing codec also fails to read the history
            return
        if details and self._is_pending(effect) and (events := reader.feed(details[0])):
            self._next_seconds = _seconds_to_next(details[0])
            self._keep(events)

    def _keep(self, events: list[RawEvent]) -> None:
        """Keep events at once: the reply may be recorded before the next poll."""
        if events:
            self._events += events
            self._quiet_since = asyncio.get_running_loop().time()
            self.has_events.set()


def _model_calls(state: LoopState) -> set[int]:
    """Return the numbers of the model calls that a state waits for."""
    return {effect.effect for effect in state.pending if isinstance(effect, CallModel)}


def _wait(overdue_seconds: float) -> float:
    if overdue_seconds < 0:
        wait = -overdue_seconds - EARLY.total_seconds()
    else:
        wait = overdue_seconds * PATIENCE
    return min(max(wait, SHORTEST_WAIT.total_seconds()), LONGEST_WAIT.total_seconds())


def _seconds_to_next(window: object) -> float:
    """Return how long after a window the next one comes; windows of older workers do not say."""
    next_ms: object = (as_object(window) or {}).get("next_ms")
    return next_ms / 1000 if isinstance(next_ms, int | float) else 0.0
