"""A run without a server: the same loop and the same effects, in milliseconds.

Owns: carrying out the loop's commands in memory. What the workflow does with activities, this
does with function calls; there is no other difference, so a test of an agent tests what runs in
production. Nothing is durable, and retries do not wait.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from outlast.activities.errors import EffectError
from outlast.activities.model import call_model, prepare_run
from outlast.activities.tool import run_handoff, run_tool
from outlast.activities.worker_knowledge import WorkerKnowledge
from outlast.agents.agent import Agent
from outlast.agents.callables import call
from outlast.agents.context_codec import write_context
from outlast.agents.registry import Registry
from outlast.agents.settings import RunConfig, write_run_config
from outlast.client.results import RunResult, error_of, result_of
from outlast.contract import failures, history, policies, records
from outlast.loop.approvals import ApprovalRequest, Decision
from outlast.loop.commands import (
    CancelEffect,
    Command,
    Effect,
    Finish,
    PrepareRun,
    RunHandoff,
    RunTool,
)
from outlast.loop.events import DecisionReceived, Event, RunStarted
from outlast.loop.items import Message
from outlast.loop.machine import advance
from outlast.loop.state import RunState
from outlast.loop.values import JsonObject
from outlast.ports.model import Model, ModelProvider

Decide: TypeAlias = Callable[[ApprovalRequest], bool | str | Awaitable[bool | str]]
"""Plays the person: true approves, false rejects, a text rejects with that message."""


async def run_in_memory(
    agent: Agent[Any],
    input: str | list[JsonObject],  # noqa: A002  the name that Runner has
    *,
    model: Model,
    context: Any = None,
    max_turns: int | None = 10,
    run_config: RunConfig | None = None,
    decide: Decide | None = None,
    run_id: str = "in-memory",
) -> RunResult:
    """Run an agent to its answer, or until a person would have to decide.

    Args:
        agent: the starting agent.
        input: a text, or Responses items.
        model: answers for every agent, such as a `ScriptedModel`.
        context: as for `Runner.run`; the result has the context as the run left it.
        max_turns: as for `Runner.run`.
        run_config: as for `Runner.run`.
        decide: plays the person. Without it the run returns when somebody has to decide.
        run_id: the run's id; idempotency keys begin with it.

    Raises:
        AgentsException: the run failed; the subclass says why, as with `Runner.run`.
    """
    worker = WorkerKnowledge(registry=Registry([agent]), models=_provider_of(model))
    started = RunStarted(
        at_ms=0,
        run_id=run_id,
        agent=agent.name,
        message=Message("start", records.messages_of(input)),
        context=write_context(context) if context is not None else None,
        max_turns=max_turns,
        settings=write_run_config(run_config or RunConfig()) or None,
    )
    if context is not None and not isinstance(context, dict | list | str | int | float):
        worker.registry.add_context_type(cast("type[Any]", type(context)))
    state = await _Shell(worker).run(started, decide)
    if state.failure is not None:
        raise error_of(state.failure, state)
    return result_of(state)


@dataclass
class _Shell:
    """Carries out commands, and takes in how they ended."""

    worker: WorkerKnowledge
    state: RunState = field(default_factory=RunState)
    running: dict[int, asyncio.Task[Event]] = field(default_factory=dict[int, asyncio.Task[Event]])

    async def run(self, started: RunStarted, decide: Decide | None) -> RunState:
        self._take(started)
        try:
            while self.state.phase != "closed":
                if self.running:
                    await self._take_next()
                elif decide is not None and self.state.pending_approvals:
                    await self._ask(decide, self.state.pending_approvals[0])
                else:
                    break
        finally:
            for task in self.running.values():
                task.cancel()
        return self.state

    def _take(self, event: Event) -> None:
        self.state, commands = advance(self.state, event)
        for command in commands:
            self._carry_out(command)

    def _carry_out(self, command: Command) -> None:
        match command:
            case Finish():
                pass
            case CancelEffect():
                self.running.pop(command.effect).cancel()
            case _:
                task = asyncio.create_task(self._perform(command))
                self.running[command.effect] = task

    async def _take_next(self) -> None:
        done, _ = await asyncio.wait(self.running.values(), return_when=asyncio.FIRST_COMPLETED)
        for effect in [effect for effect, task in self.running.items() if task in done]:
            task = self.running.pop(effect, None)  # an event before may have cancelled it
            if task is not None:
                self._take(task.result())

    async def _ask(self, decide: Decide, request: ApprovalRequest) -> None:
        answer: bool | str = await call(decide, request)
        decision = Decision(
            request_id=request.id,
            type="approve" if answer is True else "reject",
            message=answer if isinstance(answer, str) else None,
            by="test",
        )
        self._take(DecisionReceived(at_ms=0, decision=decision))

    async def _perform(self, effect: Effect) -> Event:
        attempts = policies.policy_of(effect).attempts
        for attempt in range(1, attempts + 1):
            try:
                # Through the wire format and back, so that a test finds what does not survive it.
                payload = records.write(await self._answer(effect, attempt))
                return history.answered(effect, payload, 0)
            except EffectError as error:
                if error.retryable and attempt < attempts:
                    continue
                engine = failures.EngineFailure(
                    kind="application",
                    code=error.code,
                    message=error.message,
                    details=error.details,
                )
                return history.failed(effect, engine, 0)
        raise AssertionError("a policy has at least one attempt")

    async def _answer(self, effect: Effect, attempt: int) -> object:
        request = records.request_of(self.state, effect)
        if isinstance(request, records.ModelRequestRecord):
            return await call_model(self.worker, request)
        match request:
            case PrepareRun():
                return await prepare_run(self.worker, request)
            case RunTool():
                return await run_tool(self.worker, request, attempt=attempt)
            case RunHandoff():
                return await run_handoff(self.worker, request)
            case _:
                raise AssertionError(f"no such effect: {request}")


def _provider_of(model: Model) -> ModelProvider:
    return model if isinstance(model, ModelProvider) else _OneModel(model)


class _OneModel(ModelProvider):
    """One model under every name."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def get_model(self, name: str | None) -> Model:
        """Return the model, whatever its name."""
        del name
        return self._model

    async def aclose(self) -> None:
        """Leave the model open: it is the test's."""
