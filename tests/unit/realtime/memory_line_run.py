"""The run of a line in memory: the real loop and the real activities, without a server."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

from outlast import Agent
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.registry import Registry
from outlast.contract import records
from outlast.loop import lines
from outlast.loop.actions import LineReplyRecord
from outlast.loop.approvals import Decision
from outlast.loop.calls import ModelReply
from outlast.loop.effects import CallModel, Command, EffectAnswered, KeepLineOpen
from outlast.loop.events import Event, LineAttached, LineReplied, MessageReceived, PersonActed
from outlast.loop.items import Message
from outlast.loop.state import LoopState, line_of
from outlast.loop.values import JsonObject
from outlast.ports.model import Model
from outlast.realtime.line_run import LineRun
from outlast.testing import ScriptedModel
from outlast.testing.in_memory import MemoryRun, now_ms


class OneModel:
    """A provider of one model."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def get_model(self, model_name: str | None) -> Model:
        del model_name
        return self._model

    async def aclose(self) -> None:
        pass


class LineMemoryRun(MemoryRun):
    """A run in memory whose model calls may be made by a line."""

    def _dispatch(self, command: Command) -> None:
        is_lines = isinstance(command, CallModel) and bool(command.line)
        if not is_lines and not isinstance(command, KeepLineOpen):
            super()._dispatch(command)

    def _cancel(self, effect: int) -> None:
        if effect in self._running:
            super()._cancel(effect)


class MemoryLineRun(LineRun):
    """A line's run without a server.

    Args:
        agent: the starting agent.
        model: the model of text turns.
        run_input: further fields of the run's input.
    """

    def __init__(self, agent: Agent[Any], model: Model | None = None, **run_input: Any) -> None:
        self.run_id = "call"
        self.model = model or ScriptedModel()
        worker = WorkerDeps(registry=Registry([agent]), models=OneModel(self.model))
        self.memory_run = LineMemoryRun(worker, "call")
        self.lines = 0
        self.events: list[Event] = []
        self._news = asyncio.Condition()
        self.memory_run.start(
            records.RunInput(agent=agent.name, awaits_line=True, keep_open=True, **run_input)
        )
        self._pump = asyncio.create_task(self._take_results())

    async def _take_results(self) -> None:
        while True:
            await self.memory_run.apply_next()
            async with self._news:
                self._news.notify_all()

    async def take(self, event: Event) -> None:
        self.events.append(event)
        self.memory_run.apply(event)
        async with self._news:
            self._news.notify_all()

    async def state(self) -> LoopState:
        return self.memory_run.state

    async def follow(self) -> AsyncGenerator[LoopState]:
        seen = LoopState()
        while seen.outcome is None:
            async with self._news:
                while self.memory_run.state is seen:
                    await self._news.wait()
            seen = self.memory_run.state
            yield seen

    async def attach(self) -> str:
        self.lines += 1
        line = f"line-{self.lines}"
        owner, *tokens = lines.tokens(line)
        self._tokens = iter(tokens)
        await self.take(LineAttached(at_ms=now_ms(), line=line, owner=owner))
        return line

    async def reply(self, said: Sequence[JsonObject], reply: ModelReply) -> None:
        record = LineReplyRecord(
            line=f"line-{self.lines}", token=next(self._tokens), said=list(said), reply=reply
        )
        sent = records.read(LineReplyRecord, records.write(record))
        await self.take(
            LineReplied(
                at_ms=now_ms(),
                line=sent.line,
                token=sent.token,
                said=sent.said,
                reply=sent.reply,
            )
        )

    async def send(self, content: Sequence[JsonObject]) -> None:
        message = Message(f"m-{len(self.events)}", tuple(content), now_ms())
        await self.take(MessageReceived(at_ms=now_ms(), message=message))

    async def decide(self, decision: Decision) -> None:
        await self.take(PersonActed(at_ms=now_ms(), action=decision))

    async def hang_up(self) -> None:
        line = line_of(self.memory_run.state)
        if line is not None:
            await self.take(EffectAnswered(at_ms=now_ms(), effect=line.effect, result=None))

    async def until(self, condition: Callable[[LoopState], object]) -> LoopState:
        """Wait for a state."""
        async with asyncio.timeout(5), self._news:
            await self._news.wait_for(lambda: condition(self.memory_run.state))
            return self.memory_run.state

    async def close(self) -> None:
        self._pump.cancel()
        await asyncio.gather(self._pump, return_exceptions=True)
        await self.memory_run.stop()
