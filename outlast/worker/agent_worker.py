"""A Temporal worker that only hosts runs of agents."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Required, Self, TypedDict

from temporalio.client import Client
from temporalio.converter import PayloadCodec
from temporalio.worker import Interceptor, Worker, WorkerDeploymentConfig

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy_file import ApprovalFile
from outlast.agents.calendars import Calendar
from outlast.agents.checks import check_name
from outlast.agents.context.factories import ContextFactory
from outlast.agents.errors import UserError, no_namespace
from outlast.agents.registry import Registry
from outlast.blobs import large_content
from outlast.contract import names
from outlast.ports.blobs import BlobStore
from outlast.ports.engine import check_client
from outlast.ports.model import ModelProvider
from outlast.ports.notifier import Notifier
from outlast.worker.model_access import places_of_models
from outlast.worker.plugin import OutlastPlugin

if TYPE_CHECKING:  # only workers with an archive load it
    from outlast.archive import Archive


class AgentWorkerConfig(TypedDict, total=False):
    """The arguments of `AgentWorker` as a dict, without the client.

    `outlast worker` and `outlast dev` take a function that returns it. They accept every other
    option of `temporalio.worker.Worker` in it, too.

    Attributes:
        agents: starting agents.
        task_queue: the task queue of the runs.
        model_provider: provides the models.
        context_types: types of run contexts that no callable is annotated with.
        context: creates the live objects of contexts.
        references: callables and objects that runs name in their settings.
        blob_store: the store for large content.
        sessions: SQLite files, or directories of them, that runs may use as their session.
        notifiers: deliver notices about approvals and takeovers.
        codec: encodes and decodes the payloads of runs.
        approvals: a TOML file that changes the approval policies of the code.
        calendars: whose hours count where policies and waits say `within=`.
        archive: keeps histories when the server's retention has passed.
        graceful_shutdown_timeout: how long running effects may take to finish at the end.
        max_concurrent_activities: how many effects may run at once.
        deployment_config: the worker's version.
        interceptors: interceptors of `temporalio.worker`.
    """

    agents: Required[Iterable[Agent[Any]]]
    task_queue: str
    model_provider: ModelProvider | None
    context_types: Iterable[type]
    context: ContextFactory | None
    references: Iterable[object] | Mapping[str, object]
    blob_store: BlobStore | None
    sessions: Iterable[str | Path]
    notifiers: Iterable[Notifier]
    codec: PayloadCodec | None
    approvals: str | Path | None
    calendars: Iterable[Calendar]
    archive: "Archive | str | Path | None"
    graceful_shutdown_timeout: timedelta
    max_concurrent_activities: int | None
    deployment_config: WorkerDeploymentConfig | None
    interceptors: Sequence[Interceptor]


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
        notifiers: Iterable[Notifier] = (),
        codec: PayloadCodec | None = None,
        approvals: str | Path | ApprovalFile | None = None,
        calendars: Iterable[Calendar] = (),
        archive: "Archive | str | Path | None" = None,
        **worker_options: Any,
    ) -> None:
        """Create a worker; it starts when it is entered or run.

        Args:
            client: a connected Temporal client.
            agents: starting agents; the agents that they hand over to are included.
            task_queue: the task queue of the runs.
            model_provider: provides the models; default: `MultiProvider`, by the models' prefixes.
            context_types: types of run contexts that no callable is annotated with.
            context: creates live objects, such as a database pool: a callable, or a dict by field.
            references: callables and objects that runs name in their settings; a dict sets names.
            blob_store: the store for large content, one for all; default: `OUTLAST_BLOB_STORE`'s.
            sessions: SQLite files, or directories of them, that runs may use as their session.
            notifiers: deliver notices about approvals and takeovers; see `outlast.notifications`.
            codec: encodes and decodes the payloads of runs; default: the client's.
            approvals: a TOML file of approval policies; default: that of `OUTLAST_APPROVALS`.
            calendars: whose hours count for `within=`; those of the operators' file come first.
            archive: keeps histories after retention; default: that of `OUTLAST_ARCHIVE`, if any.
            worker_options: further options of `temporalio.worker.Worker`.

        Raises:
            UserError: no agents, two agents with one name, or an invalid argument.
        """
        _check_place(client, task_queue)
        self.task_queue = task_queue
        self._plugin = plugin = OutlastPlugin(
            agents,
            model_provider=model_provider,
            context_types=context_types,
            context=context,
            references=references,
            blob_store=_store(blob_store, client, codec),
            sessions=sessions,
            notifiers=notifiers,
            codec=codec,
            approvals=approvals,
            calendars=calendars,
            archive=archive,
        )
        self.registry: Registry = plugin.registry
        self._namespace = getattr(client, "namespace", "default")
        self._worker = _worker_of(client, task_queue, plugin, worker_options)

    async def check_models(self) -> tuple[str, ...]:
        """Check the keys of the agents' models, and return where the models are.

        Call it before the worker starts, so that no question fails because of a key. A provider
        that does not answer does not count.

        Raises:
            UserError: a key is missing or refused, or a model is unknown; the message says what to
                set.
        """
        plugin = self._plugin
        return await places_of_models(self.registry, plugin.models, plugin.approvals)

    async def run(self) -> None:
        """Host runs until cancelled or `shutdown` is called.

        Raises:
            UserError: the server has no such namespace, or the worker has no identity key and a
                policy needs one.
        """
        await self._plugin.prepare()
        with _in_words(self.task_queue, self._namespace):
            await self._worker.run()

    async def shutdown(self) -> None:
        """Stop accepting work, wait a while for running effects, and stop."""
        await self._worker.shutdown()

    async def __aenter__(self) -> Self:
        """Start hosting runs in the background.

        Raises:
            UserError: the worker has no identity key, and a policy needs one.
        """
        await self._plugin.prepare()
        await self._worker.__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Stop, as `shutdown` does.

        Raises:
            UserError: the server has no such namespace, which ended the block.
        """
        with _in_words(self.task_queue, self._namespace):
            await self._worker.__aexit__(kind, *rest)


def _check_place(client: object, task_queue: object) -> None:
    check_client(client, what="AgentWorker(client)")
    check_name("task_queue=", task_queue)


def _worker_of(
    client: Client, task_queue: str, plugin: OutlastPlugin, options: dict[str, Any]
) -> Worker:
    options["plugins"] = [*options.get("plugins", ()), plugin]
    with _in_words(task_queue, getattr(client, "namespace", "default")):
        return Worker(client, task_queue=task_queue, **options)


def _store(
    blob_store: BlobStore | None, client: Client, codec: PayloadCodec | None
) -> BlobStore | None:
    """Return a worker's store; the local one is not encrypted, so a codec leaves it out."""
    return large_content(blob_store, client=None if codec else client).store


@contextmanager
def _in_words(task_queue: str, namespace: str) -> Generator[None]:
    """Translate the core's refusals of a worker, which only show its call stack."""
    try:
        yield
    except RuntimeError as error:
        text = str(error)
        if "overlapping worker task types" in text:
            raise UserError(
                f"This process already has a worker on the task queue {task_queue!r}. Pass all its "
                "agents to one AgentWorker, or use another task queue or process for each worker."
            ) from None
        if "Worker validation failed" in text and "not found" in text:
            raise no_namespace(namespace) from None
        raise
