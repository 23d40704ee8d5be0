"""The worker's definitions, model provider and blob store, which every effect gets."""

from dataclasses import dataclass, field, replace
from typing import Any

from outlast.agents.context.codec import BorrowedContext
from outlast.agents.registry import Registry
from outlast.loop.values import Json
from outlast.ports.blobs import LargeContent
from outlast.ports.model import ModelProvider


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDeps:
    """The registry of users' definitions, the model provider, and the blob store."""

    registry: Registry
    models: ModelProvider
    content: LargeContent = field(default=LargeContent(None), compare=False)

    def of_run(self, run_id: str) -> "WorkerDeps":
        """Return the dependencies of one run, which may have its own definitions."""
        own = self.registry.of_run(run_id)
        return self if own is self.registry else replace(self, registry=own)

    def borrow(self, value: Json, type_name: str | None, annotated: Any = None) -> BorrowedContext:
        """Return the run's context for callables.

        The type is the one that the callable is annotated with, or else the one that the run
        was started with, or else the only one that the worker has.

        Raises:
            UserError: the context does not fit the type.
        """
        context_type = annotated if annotated is not None else self.registry.context_type(type_name)
        return BorrowedContext(value, context_type)
