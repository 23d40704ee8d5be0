"""The definitions, model provider and blob store that a worker's effects use."""

from contextvars import Context
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from outlast.activities.worker_memory import WorkerMemory
from outlast.agents.approvals.policy_file import ApprovalFile
from outlast.agents.context.codec import BorrowedContext
from outlast.agents.context.factories import ContextFactories
from outlast.agents.context.live import (
    LIVE_CONTEXTS,
    LiveValues,
    ValuePath,
    absent,
    live_paths,
    without_live,
)
from outlast.agents.context.shared import SharedContexts
from outlast.agents.errors import UserError
from outlast.agents.registry import Registry
from outlast.blobs.contents import LargeContent
from outlast.contract.worker_state import WorkerState
from outlast.loop.values import Json
from outlast.ports.identity import Execution, WorkerIdentity
from outlast.ports.model import ModelProvider
from outlast.ports.notifier import Notifier


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDeps:
    """The registry of users' definitions, the model provider, and the blob store.

    Attributes:
        contexts: creates the live values of contexts from other processes.
        run_id: the run that these dependencies serve; empty for all runs.
        caller: the context variables of the program that runs it in this process, if one does.
        approvals: the operators' file, which changes the policies of the definitions.
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
    run_id: str = ""
    live: LiveValues | None = None
    started_here: bool = False
    caller: Context | None = field(default=None, compare=False)
    approvals: ApprovalFile | None = None
    shared_contexts: SharedContexts = field(default_factory=SharedContexts, compare=False)
    notifiers: tuple[Notifier, ...] = ()
    model_patience: timedelta | None = None
    identity: WorkerIdentity | None = field(default=None, compare=False)
    memory: WorkerMemory = field(default_factory=WorkerMemory, compare=False)
    state: WorkerState = field(default_factory=WorkerState, compare=False)
    execution: Execution | None = None

    def of_run(self, run_id: str) -> "WorkerDeps":
        """Return the dependencies of one run, which may have its own definitions."""
        registry, caller = self.registry.of_run(run_id)
        live = LIVE_CONTEXTS.of_run(run_id)
        if registry is self.registry and live is None and self.contexts is None:
            return self
        return replace(
            self,
            registry=registry,
            run_id=run_id,
            live=live,
            started_here=live is not None,
            caller=caller,
        )

    async def with_live_values(self, context: Json) -> "WorkerDeps":
        """Return the dependencies with the live values of a context.

        Raises:
            UserError: a live value is not in this process, and no factory makes it.
        """
        missing = _missing(context, self.live or {})
        if not missing:
            return self
        if self.contexts is None:
            raise UserError(absent(missing))
        made = await self.contexts.values(self.run_id, without_live(context))
        # A callable may replace a live value; later callables get the new object.
        live = self.live if self.live is not None else made
        for path, value in made.items():
            live.setdefault(path, value)
        if missing := _missing(context, live):
            raise UserError(absent(missing))
        return replace(self, live=live)

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
