"""A run without a server, with the same loop and the same effects.

Function calls replace the workflow's activities. Nothing is durable, and retries do not wait.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from time import time_ns
from typing import Any

from outlast.activities.attempt import Attempt, attempt_effect
from outlast.activities.content import NO_STORE, recorded_result, whole_request
from outlast.activities.errors import EffectError
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.context.wait_address import WaitAddress
from outlast.agents.errors import UserError
from outlast.client.results.pending_waits import PendingWait, pending_waits
from outlast.client.transport.exceptions import exception_of
from outlast.contract import failures, history, records, stages
from outlast.contract.effects import kind_of, request_of
from outlast.contract.refusals import refusal_of
from outlast.contract.stages import Stage
from outlast.contract.streams.delta_reader import RESTARTED
from outlast.contract.streams.window import ShownText
from outlast.edges.tasks import meanwhile
from outlast.loop import invariants
from outlast.loop.approvals import Decision
from outlast.loop.effects import (
    CancelEffect,
    Command,
    Effect,
    Finish,
    LendBudget,
    NotifyAfterEnd,
    NotifyParent,
    NotifyPeople,
    ReportToTeam,
    RunAgent,
)
from outlast.loop.events import CancelRequested, Event, PersonActed, TimePassed, ValueDelivered
from outlast.loop.machine import advance
from outlast.loop.spending import model_uses, spent_of_parent
from outlast.loop.state import LoopState, redacted_in
from outlast.loop.values import Json, JsonObject
from outlast.tracing.receivers import REGISTRATION
from outlast.tracing.stage_spans import StageSpans
from outlast.views.redaction import told

OnState = Callable[[LoopState], None]
"""A callback for the state after each event of the root run."""

OnEvent = Callable[[Event, LoopState], None]
"""A callback for the events of the root run, each with the state after it."""

OnDelta = Callable[[JsonObject], None]
"""A callback for the raw events of the run's models."""

MOST_LOOKS = 10_000
"""How often tools of a run look for themselves in memory, where no time passes between looks."""

LOOK_SECONDS = 0.05
"""How long to wait between two looks for a response in the background."""

LONGEST_RETRY_AFTER = timedelta(minutes=1)
"""The longest wait that a provider can ask for, where real models are called in memory."""

_newest_start_ms = 0


@dataclass
class MemoryClock:
    """The time of a run and of those nested in it: ahead of the process where a test lets it pass.

    Attributes:
        ahead_ms: by how much.
    """

    ahead_ms: int = 0

    def pass_until(self, at_ms: int) -> None:
        """Let the time pass until some point, if that is later."""
        self.ahead_ms = max(self.ahead_ms, at_ms - now_ms())


@dataclass
class MemoryRun:
    """A run in this process: carries out commands, and applies their results.

    `states` has the states since the first one, while `on_state` is not set.
    """

    worker: WorkerDeps
    run_id: str
    state: LoopState = field(default_factory=LoopState)
    parent: "MemoryRun | None" = None
    nested: dict[str, "MemoryRun"] = field(default_factory=dict[str, "MemoryRun"])
    on_state: OnState | None = None
    on_delta: OnDelta | None = None
    on_event: OnEvent | None = None
    clock: MemoryClock = field(default_factory=MemoryClock)
    looks: int = 0
    first: LoopState = field(init=False)
    states: list[LoopState] = field(default_factory=list[LoopState])
    _running: dict[int, asyncio.Task[Event]] = field(default_factory=dict[int, asyncio.Task[Event]])
    _ending: list[asyncio.Task[Event]] = field(default_factory=list[asyncio.Task[Event]])
    _stages: tuple[Stage, ...] | None = None
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.first = self.state
        if self.parent is not None:
            self.clock = self.parent.clock
        self.clock.pass_until(self.state.at_ms)

    def start(self, record: records.RunInput) -> None:
        """Apply the run's input."""
        started_at_ms = _start_ms()
        self.apply(history.started(self.run_id, record, started_at_ms, str(started_at_ms)))

    async def run_until_waiting(self) -> LoopState:
        """Carry out commands until the run is closed, or only waits; return its state."""
        while self._works():
            await self.apply_next()
        return self.state

    def _works(self) -> bool:
        waits = self.state.status in {"waiting", "parked"}
        return any(
            not (isinstance(effect, RunAgent) and (waits or self._is_parked(effect)))
            for effect in self.state.pending
            if effect.effect in self._running
        )

    @property
    def is_parked(self) -> bool:
        """Whether this run only waits for a delivery or a person."""
        waits = self.state.status == "waiting" and bool(self.state.pending_approvals)
        return waits or self.state.status == "parked"

    def _is_parked(self, effect: RunAgent) -> bool:
        nested = self.nested.get(effect.nested_id)
        return nested is not None and nested.is_parked

    def resume(self) -> None:
        """Repeat the effects that were pending when the run stopped, also of nested runs."""
        self.first, self.states, self.on_state, self.on_delta = self.state, [], None, None
        for effect in self.state.pending:
            if effect.effect not in self._running:
                self._dispatch(effect)

    def apply(self, event: Event) -> None:
        """Apply an event to the run, at the time of the run's clock."""
        if self.clock.ahead_ms:
            event = replace(event, at_ms=event.at_ms + self.clock.ahead_ms)
        before = self.state
        self.state, commands = advance(before, event)
        invariants.check(self.state)
        self._observe(before, event)
        if self.on_event is not None:
            self.on_event(event, self.state)
        if self.on_state is not None:
            self.on_state(self.state)
        else:
            self.states.append(self.state)
        for command in commands:
            self._dispatch(command)
        self.wake()

    def _observe(self, before: LoopState, event: Event) -> None:
        """Report the stages that an event began or ended, if a processor is registered."""
        if not REGISTRATION.active:
            self._stages = None
            return
        known = stages.resumed(before) if self._stages is None else self._stages
        self._stages, changes = stages.advanced(known, before, event, self.state)
        if changes:
            StageSpans(self.worker.registry)(self.state, changes)

    def wake(self) -> None:
        """Let this run, and those that it is nested in, look again whether they go on."""
        self._news.set()
        if self.parent is not None:
            self.parent.wake()

    def decide(self, decision: Decision, run_id: str = "") -> None:
        """Apply a person's decision to this run or a nested run, as an update does.

        Raises:
            DecisionRefused: it does not apply; nothing has changed.
        """
        target = self.find(run_id)
        event = PersonActed(at_ms=now_ms(), action=decision, verified=True)
        if (refused := refusal_of(target.state, event)) is not None:
            raise exception_of(refused)
        target.apply(event)

    def pending_waits(self) -> tuple[PendingWait, ...]:
        """Return the calls that wait for something outside, here and in nested runs."""
        own = pending_waits(self.state) if self.state.phase != "closed" else ()
        return own + tuple(one for run in self.nested.values() for one in run.pending_waits())

    def deliver(self, wait: PendingWait, value: Json) -> None:
        """Deliver a value to a wait of this run or of a nested run, as an update does.

        Raises:
            DeliveryRefused: the value does not fit; nothing has changed.
        """
        target = self.find(wait.run_id)
        event = delivery_for(
            wait,
            at_ms=now_ms(),
            value=value,
            delivery_id=f"test-{len(target.state.receipts)}",
            source="test",
            verified=True,
        )
        if (refused := refusal_of(target.state, event)) is not None:
            raise exception_of(refused)
        target.apply(event)

    def is_asked_of_people(self, wait: PendingWait) -> bool:
        """Whether nothing came for a wait in time, and people are asked for the value."""
        return any(
            one.call_id == wait.call_id and one.parked is not None and one.parked.request_id
            for one in self.find(wait.run_id).state.calls
        )

    def pass_time(self, wait: PendingWait) -> None:
        """Let the time pass until the tool of a wait looks for itself, or the wait ends by itself.

        Raises:
            UserError: it has no end, or the tool has looked too often.
        """
        calls = (one for one in self.find(wait.run_id).state.calls if one.call_id == wait.call_id)
        parked = next(one.parked for one in calls if one.parked is not None)
        if parked.due_ms is None:
            raise UserError(
                f"NOTHING_COMES for {wait.name!r}: the wait has no deadline (timeout=None), "
                "so it goes on until a value comes."
            )
        self.looks += parked.wait.every_ms is not None
        if self.looks > MOST_LOOKS:
            raise UserError(
                f"NOTHING_COMES for {wait.name!r}: the tool {wait.tool!r} has looked {MOST_LOOKS:,} "
                "times and still waits. Let what it looks at be done in the test, or deliver a value."
            )
        self.clock.pass_until(parked.due_ms)
        self.find(wait.run_id).apply(TimePassed(at_ms=now_ms()))

    def find(self, run_id: str) -> "MemoryRun":
        """Return this run, or the nested run with this id."""
        if run_id in {"", self.run_id}:
            return self
        for one in self.nested.values():
            if run_id == one.run_id or run_id.startswith(f"{one.run_id}/"):
                return one.find(run_id)
        raise LookupError(f"There is no run {run_id!r} in {self.run_id!r}.")

    async def stop(self) -> None:
        """Stop all pending effects, and wait for cancelled nested runs."""
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), *self._ending, return_exceptions=True)
        self._running.clear()
        self._ending.clear()

    def _dispatch(self, command: Command) -> None:
        match command:
            case Finish() | ReportToTeam():  # no team hears of a run in memory
                pass
            case CancelEffect():
                self._cancel(command.effect)
            case NotifyAfterEnd(notices=notices):
                last = NotifyPeople(effect=0, run_id=self.run_id, notices=notices)
                self._ending.append(asyncio.create_task(self._perform(last)))
            case NotifyParent():
                if self.parent is not None:
                    self.parent.apply(self._signal(command))
            case LendBudget():  # after the report that it answers
                nested = self.nested[command.nested_id]
                asyncio.get_running_loop().call_soon(nested.apply, self._signal(command))
            case _:
                self._running[command.effect] = asyncio.create_task(self._perform(command))

    def _signal(self, command: NotifyParent | LendBudget) -> Event:
        """Return the event of a signal between a run and its parent, as a server delivers it."""
        _, name, record = records.signal_of(command)
        return history.signalled(name, [record], now_ms())

    def _cancel(self, effect: int) -> None:
        """Stop an effect; a nested run ends on its own, and its result is ignored."""
        task = self._running.pop(effect)
        for one in self.nested.values():
            if history.effect_of_nested(one.run_id) == effect:
                one.apply(CancelRequested(at_ms=now_ms()))
                self._ending.append(task)
                return
        task.cancel()

    async def apply_next(self) -> None:
        """Wait for an effect to end or an event to arrive, and apply it."""
        self._news.clear()
        with meanwhile(self._news.wait()) as waiting:
            done, _ = await asyncio.wait(
                [waiting, *self._running.values()], return_when=asyncio.FIRST_COMPLETED
            )
        for effect in [effect for effect, task in self._running.items() if task in done]:
            task = self._running.pop(effect, None)  # an earlier event may have cancelled it
            if task is not None:
                self.apply(task.result())

    async def _perform(self, effect: Effect) -> Event:
        if isinstance(effect, RunAgent):
            return await self._run_nested(effect)
        return await carried_out(self.worker, self.state, effect, self.on_delta)

    async def _run_nested(self, effect: RunAgent) -> Event:
        existing = self.nested.get(effect.nested_id)
        run = existing or MemoryRun(self.worker, effect.nested_id, parent=self)
        self.nested[effect.nested_id] = run
        try:
            if existing is None:
                run.start(records.nested_input(effect, visibility=False))
            else:
                run.worker = self.worker
                run.resume()
            while run.state.phase != "closed":
                await run.apply_next()
        finally:
            await run.stop()
        state = run.state
        if state.outcome == "failed" and (failure := state.failure) is not None:
            spent = records.spent_of(state)
            return _failed(
                effect, failure.code, failure.message, details=failure.details, spent=spent
            )
        result = records.RunResultRecord(
            status="completed" if state.outcome == "completed" else "cancelled",
            agent=state.agent,
            final_output=state.final_output if state.outcome == "completed" else None,
            turns=state.turns,
            usage=state.usage,
            uses=model_uses(state),
            context=state.context,
            remembered=state.remembered,
            redacted=redacted_in(state),
            spent=spent_of_parent(state),
        )
        return history.answered(effect, records.write(result), now_ms())


async def carried_out(
    worker: WorkerDeps,
    state: LoopState,
    effect: Effect,
    on_delta: OnDelta | None = None,
    *,
    is_patient: bool = False,
) -> Event:
    """Carry out an effect with all its attempts, without waiting between them; return its event.

    With `is_patient`, an attempt waits for as long as a provider asks for with `Retry-After`.
    """
    attempts, shown = kind_of(effect).policy(effect).attempts or MOST_LOOKS, ShownText()
    for attempt in range(1, attempts + 1):
        if attempt > 1 and effect.kind == "call_model" and on_delta is not None:
            on_delta({"type": RESTARTED, "attempt": attempt})
        try:
            # Convert to the wire format and back, so that tests find values that change.
            request = await whole_request(worker, request_of(state, told(state, effect)))
            one = Attempt(number=attempt, on_event=on_delta, shown=shown)
            result = await attempt_effect(worker, request, one)
            result = await recorded_result(NO_STORE, request, result)
            return history.answered(effect, records.write(result), now_ms())
        except EffectError as error:
            enough = error.attempts is not None and attempt >= error.attempts
            if error.retryable and attempt < attempts and not enough:
                if error.code == failures.MODEL_WORKING:
                    await asyncio.sleep(LOOK_SECONDS)
                elif is_patient and error.retry_after is not None:
                    asked = min(error.retry_after, LONGEST_RETRY_AFTER)
                    await asyncio.sleep(asked.total_seconds())
                continue
            return _failed(effect, error.code, error.message, details=error.details)
        except Exception as error:  # noqa: BLE001  as on a server
            message = f"The worker failed: {type(error).__name__}: {error}"
            return _failed(effect, failures.INTERNAL, message)
    raise AssertionError("a policy has at least one attempt")


def delivery_for(wait: PendingWait, **fields: Any) -> ValueDelivered:
    """Return the delivery of a value for a wait."""
    address = WaitAddress.parse(wait.token)
    return ValueDelivered(
        question=address.question,
        turn=address.turn,
        call_id=address.call_id,
        name=address.name,
        **fields,
    )


def _failed(effect: Effect, code: str, message: str, **more: Any) -> Event:
    engine = failures.EngineFailure(kind="application", code=code, message=message, **more)
    return history.failed(effect, engine, now_ms())


def now_ms() -> int:
    """Return the time of an event, rounded up, so that earlier events never appear later."""
    return -(-time_ns() // 1_000_000)


def _start_ms() -> int:
    """Return a unique time for the start of a run in this process."""
    global _newest_start_ms  # noqa: PLW0603  one clock for the process
    _newest_start_ms = max(now_ms(), _newest_start_ms + 1)
    return _newest_start_ms
