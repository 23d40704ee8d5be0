"""The definitions, model provider and blob store that a worker's effects use."""

from collections.abc import Mapping
from contextvars import Context
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

from outlast.activities.worker_memory import WorkerMemory
from outlast.agents.agent import Agent
from outlast.agents.approval_points import calendars_of
from outlast.agents.approvals.policy_file import ApprovalFile
from outlast.agents.calendars import Calendar, find_calendar
from outlast.agents.context.codec import BorrowedContext
from outlast.agents.context.encoding import absent_class
from outlast.agents.context.factories import ContextFactories
from outlast.agents.context.live import (
    LiveValues,
    ValuePath,
    absent,
    live_paths,
    without_live,
)
from outlast.agents.context.shared import SharedContexts
from outlast.agents.errors import UserError
from outlast.agents.json_values import as_object
from outlast.agents.registry import Registry
from outlast.agents.run_objects import RUN_OBJECTS, RunKey, RunObjects
from outlast.blobs.contents import LargeContent
from outlast.contract.worker_state import WorkerState
from outlast.loop.effects import AgentEffect, Effect, SaveSession
from outlast.loop.start import OWN_AGENTS
from outlast.loop.values import Json, JsonObject
from outlast.ports.identity import Execution, WorkerIdentity
from outlast.ports.model import ModelProvider
from outlast.ports.notifier import Notifier

NOT_BROUGHT: Final = (
    "This process hosts the run's task queue, but has not the agents that the run was started with: "
    "they were in a process that has ended. Start the run again, with the same id and input, or pass "
    "its agent to Runner.attach(id, agent=...). Runs that have to go on without their program need "
    "a worker: AgentWorker(client, agents=[...])."
)
"""The sentence for a run whose program has not started it again."""


@dataclass(frozen=True, kw_only=True)
class WorkerDeps:
    """The registry of users' definitions, the model provider, and the blob store.

    Attributes:
        contexts: creates the live values of contexts from other processes.
        hosts_runs: the program that starts the runs hosts them, with the agents of each start.
        key: the execution that these dependencies serve, or that it is nested in; None for all.
        caller: the context variables of the program that runs it in this process, if one does.
        approvals: the operators' file, which changes the policies of the definitions.
        calendars: the calendars of the worker, by name; those of the operators' file come first.
        shared_contexts: the context objects of calls that run beside each other.
        model_patience: how long a failing model call is retried; None for all its attempts.
        identity: what proofs of people are checked with; None where there are no keys.
        state: what the worker shares with its workflows.
        execution: the execution that the effect is for, in the server's words; None in memory.
    """

    registry: Registry
    models: ModelProvider
    content: LargeContent = field(default=LargeContent(None), compare=False)
    contexts: ContextFactories | None = None
    hosts_runs: bool = False
    key: RunKey | None = None
    live: LiveValues | None = None
    started_here: bool = False
    caller: Context | None = field(default=None, compare=False)
    approvals: ApprovalFile | None = None
    calendars: Mapping[str, Calendar] = field(default_factory=dict[str, Calendar], compare=False)
    shared_contexts: SharedContexts = field(default_factory=SharedContexts, compare=False)
    notifiers: tuple[Notifier, ...] = ()
    model_patience: timedelta | None = None
    identity: WorkerIdentity | None = field(default=None, compare=False)
    memory: WorkerMemory = field(default_factory=WorkerMemory, compare=False)
    state: WorkerState = field(default_factory=WorkerState, compare=False)
    execution: Execution | None = None

    async def of_execution(self, execution: Execution, effect: Effect) -> "WorkerDeps":
        """Return the dependencies of an effect of one execution, with what its start brought.

        Raises:
            UserError: the program hosts its runs, and nobody has brought the agents of this one.
            ConnectionError: the server does not say which run the execution belongs to.
        """
        lineage = self.state.lineages.get(execution.execution_id)
        if lineage is None:
            if self.identity is None:
                return self
            lineage = await self.identity.lineage_of(execution)
        key = RunKey(execution.namespace, lineage.chain_id)
        objects = await RUN_OBJECTS.find(key, execution.workflow_id)
        definitions = objects.definitions if objects is not None else None
        if (
            definitions is None
            and self.hosts_runs
            and isinstance(effect, AgentEffect | SaveSession)
        ):
            raise UserError(NOT_BROUGHT)
        if objects is None:
            return self._with(key=key, execution=execution)
        return self.with_objects(key, objects, execution.workflow_id, execution)

    def definitions_of(self, namespace: str, execution_id: str, run_id: str) -> Registry:
        """Return the definitions of an execution, as far as this process has them."""
        lineage = self.state.lineages.get(execution_id)
        key = None if lineage is None else RunKey(namespace, lineage.chain_id)
        objects = RUN_OBJECTS.get(key) if key is not None else None
        if objects is not None and (objects.definitions or not self.hosts_runs):
            return self.with_objects(key, objects, run_id).registry
        return Registry() if self.hosts_runs else self.registry

    def with_objects(
        self,
        key: RunKey | None,
        objects: RunObjects,
        run_id: str,
        execution: Execution | None = None,
    ) -> "WorkerDeps":
        """Return the dependencies with the objects of one run."""
        return self._with(
            registry=objects.view_of(objects.definitions or self.registry, run_id),
            key=key,
            live=objects.live,
            started_here=objects.live is not None,
            caller=objects.caller,
            execution=execution or self.execution,
        )

    def with_recorded_agents(self, settings: JsonObject | None) -> "WorkerDeps":
        """Return the dependencies with the agents that the run has recorded.

        Raises:
            UserError: an agent that they are made of is not registered here.
        """
        recorded = as_object((settings or {}).get(OWN_AGENTS))
        return self._with(registry=self.registry.with_changed(recorded)) if recorded else self

    def with_chosen(self, agent: Agent[Any], run_id: str, number: int) -> "WorkerDeps":
        """Return the dependencies with an agent that the handoff with a number has made.

        Raises:
            UserError: the agent's definition does not fit.
        """
        if self.registry.has(agent):
            return self
        worker = self
        if self.key is not None and not self.registry.tells_apart:
            objects = RUN_OBJECTS.fill(self.key, RunObjects())
            worker = self.with_objects(self.key, objects, run_id)
        worker.registry.take_over(agent, number)
        return worker

    async def with_live_values(self, context: Json) -> "WorkerDeps":
        """Return the dependencies with the live values of a context.

        Raises:
            UserError: a live value is not in this process, and no factory makes it; or the context
                has an object of a class that a function of the run's program has made.
        """
        if context is None:
            return self
        if (absent_one := absent_class(context, self.live or {})) is not None:
            raise UserError(absent_one)
        missing = _missing(context, self.live or {})
        if not missing:
            return self
        if self.contexts is None:
            raise UserError(absent(missing))
        made = await self.contexts.values(self.key, without_live(context))
        # A callable may replace a live value; later callables get the new object.
        live = self.live if self.live is not None else made
        for path, value in made.items():
            live.setdefault(path, value)
        if missing := _missing(context, live):
            raise UserError(absent(missing))
        return self._with(live=live)

    def of_attempt(self, execution: Execution | None) -> "WorkerDeps":
        """Return the dependencies of an attempt that an execution asks for; None in memory."""
        return self if execution in (self.execution, None) else self._with(execution=execution)

    def _with(self, **changes: Any) -> "WorkerDeps":
        """Return a copy with other values, at a twentieth of the price of `replace`."""
        other = object.__new__(WorkerDeps)
        vars(other).update(vars(self), **changes)
        return other

    def calendar(self, name: str, own: Mapping[str, Calendar] = MappingProxyType({})) -> Calendar:
        """Return a calendar: of the operators' file, of the worker, `own`, or of a policy of an agent.

        Raises:
            UserError: this worker does not have it.
        """
        file = self.approvals
        of_file = file.calendars if file is not None else dict[str, Calendar]()
        return find_calendar(name, of_file, self.calendars, own or calendars_of(self.registry))

    def borrow(self, value: Json, type_name: str | None, annotated: Any = None) -> BorrowedContext:
        """Return the run's context for callables, as `Registry.context_type` says.

        Raises:
            UserError: the context does not fit the type.
        """
        context_type, is_own = self.registry.context_type(type_name, annotated)
        return BorrowedContext(
            value, context_type, self.live, may_add=self.started_here, is_own=is_own
        )


def _missing(context: Json, live: LiveValues) -> list[tuple[ValuePath, str]]:
    return [place for place in live_paths(context) if place[0] not in live]
