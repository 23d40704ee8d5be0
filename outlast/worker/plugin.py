"""The Temporal plugin, with the workflow, activities, models and worker options."""

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Coroutine, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from temporalio import workflow
from temporalio.client import Client
from temporalio.converter import DataConverter, PayloadCodec
from temporalio.plugin import SimplePlugin
from temporalio.worker import (
    Interceptor,
    ReplayerConfig,
    UnsandboxedWorkflowRunner,
    WorkerConfig,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from outlast.activities.boundary import EffectActivities
from outlast.activities.heartbeats.fallback_poller import begin_attempts_like_this
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.agent import Agent
from outlast.agents.approval_points import (
    approval_points,
    check_calendars,
    unproven_policies,
)
from outlast.agents.approvals.policy_file import ENVIRONMENT_VARIABLE, ApprovalFile
from outlast.agents.calendars import Calendar
from outlast.agents.context import wait_urls
from outlast.agents.context.factories import ContextFactory, as_factories
from outlast.agents.errors import UserError, as_user_error
from outlast.agents.logs import get_logger
from outlast.agents.registry import Registry
from outlast.agents.run_objects import RUN_OBJECTS, RunKey
from outlast.blobs import large_content
from outlast.contract import records
from outlast.contract.delivery_proofs import delivery_proof_problem
from outlast.contract.identity import (
    KEY_VARIABLE,
    PUBLIC_KEYS_VARIABLE,
    IdentityKeyError,
    Place,
    Signable,
    keys_from_environment,
    proof_problem,
)
from outlast.contract.names import OBSERVER, UPDATE_ATTACH_LINE, VERIFIER, WORKER_STATE
from outlast.contract.policies import ARCHIVE_VARIABLE, MODEL_PATIENCE, MODEL_PATIENCE_VARIABLE
from outlast.contract.stages import StageChange
from outlast.edges.clock import now_ms
from outlast.loop.actions import DeliverRecord
from outlast.loop.state import LoopState
from outlast.models.multi_provider import MultiProvider
from outlast.ports.blobs import BlobStore
from outlast.ports.identity import WorkerIdentity
from outlast.ports.model import ModelProvider
from outlast.ports.notifier import Notifier
from outlast.temporal.payloads.readable import readable
from outlast.tracing.origin import remember_tenant
from outlast.tracing.receivers import REGISTRATION, SETTLE_SECONDS, WORKER_END_SECONDS
from outlast.tracing.stage_spans import StageSpans
from outlast.worker.attribute_watch import watch_search_attributes
from outlast.worker.model_access import check_following_models
from outlast.worker.worker_options import with_defaults
from outlast.worker.workflow_runner import PatientRunner, encodes_by_context
from outlast.workflows.agent_run import AgentRun
from outlast.workflows.details import Details
from outlast.workflows.errand import Errand
from outlast.workflows.people_notices import PeopleNotices
from outlast.workflows.scheduled_message import QualityCheck, ScheduledMessage
from outlast.workflows.team import Team

if TYPE_CHECKING:  # only workers with an archive load it
    from outlast.archive import Archive

logger: Final = get_logger(__name__)

ENDING_SECONDS = 2.0
"""How long a worker may take to end when the program ends."""


class OutlastPlugin(SimplePlugin):
    """Adds runs of agents to a Temporal worker.

        Worker(client, task_queue="support", workflows=[...], plugins=[OutlastPlugin([triage])])

    The worker gets the workflow, the activities, and the options that runs need (streaming, a
    graceful shutdown, quick recovery) unless you have set your own. It adds a dynamic activity for
    tools, so the worker may have no other one.
    """

    _client: Client | None = None
    _task_queue = ""

    def __init__(  # noqa: PLR0913  the options of a worker
        self,
        agents: Iterable[Agent[Any]],
        *,
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
    ) -> None:
        """Register agents.

        Args:
            agents: starting agents; the agents that they hand over to are included.
            model_provider: provides the models, and is not closed; default: `MultiProvider`.
            context_types: types of run contexts that no callable is annotated with.
            context: creates the live objects of contexts: a callable that takes the data as JSON, or
                a dict of callables by field. Generators may close the objects after their `yield`.
            references: objects that runs name in their settings; a dict sets names.
            blob_store: the store for large content, one for all; default: `OUTLAST_BLOB_STORE`'s.
            sessions: SQLite files, or directories of them, that runs may use as their session.
            notifiers: deliver notices about approvals and takeovers.
            codec: encodes and decodes the payloads of runs; default: the client's.
            approvals: a TOML file of approval policies; default: that of `OUTLAST_APPROVALS`.
            calendars: whose hours count for `within=`; those of the operators' file come first.
            archive: keeps histories after retention; default: that of `OUTLAST_ARCHIVE`, if any.

        Raises:
            UserError: no agents, two with one name, an unknown calendar, or an invalid argument.
        """
        _prepare_process(sessions)
        self.registry: Registry = _registry_of(agents, context_types, references)
        self.models: ModelProvider = _checked_provider(model_provider) or MultiProvider()
        self._codec, self._archive = _checked_codec(codec), _checked_archive(archive)
        self._identity = WorkerIdentity()
        self._deps = WorkerDeps(
            registry=self.registry,
            models=self.models,
            content=large_content(blob_store),
            contexts=as_factories(context),
            approvals=_approvals_of(approvals, self.registry),
            calendars=_checked_calendars(calendars),
            notifiers=_checked_notifiers(notifiers),
            model_patience=_model_patience(agents),
            identity=self._identity,
            hosts_runs=isinstance(agents, Registry),
        )
        _check_and_tell(self._deps)
        super().__init__(  # pyright: ignore[reportUnknownMemberType]  the SDK's own annotation
            "outlast",
            workflows=[AgentRun, PeopleNotices, ScheduledMessage, Errand, Team, QualityCheck],
            activities=EffectActivities(self._deps).all,
            run_context=lambda: self._run_context(model_provider is None, _flush_seconds(agents)),
        )

    @property
    def approvals(self) -> ApprovalFile | None:
        """The operators' file."""
        return self._deps.approvals

    async def prepare(self) -> None:
        """Check the models that follow, and find the worker's keys, before it takes work.

        Raises:
            UserError: a model is unknown; a key is unusable; or a policy needs proof of who
                decides, and the worker has no key to check it with.
        """
        check_following_models(self.registry, self.models, self.approvals)
        note_keys = wait_urls.keys_from_environment()
        self._identity.note_keys = () if note_keys is None else note_keys.keys
        self._identity.takes_unsigned_notes = wait_urls.takes_unsigned_notes()
        if self._client is None:
            return
        from outlast.temporal.proofs import ServerLineage, identity_keys

        self._identity.lineage = ServerLineage(self._client)
        self._identity.keys = await identity_keys(self._client)
        if not self._identity.keys:
            needed = unproven_policies(self.registry, self.approvals)
            if needed:
                raise UserError(
                    f"{needed[0]} needs proof of who decides, but this worker has no identity key "
                    f"to check it with. Set {PUBLIC_KEYS_VARIABLE} (or {KEY_VARIABLE}), or write "
                    "unverified='allow' in the policy."
                )

    @contextlib.asynccontextmanager
    async def _run_context(
        self,
        closes_models: bool,  # noqa: FBT001  one caller
        flush_seconds: float,
    ) -> AsyncGenerator[None]:
        """Prepare a worker's process, and close the worker's resources."""
        from outlast.worker.sdk_parts import meter_of, report_misfits

        await self.prepare()
        report_misfits(meter_of(self._client))
        begin_attempts_like_this()
        records.adapter(LoopState)  # built now, because it would slow down a workflow task
        ending = asyncio.create_task(_end_surely(asyncio.current_task()))
        watching = [asyncio.create_task(one) for one in self._watches()]
        try:
            yield
        finally:
            for one in (ending, *watching):
                one.cancel()
            try:
                if self._deps.contexts is not None:
                    await self._deps.contexts.aclose()
                await self.registry.release()
                if closes_models:
                    await self.models.aclose()
            finally:
                await REGISTRATION.flushed(flush_seconds)

    def _watches(self) -> Iterable[Coroutine[Any, Any, None]]:
        """Yield what runs beside the worker until it ends."""
        if self._client is not None:
            yield watch_search_attributes(self._client, self._deps.state)
            if self._archive is not None:
                from outlast.worker.archiver import archive_histories

                yield archive_histories(self._client, self._archive, self._task_queue)

    def configure_worker(self, config: WorkerConfig) -> WorkerConfig:
        """Add the options that runs need; options set by the user stay.

        The worker's data converter marks payloads that it cannot decode, instead of failing their
        workflow tasks, and encodes the texts of failures where the client has a codec.
        """
        config = with_defaults(super().configure_worker(config))
        observed = _Observed(self._deps, self._identity)
        interceptors: list[Interceptor] = [*cast("dict[str, Any]", config).get("interceptors", ())]
        config["interceptors"] = [*interceptors, observed]
        if "client" in config and "task_queue" in config:
            if self._archive is not None:
                from outlast.archive import use_archive

                use_archive(config["client"], self._archive)
            options: dict[str, Any] = {**config["client"].config(active_config=True)}
            options["data_converter"] = readable(self._converter(options["data_converter"]))
            runner = cast("dict[str, Any]", config).get("unsandboxed_workflow_runner")
            if isinstance(runner, PatientRunner):
                has_contexts = encodes_by_context(options["data_converter"])
                config["unsandboxed_workflow_runner"] = PatientRunner(has_contexts=has_contexts)
            options["plugins"] = []  # the worker has already applied them
            config["client"] = Client(**options)
            self._client, self._task_queue = config["client"], config["task_queue"]
        return config

    def configure_replayer(self, config: ReplayerConfig) -> ReplayerConfig:
        """Decode histories as a worker with this plugin does."""
        config = super().configure_replayer(config)
        converter = config.get("data_converter", DataConverter.default)
        config["data_converter"] = readable(self._converter(converter))
        if type(config.get("unsandboxed_workflow_runner")) is UnsandboxedWorkflowRunner:
            config["unsandboxed_workflow_runner"] = PatientRunner()
        return config

    def _converter(self, converter: DataConverter) -> DataConverter:
        return converter if self._codec is None else replace(converter, payload_codec=self._codec)


class _Observed(Interceptor):
    def __init__(self, worker: WorkerDeps, identity: WorkerIdentity) -> None:
        self._worker = worker
        self._identity = identity

    def _proof_problem(self, action: str, record: Signable, place: Place) -> str | None:
        """Return why an action's proof does not count, or None; never called in a replay."""
        if not self._identity.keys and action == UPDATE_ATTACH_LINE:
            return None
        if isinstance(record, DeliverRecord):
            return delivery_proof_problem(record, place, self._identity.keys, at_ms=now_ms())
        return proof_problem(record, place, self._identity.keys, now_ms=now_ms(), action=action)

    def _observe(self, state: LoopState, changes: tuple[StageChange, ...]) -> None:
        if REGISTRATION.active:
            info = workflow.info()
            tenant = info.priority.fairness_key or ""
            remember_tenant(info.run_id, tenant)
            spans = StageSpans(
                self._worker.definitions_of(info.namespace, info.run_id, info.workflow_id)
            )
            spans(state, changes, execution=info.run_id, tenant=tenant)

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: A002  as in the base class
    ) -> type[WorkflowInboundInterceptor]:
        """Lend the workflow what it may use, and add the interceptor of queries."""
        lent: dict[str, Any] = cast("Any", input).unsafe_extern_functions
        lent[VERIFIER] = self._proof_problem
        lent[OBSERVER] = self._observe
        lent[WORKER_STATE] = self._worker.state
        return Details


def _check_and_tell(worker: WorkerDeps) -> None:
    """Check that the worker has the calendars of its policies, and be told when a run ends.

    Raises:
        UserError: a calendar is unknown, or a duration does not end in its hours.
    """
    check_calendars(worker.registry, worker.approvals, worker.calendars)
    worker.state.on_end = _forget_objects


def _forget_objects(namespace: str, chain_id: str) -> None:
    RUN_OBJECTS.has_ended(RunKey(namespace, chain_id))


def _prepare_process(sessions: object) -> None:
    _allow_sessions(sessions)
    from outlast.edges.interpreter_end import wait_for_native_threads
    from outlast.worker.failure_lines import log_failures_in_lines

    wait_for_native_threads()
    log_failures_in_lines()
    with as_user_error(IdentityKeyError):
        keys_from_environment()


def _approvals_of(
    setting: str | Path | ApprovalFile | None, registry: Registry
) -> ApprovalFile | None:
    """Return the operators' policies, compared with the agents.

    Those of a program that hosts its own runs come as they are: its agents are not known yet.
    """
    if isinstance(setting, ApprovalFile):
        return setting
    place = setting or os.environ.get(ENVIRONMENT_VARIABLE)
    if not place:
        return None
    file = ApprovalFile.load(place)
    for warning in file.check(approval_points(registry)).warnings:
        logger.warning("%s", warning)
    return file


def _model_patience(agents: Iterable[Agent[Any]] | Registry) -> timedelta | None:
    """Return how long a failing model is retried in a program that hosts its own runs."""
    if not isinstance(agents, Registry):
        return None
    text = os.environ.get(MODEL_PATIENCE_VARIABLE, "")
    try:
        return timedelta(seconds=max(float(text), 0.0)) if text else MODEL_PATIENCE
    except (ValueError, OverflowError):
        raise UserError(
            f"{MODEL_PATIENCE_VARIABLE}={text!r} must be a number of seconds, such as 300."
        ) from None


def _flush_seconds(agents: Iterable[Agent[Any]] | Registry) -> float:
    """Return how long the end of the worker waits for trace processors.

    A program that hosts its own runs goes on after its worker, which ends with each `run_sync`.
    """
    return SETTLE_SECONDS if isinstance(agents, Registry) else WORKER_END_SECONDS


def _registry_of(
    agents: Iterable[Agent[Any]] | Registry,
    context_types: object,
    references: Iterable[object] | Mapping[str, object],
) -> Registry:
    registry = agents if isinstance(agents, Registry) else _registered(agents)
    _add_context_types(registry, context_types)
    registry.add_references(references)
    return registry


def _registered(agents: Iterable[Agent[Any]]) -> Registry:
    value = cast("object", agents)
    if isinstance(value, Agent | str) or not isinstance(value, Iterable):
        shown = repr(value) if isinstance(value, str) else type(cast("object", value)).__name__
        raise UserError(f"agents= must be a list of agents, not {shown}: agents=[my_agent].")
    registry = Registry(agents)
    if not registry.names:
        raise UserError("A worker needs at least one agent: agents=[my_agent].")
    return registry


def _add_context_types(registry: Registry, kinds: object) -> None:
    for kind in _listed("context_types", kinds, type, "classes", "the class itself"):
        registry.add_context_type(kind)


def _listed(name: str, entries: object, kind: Any, of: str, instead: str) -> list[Any]:
    """Return the entries of a list that a program passed, or say what is wrong with it."""
    if isinstance(entries, str | kind) or not isinstance(entries, Iterable):
        raise UserError(f"{name}= must be a list of {of}, not {entries!r}.")
    listed = list(cast("Iterable[object]", entries))
    for one in listed:
        if not isinstance(one, kind):
            raise UserError(f"{name}= holds {one!r}: pass {instead}.")
    return listed


def _allow_sessions(places: object) -> None:
    path = "the path of a file or directory"
    if listed := _listed("sessions", places, str | Path, "files or directories", path):
        from outlast.sessions.described import allow_place

        for place in listed:
            allow_place(place)


def _checked_notifiers(notifiers: object) -> tuple[Notifier, ...]:
    own = "objects of outlast.notifications, or of your own subclass of Notifier"
    checked: dict[str, Notifier] = {}
    for one in _listed("notifiers", notifiers, Notifier, "notifiers", own):
        name = cast("object", getattr(one, "name", None))
        if not isinstance(name, str) or not name:
            raise UserError(f"The notifier {one!r} needs a name: set its attribute `name`.")
        if name in checked:
            raise UserError(
                f"Two notifiers have the name {name!r}. Give each its own, such as name='{name}-2'."
            )
        checked[name] = one
    return tuple(checked.values())


def _checked_calendars(calendars: object) -> dict[str, Calendar]:
    own = "a Calendar, such as Calendar('support-hours', zone='Europe/Berlin', hours={...})"
    checked: dict[str, Calendar] = {}
    for one in _listed("calendars", calendars, Calendar, "calendars", own):
        if one.name in checked:
            raise UserError(f"Two calendars have the name {one.name!r}. Give each its own.")
        checked[one.name] = one
    return checked


def _checked_provider(provider: ModelProvider | None) -> ModelProvider | None:
    if provider is not None and (
        isinstance(provider, type) or not callable(getattr(provider, "get_model", None))
    ):
        raise UserError(
            "model_provider= must be an object with get_model, such as OpenAIProvider(), "
            f"not {provider!r}."
        )
    return provider


def _checked_archive(archive: object) -> "Archive | None":
    """Return the archive for an argument, or that of the environment.

    Raises:
        UserError: there is no such archive.
    """
    if archive is None and not os.environ.get(ARCHIVE_VARIABLE):
        return None
    from outlast.archive import Archive, archive_from_environment

    if archive is None:
        return archive_from_environment()
    return archive if isinstance(archive, Archive) else Archive(cast("Any", archive))


def _checked_codec(codec: object) -> PayloadCodec | None:
    if codec is not None and not isinstance(codec, PayloadCodec):
        raise UserError(f"codec= must be a PayloadCodec object, not {codec!r}.")
    return codec


async def _end_surely(run: asyncio.Task[Any] | None) -> None:
    """Cancel a worker's task again if it does not end when everything is cancelled.

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
