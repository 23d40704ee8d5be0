"""Streams a run in memory."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any, Unpack

from outlast.agents.agent import Agent
from outlast.client.read.delta_poller import RawEvent
from outlast.client.read.streaming import RunResultStreaming
from outlast.client.results.run_state import RunState
from outlast.client.start.options import StartOptions
from outlast.edges.tasks import meanwhile
from outlast.loop.actions import CancelMode
from outlast.loop.events import CancelRequested
from outlast.loop.state import LoopState
from outlast.loop.values import DEFAULT_MAX_TURNS, JsonObject
from outlast.ports.model import Model
from outlast.testing.in_memory import MemoryRun, now_ms
from outlast.testing.run import RUN_ID, definitions_of, execute, resumed, started
from outlast.views.run import RunSnapshot, snapshot_of


def run_in_memory_streamed(
    agent: Agent[Any],
    input: str | list[JsonObject] | RunState,
    *,
    model: Model,
    run_id: str = RUN_ID,
    **options: Unpack[StartOptions],
) -> RunResultStreaming:
    """Run an agent and stream its events; `Runner.run_streamed` without a server.

    The options are those of `run_in_memory`.
    """
    definitions = definitions_of(agent, input, options, caller="run_in_memory_streamed")

    def open_run() -> MemoryRun:
        if isinstance(input, RunState):
            return resumed(agent, input, model, options, run_id)
        return started(agent, input, model=model, run_id=run_id, stream=True, **options)

    return RunResultStreaming(
        _MemorySource(open_run),
        starting_agent=agent,
        run_input=[] if isinstance(input, RunState) else input,
        definitions=definitions,
        max_turns=options.get("max_turns", DEFAULT_MAX_TURNS),
    )


class _MemorySource:
    def __init__(self, open_run: Callable[[], MemoryRun]) -> None:
        self.client: Any = None
        self.run_id = ""
        self.first_execution_id: str | None = None
        self._open_run = open_run
        self._run: MemoryRun | None = None
        self._opened = asyncio.Event()
        self._news: asyncio.Queue[LoopState | RawEvent | None] = asyncio.Queue()

    async def states(self) -> AsyncGenerator[RunSnapshot | RawEvent]:
        try:
            run = self._run = self._open_run()
        finally:
            self._opened.set()
        for state in (run.first, *run.states):
            yield snapshot_of(state)
        run.on_state = self._news.put_nowait
        run.on_delta = self._news.put_nowait
        with meanwhile(self._execute(run)) as executing:
            while (one := await self._news.get()) is not None:
                yield snapshot_of(one) if isinstance(one, LoopState) else one
            await executing

    async def cancel(self, mode: CancelMode) -> None:
        await self._opened.wait()
        if self._run is not None and self._run.state.phase != "closed":
            self._run.apply(CancelRequested(at_ms=now_ms(), mode=mode))

    async def _execute(self, run: MemoryRun) -> None:
        try:
            await execute(run)
        finally:
            self._news.put_nowait(None)
