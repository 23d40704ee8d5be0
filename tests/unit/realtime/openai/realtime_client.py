"""A realtime model that is connected to a scripted server, and a listener that records."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from outlast.agents.json_values import as_object
from outlast.realtime.openai.model import OpenAIRealtimeWebSocketModel
from outlast.realtime.port.model import RealtimeModelConfig, RealtimeModelListener
from outlast.realtime.port.model_events import (
    RealtimeModelEvent,
    RealtimeModelRawServerEvent,
    RealtimeModelTurnEndedEvent,
)
from outlast.realtime.scripted_server.server import ScriptedRealtimeServer

T = TypeVar("T")

PATIENCE_S = 5


class Recorder(RealtimeModelListener):
    """Keeps every event, and waits for those that a test names."""

    def __init__(self) -> None:
        self.all: list[RealtimeModelEvent] = []
        self._changed = asyncio.Condition()

    async def on_event(self, event: RealtimeModelEvent) -> None:
        async with self._changed:
            self.all.append(event)
            self._changed.notify_all()

    @property
    def events(self) -> list[Any]:
        """Return the events without the raw ones."""
        return [one for one in self.all if not isinstance(one, RealtimeModelRawServerEvent)]

    def of(self, kind: type[T]) -> list[T]:
        return [one for one in self.all if isinstance(one, kind)]

    def raw(self, kind: str) -> list[Any]:
        raw = (as_object(one.data) or {} for one in self.of(RealtimeModelRawServerEvent))
        return [one for one in raw if one.get("type") == kind]

    async def until(self, kind: type[T], count: int = 1) -> T:
        async with asyncio.timeout(PATIENCE_S), self._changed:
            await self._changed.wait_for(lambda: len(self.of(kind)) >= count)
        return self.of(kind)[count - 1]

    async def until_raw(self, kind: str, count: int = 1) -> Any:
        async with asyncio.timeout(PATIENCE_S), self._changed:
            await self._changed.wait_for(lambda: len(self.raw(kind)) >= count)
        return self.raw(kind)[count - 1]

    async def turns(self, count: int) -> None:
        await self.until(RealtimeModelTurnEndedEvent, count)


@asynccontextmanager
async def connected(
    server: ScriptedRealtimeServer,
    model: OpenAIRealtimeWebSocketModel | None = None,
    /,
    **config: Any,
) -> AsyncGenerator[tuple[OpenAIRealtimeWebSocketModel, Recorder]]:
    """Connect a model to a server, and wait for its first settings to be in force."""
    model = model or OpenAIRealtimeWebSocketModel()
    recorder = Recorder()
    model.add_listener(recorder)
    options: RealtimeModelConfig = {"url": server.url, "api_key": "key", **config}  # type: ignore[typeddict-item]
    await model.connect(options)
    try:
        await recorder.until_raw("session.updated")
        yield model, recorder
    finally:
        await model.close()
