"""The Temporal plugin: the workflow, activities, registry, models and worker options."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.plugin import SimplePlugin
from temporalio.worker import (
    Interceptor,
    ReplayerConfig,
    WorkerConfig,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from outlast.activities.boundary import EffectActivities
from outlast.activities.intake import begin_attempts_like_this
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.agent import Agent
from outlast.agents.context.factories import ContextFactory, as_factories
from outlast.agents.errors import UserError
from outlast.agents.registry import Registry
from outlast.blobs import large_content
from outlast.contract import records
from outlast.contract.names import OBSERVER
from outlast.loop.state import LoopState
from outlast.models.multi_provider import MultiProvider
from outlast.payloads.readable import readable
from outlast.ports.blobs import BlobStore
from outlast.ports.interpreter_end import wait_for_native_threads
from outlast.ports.model import ModelProvider
from outlast.ports.session import allow_place
from outlast.tracing.provider import flush_traces
from outlast.tracing.receivers import REGISTRATION
from outlast.tracing.stage_spans import StageSpans
from outlast.worker.attribute_watch import watch_search_attributes
from outlast.worker.failure_lines import log_failures_in_lines
from outlast.worker.worker_options import with_defaults
from outlast.workflows.agent_run import AgentRun

ENDING_SECONDS = 2.0
"""How long a worker may take to end when the program ends."""


class OutlastPlugin(SimplePlugin):
    """Adds runs of agents to a Temporal worker.

        Worker(client, task_queue="support", workflows=[...], plugins=[OutlastPlugin([triage])])

    The worker gets the workflow, the activities, and the options that runs need (streaming, a
    graceful shutdown, quick recovery) unless you have set your own. It adds a dynamic activity for
    tools, so the worker may have no other one.
    """

    def __init__(
        self,
        agents: Iterable[Agent[Any]],
        *,
        model_provider: ModelProvider | None = None,
        context_types: Iterable[type] = (),
        context: ContextFactory | None = None,
        references: Iterable[object] | Mapping[str, object] = (),
        blob_store: BlobStore | None = None,
        sessions: Iterable[str | Path] = (),
    ) -> None:
        """Register agents.

        Args:
            agents: starting agents; the agents that they hand over to are included.
            model_provider: provides the models; default: `MultiProvider`, which chooses by the
                prefix of a model's name, and OpenAI's API without a prefix, configured by
                `OPENAI_API_KEY` and `OPENAI_BASE_URL`. A provider passed here is not closed.
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

        Raises:
            UserError: no agents, two agents with one name, or an invalid argument.
        """
        wait_for_native_threads()
        log_failures_in_lines()
        self.registry = _registry_of(agents)
        _add_context_types(self.registry, context_types)
        self._contexts = as_factories(context)
        self.registry.add_references(references)
        _allow_sessions(sessions)
        _check_provider(model_provider)
        own_provider: MultiProvider | None = None
        provider = model_provider
        if provider is None:
            provider = own_provider = MultiProvider()
        content = large_content(blob_store)
        self._served: list[tuple[Client, str]] = []
        deps = WorkerDeps(
            registry=self.registry,
            models=provider,
            content=content,
            contexts=self._contexts,
        )

        super().__init__(  # pyright: ignore[reportUnknownMemberType]  the SDK's own annotation
            "outlast",
            workflows=[AgentRun],
            activities=EffectActivities(deps).all,
            run_context=lambda: self._run_context(own_provider),
        )

    @contextlib.asynccontextmanager
    async def _run_context(self, own_provider: MultiProvider | None) -> AsyncGenerator[None]:
        """Prepare a worker's process, and close what the worker has opened."""
        begin_attempts_like_this()
        records.adapter(LoopState)  # built now, because it would slow down a workflow task
        ending = asyncio.create_task(_end_surely(asyncio.current_task()))
        watching = [
            asyncio.create_task(watch_search_attributes(client, queue))
            for client, queue in self._served
        ]
        try:
            yield
        finally:
            ending.cancel()
            for one in watching:
                one.cancel()
            try:
                if self._contexts is not None:
                    await self._contexts.aclose()
                await self.registry.release_servers()
                if own_provider is not None:
                    await own_provider.aclose()
            finally:
                if REGISTRATION.active:
                    await asyncio.to_thread(flush_traces)  # sending takes time

    def configure_worker(self, config: WorkerConfig) -> WorkerConfig:
        """Add the options that runs need to a worker's options; options set by the user stay.

        The worker's data converter marks payloads that it cannot decode, instead of failing their
        workflow tasks, and encodes the texts of failures where the client has a codec.
        """
        config = with_defaults(super().configure_worker(config))
        observed = _Observed(StageSpans(self.registry))
        given: list[Interceptor] = [*cast("dict[str, Any]", config).get("interceptors", ())]
        config["interceptors"] = [*given, observed]
        if "client" in config and "task_queue" in config:
            options: dict[str, Any] = {**config["client"].config(active_config=True)}
            options["data_converter"] = readable(options["data_converter"])
            options["plugins"] = []  # the worker has already applied them
            config["client"] = Client(**options)
            self._served = [(config["client"], config["task_queue"])]
        return config

    def configure_replayer(self, config: ReplayerConfig) -> ReplayerConfig:
        """Decode histories as a worker with this plugin does."""
        config = super().configure_replayer(config)
        config["data_converter"] = readable(config.get("data_converter", DataConverter.default))
        return config


class _Observed(Interceptor):
    """Gives the worker's workflows their observer of stages."""

    def __init__(self, observer: StageSpans) -> None:
        self._observer = observer

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: A002  as in the base class
    ) -> type[WorkflowInboundInterceptor] | None:
        """Add the observer; nothing is intercepted."""
        input.unsafe_extern_functions[OBSERVER] = self._observer  # pyright: ignore[reportUnknownMemberType]  the SDK's own annotation
        return None


def _registry_of(agents: Iterable[Agent[Any]]) -> Registry:
    given = cast("object", agents)
    if isinstance(given, Agent | str) or not isinstance(given, Iterable):
        shown = repr(given) if isinstance(given, str) else type(cast("object", given)).__name__
        raise UserError(f"agents= must be a list of agents, not {shown}: agents=[my_agent].")
    registry = Registry(agents)
    if not registry.names:
        raise UserError("A worker needs at least one agent: agents=[my_agent].")
    return registry


def _add_context_types(registry: Registry, given: object) -> None:
    if isinstance(given, type) or not isinstance(given, Iterable):
        raise UserError(f"context_types= must be a list of classes, not {given!r}.")
    for one in cast("Iterable[object]", given):
        if not isinstance(one, type):
            raise UserError(f"context_types= holds {one!r}: pass the class itself.")
        registry.add_context_type(one)


def _allow_sessions(places: object) -> None:
    if isinstance(places, str | Path) or not isinstance(places, Iterable):
        raise UserError(f"sessions= must be a list of files or directories, not {places!r}.")
    for place in cast("Iterable[object]", places):
        if not isinstance(place, str | Path):
            raise UserError(f"sessions= holds {place!r}: pass the path of a file or directory.")
        allow_place(place)


def _check_provider(given: object) -> None:
    if given is not None and (
        isinstance(given, type) or not callable(getattr(given, "get_model", None))
    ):
        raise UserError(
            "model_provider= must be an object with get_model, such as OpenAIProvider(), "
            f"not {given!r}."
        )


async def _end_surely(run: asyncio.Task[Any] | None) -> None:
    """Cancel a worker's task a second time, should it not end when everything is cancelled.

    A program may end without stopping its worker. `asyncio.run` then cancels all tasks at once,
    the worker's own helpers with it, and the worker may wait for one of them for ever.
    """
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        if run is not None and run.cancelling():
            await asyncio.wait([run], timeout=ENDING_SECONDS)
            run.cancel()
        raise
