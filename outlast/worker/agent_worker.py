"""A Temporal worker that only hosts runs of agents."""

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from temporalio.client import Client
from temporalio.worker import Worker

from outlast.agents.agent import Agent
from outlast.agents.context.factories import ContextFactory
from outlast.agents.errors import UserError
from outlast.agents.registry import Registry
from outlast.blobs import large_content
from outlast.contract import names
from outlast.ports.blobs import BlobStore
from outlast.ports.engine import check_client
from outlast.ports.model import ModelProvider
from outlast.worker.plugin import OutlastPlugin


class AgentWorker:
    """Hosts the runs of a task queue: a Temporal worker with an `OutlastPlugin`.

        async with AgentWorker(client, agents=[triage], task_queue="support"):
            ...

    or `await AgentWorker(...).run()` until the process is stopped. Any number of workers may share
    a task queue. A worker that dies loses nothing: other workers retry its work.
    """

    def __init__(  # noqa: PLR0913  the options of a worker
        self,
        client: Client,
        *,
        agents: Iterable[Agent[Any]],
        task_queue: str = names.TASK_QUEUE,
        model_provider: ModelProvider | None = None,
        context_types: Iterable[type] = (),
        context: ContextFactory | None = None,
        references: Iterable[object] | Mapping[str, object] = (),
        blob_store: BlobStore | None = None,
        sessions: Iterable[str | Path] = (),
        **worker_options: Any,
    ) -> None:
        """Create a worker; it starts when it is entered or run.

        Args:
            client: a connected Temporal client.
            agents: starting agents; the agents that they hand over to are included.
            task_queue: the task queue of the runs.
            model_provider: provides the models; default: `MultiProvider`, by the prefixes of model
                names.
            context_types: types of run contexts that no callable is annotated with.
            context: creates the live objects of contexts, such as a database pool, for runs started
                elsewhere: a callable that takes the data as JSON and returns a context, or a dict
                of callables by field. Generators may close the objects after their `yield`.
            references: callables and objects that runs name in their settings, such as guardrails
                of a `RunConfig`; a dict sets their names.
            blob_store: the store for large content; all workers and clients of a task queue need
                the same one. Default: the store that `OUTLAST_BLOB_STORE` names, if any.
            sessions: SQLite files, or directories of them, that runs may use as their session; a
                `SQLiteSession` created by this process is always allowed.
            worker_options: further options of `temporalio.worker.Worker`.

        Raises:
            UserError: no agents, two agents with one name, or an invalid argument.
        """
        check_client(client, what="AgentWorker(client)")
        queue = cast("object", task_queue)
        if not isinstance(queue, str) or not queue.strip():
            raise UserError(f"task_queue= must be a non-empty string, not {queue!r}.")
        self.task_queue = task_queue
        plugin = OutlastPlugin(
            agents,
            model_provider=model_provider,
            context_types=context_types,
            context=context,
            references=references,
            blob_store=large_content(blob_store, client=client).store,
            sessions=sessions,
        )
        self.registry: Registry = plugin.registry
        plugins = [*worker_options.pop("plugins", []), plugin]
        self._namespace = getattr(client, "namespace", "default")
        with _in_words(task_queue, self._namespace):
            self._worker = Worker(client, task_queue=task_queue, plugins=plugins, **worker_options)

    async def run(self) -> None:
        """Host runs until cancelled or `shutdown` is called.

        Raises:
            UserError: the server has no such namespace.
        """
        with _in_words(self.task_queue, self._namespace):
            await self._worker.run()

    async def shutdown(self) -> None:
        """Stop accepting work, wait a while for running effects, and stop."""
        await self._worker.shutdown()

    async def __aenter__(self) -> Self:
        """Start hosting runs in the background."""
        await self._worker.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop, as `shutdown` does.

        Raises:
            UserError: the server has no such namespace, which ended the block.
        """
        with _in_words(self.task_queue, self._namespace):
            await self._worker.__aexit__(kind, error, trace)


@contextmanager
def _in_words(task_queue: str, namespace: str) -> Generator[None]:
    """Translate the core's refusals of a worker, which only show its call stack."""
    try:
        yield
    except RuntimeError as error:
        said = str(error)
        if "overlapping worker task types" in said:
            raise UserError(
                f"This process already has a worker on the task queue {task_queue!r}. Pass all its "
                "agents to one AgentWorker, or use another task queue or process for each worker."
            ) from None
        if "Worker validation failed" in said and "not found" in said:
            raise UserError(f"The namespace {namespace!r} does not exist on this server.") from None
        raise
