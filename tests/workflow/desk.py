"""What a workflow test works with: a task queue of its own, workers, runs, and a look at them.

Owns: `Desk`. Must not know: what has to hold of every run; that is `laws.py`.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Worker

from outlast.activities.boundary import EffectActivities
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.agent import Agent
from outlast.agents.config.run_config import RunConfig
from outlast.agents.registry import Registry
from outlast.client.handle import RunHandle, progress_of
from outlast.client.read.history import HistoryReader, Progress
from outlast.client.read.streaming import RunResultStreaming
from outlast.client.results.run_result import RunResult
from outlast.client.start.options import run_input
from outlast.client.start.runner import Runner
from outlast.contract import names, records
from outlast.loop.state import LoopState
from outlast.testing import ScriptedModel
from outlast.tracing.provider import join_current_trace
from outlast.views.run import loop_state
from outlast.worker.agent_worker import AgentWorker
from outlast.workflows.agent_run import AgentRun
from outlast.workflows.people_notices import PeopleNotices
from outlast.workflows.scheduled_message import ScheduledMessage
from outlast.workflows.team import Team
from tests.loop_states import of_loop
from tests.workflow.laws import nested_runs

PATIENCE_SECONDS = 60
"""Longer than a loaded machine stands still; only a failing test waits for it."""

QUICK = RunConfig(heartbeat_timeout=timedelta(seconds=2))
"""For runs whose workers are taken away: the loss is noticed soon, a stall of a second is not."""


class Desk:
    """One test's part of the server.

    Attributes:
        client: connected to the session's server.
        queue: the test's own task queue.
        cached: whether workers keep workflows in memory; if not, they replay each for every task.
        ids: the runs that were started, for the laws that hold of every run.
    """

    def __init__(self, client: Client, *, cached: bool) -> None:
        self.client = client
        self.cached = cached
        self.queue = f"queue-{secrets.token_hex(6)}"
        self.ids: list[str] = []
        self._workers: list[AgentWorker | Worker] = []
        self._effects_only: list[Worker] = []

    @property
    def serves_workflows(self) -> bool:
        """Whether a worker runs that can answer queries."""
        return any(worker not in self._effects_only for worker in self._workers)

    # --- Workers --------------------------------------------------------------------------------

    async def open(
        self,
        *agents: Agent[Any],
        model: ScriptedModel | None = None,
        client: Client | None = None,
        **options: Any,
    ) -> AgentWorker:
        """Start a worker that runs everything, until the test ends."""
        worker = AgentWorker(
            client or self.client,
            agents=agents,
            task_queue=self.queue,
            model_provider=model or ScriptedModel(),
            **self.worker_options(**options),
        )
        await worker.__aenter__()
        self._workers.append(worker)
        return worker

    async def open_workflows(self, *agents: Agent[Any]) -> Worker:
        """Start a worker that runs workflows, and of the effects only what is local to them."""
        return await self._open(
            workflows=[AgentRun, PeopleNotices, ScheduledMessage, Team],
            activities=_activities(agents, ScriptedModel()),
            no_remote_activities=True,
        )

    async def open_effects(self, *agents: Agent[Any], model: ScriptedModel) -> Worker:
        """Start a worker that runs effects and no workflows."""
        worker = await self._open(activities=_activities(agents, model))
        self._effects_only.append(worker)
        return worker

    async def _open(self, **options: Any) -> Worker:
        defaults = {"build_id": "test", "max_heartbeat_throttle_interval": timedelta(seconds=1)}
        worker = Worker(
            self.client, task_queue=self.queue, **self.worker_options(**{**defaults, **options})
        )
        await worker.__aenter__()
        self._workers.append(worker)
        return worker

    async def close(self, worker: AgentWorker | Worker) -> None:
        """Stop one worker."""
        self._workers.remove(worker)
        await worker.__aexit__(None, None, None)

    async def close_all(self) -> None:
        """Stop every worker."""
        await asyncio.gather(*(self.close(worker) for worker in list(self._workers)))

    def worker_options(self, **options: Any) -> dict[str, Any]:
        """Return the options of a worker, with a cache of workflows or without."""
        defaults: dict[str, Any] = {"graceful_shutdown_timeout": timedelta(seconds=1)}
        if not self.cached:
            defaults["max_cached_workflows"] = 0
        return {**defaults, **options}

    # --- Runs -----------------------------------------------------------------------------------

    async def key_of(self, run_id: str) -> str:
        """Return what tells a run from others that use its id, as its tools know it."""
        described = await self.client.get_workflow_handle(run_id).describe()
        return f"{run_id}@{described.raw_description.workflow_execution_info.first_run_id[-12:]}"

    def new_id(self) -> str:
        """Return an id that no other run has."""
        run_id = f"run-{secrets.token_hex(6)}"
        self.ids.append(run_id)
        return run_id

    async def start(
        self, agent: Agent[Any] | str, asked: Any = "Hello", **options: Any
    ) -> RunHandle:
        """Start a run as a user does."""
        options = {"id": options.get("id") or self.new_id(), **options}
        return await Runner.start(
            agent, asked, client=self.client, task_queue=self.queue, **options
        )

    async def run(self, agent: Agent[Any] | str, asked: Any = "Hello", **options: Any) -> RunResult:
        """Start a run and wait for its answer as a user does."""
        options = {"id": options.get("id") or self.new_id(), **options}
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await Runner.run(
                agent, asked, client=self.client, task_queue=self.queue, **options
            )

    async def start_record(self, **fields: Any) -> RunHandle:
        """Start a run from its input record, for settings that the runner does not offer."""
        record = records.RunInput(visibility=True, **fields)
        workflow = await self.start_raw(records.write(record))
        return RunHandle(self.client, workflow.id)

    async def start_short(
        self, agent: Agent[Any] | str, asked: Any = "Hello", *, events: int = 20, **options: Any
    ) -> RunHandle:
        """Start a run that goes on in a new history after so many events, about ten to a turn."""
        record = run_input(agent, asked, **options)
        settings = {**(record.settings or {}), "roll_over_events": events}
        record = replace(record, settings=join_current_trace(settings), visibility=True)
        workflow = await self.start_raw(records.write(record))
        return RunHandle(self.client, workflow.id)

    def stream(
        self, agent: Agent[Any] | str, asked: Any = "Hello", **options: Any
    ) -> RunResultStreaming:
        """Start a run and read along as a user does."""
        options = {"id": options.get("id") or self.new_id(), **options}
        return Runner.run_streamed(
            agent, asked, client=self.client, task_queue=self.queue, **options
        )

    async def start_raw(self, *arguments: Any) -> WorkflowHandle[Any, Any]:
        """Start the workflow with any arguments, as somebody in the Temporal UI may."""
        return await self.client.start_workflow(
            names.WORKFLOW, args=arguments, id=self.new_id(), task_queue=self.queue
        )

    def workflow(self, handle: RunHandle) -> WorkflowHandle[Any, Any]:
        """Return Temporal's own handle of a run."""
        return self.client.get_workflow_handle(handle.id)

    # --- Looking --------------------------------------------------------------------------------

    async def until(self, handle: RunHandle, condition: Callable[[LoopState], bool]) -> LoopState:
        """Wait until a run's state satisfies a condition, and return that state.

        As in `RunHandle.wait`, the state in which the run has taken in everything that has reached
        it counts, and each one after it. `ever` looks for a state that may be past.
        """
        # A handle of its own, since one remembers where it has stopped reading.
        own = RunHandle(handle.client, handle.id, first_execution_id=handle.first_execution_id)
        async with self.patience(handle):
            state = (await own.wait(of_loop(condition))).snapshot
        assert condition(loop_state(state)), f"the run ended before what was waited for: {state}"
        return loop_state(state)

    async def ever(self, handle: RunHandle, condition: Callable[[LoopState], bool]) -> LoopState:
        """Wait until a run has had a state that satisfies a condition, and return that state."""
        state = LoopState()
        async with self.patience(handle):
            async for progress in progress_of(handle):
                state = progress.state
                if condition(state):
                    return state
        raise AssertionError(f"the run never had the state that was waited for: {state}")

    async def settled(self, handle: RunHandle) -> LoopState:
        """Wait until everything that reached a run has been taken in and nothing is in flight."""
        async with self.patience(handle):
            while True:
                reader = HistoryReader(self.client.data_converter)
                history = await self.workflow(handle).fetch_history()
                await reader.feed(history.events)
                state = await handle.state()
                if (
                    not reader._waiting
                    and state.status != "running"
                    and not loop_state(state).pending
                ):
                    return loop_state(state)
                await asyncio.sleep(0.02)

    async def until_status(self, handle: RunHandle, status: str) -> LoopState:
        """Wait until a run has a status, and return its state."""
        return await self.until(handle, lambda state: state.status == status)

    async def result(self, handle: RunHandle) -> RunResult:
        """Wait for the end of a run."""
        async with self.patience(handle):
            return await handle.result()

    async def progress(self, handle: RunHandle) -> list[Progress]:
        """Return every event of a run that ends, with the state after it."""
        async with self.patience(handle):
            return [progress async for progress in progress_of(handle)]

    async def pending_activity(
        self, handle: RunHandle, condition: Callable[[PendingActivityInfo], bool]
    ) -> PendingActivityInfo:
        """Wait until an activity that has not ended satisfies a condition, and describe it."""
        found: list[PendingActivityInfo] = []
        async with self.patience(handle):
            while not found:
                await asyncio.sleep(0.02)
                found = [one for one in await self._pending_activities(handle) if condition(one)]
        return found[0]

    @asynccontextmanager
    async def patience(self, handle: RunHandle) -> AsyncGenerator[None]:
        """Give up on a run after a while, and say how far it has come."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                yield
        except TimeoutError as error:
            newest = (await self.event_types(handle))[-12:]
            pending = [
                (one.activity_type.name, one.attempt, one.last_failure.message[:200])
                for one in await self._pending_activities(handle)
            ]
            raise AssertionError(
                f"not within {PATIENCE_SECONDS} s: activities {pending} after {newest}; "
                f"failed workflow tasks: {await self._failed_tasks(handle)}"
            ) from error

    async def _failed_tasks(self, handle: RunHandle) -> list[str]:
        return [
            event.workflow_task_failed_event_attributes.failure.message[:300]
            for events in await self.all_events(handle)
            for event in events
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
        ]

    async def _pending_activities(self, handle: RunHandle) -> list[PendingActivityInfo]:
        description = await self.workflow(handle).describe()
        return list(description.raw_description.pending_activities)

    async def all_events(self, handle: RunHandle) -> list[list[HistoryEvent]]:
        """Return the histories of a run that continue each other, oldest first."""
        run: str | None = (await self.workflow(handle).describe()).raw_info.first_run_id
        found: list[list[HistoryEvent]] = []
        while run:
            one = await self.client.get_workflow_handle(handle.id, run_id=run).fetch_history()
            found.append(list(one.events))
            last = found[-1][-1].workflow_execution_continued_as_new_event_attributes
            run = last.new_execution_run_id
        return found

    async def nested(self, handle: RunHandle) -> list[RunHandle]:
        """Return the runs that a run has started, oldest first."""
        ids = [one for events in await self.all_events(handle) for one in nested_runs(events)]
        return [RunHandle(self.client, one) for one in ids]

    async def event_types(self, handle: RunHandle) -> list[str]:
        """Return the types of the records in a run's history, oldest first."""
        history = await self.workflow(handle).fetch_history()
        return [EventType.Name(event.event_type) for event in history.events]


def _activities(agents: Sequence[Agent[Any]], model: ScriptedModel) -> list[Any]:
    deps = WorkerDeps(registry=Registry(agents), models=model)
    return EffectActivities(deps).all


def waits_for(count: int) -> Callable[[LoopState], bool]:
    """A condition: this many approvals wait for a person."""
    return lambda state: len(state.pending_approvals) == count
