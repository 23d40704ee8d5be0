"""Starts runs, and resumes runs that wait."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property, partial
from typing import Any, TypeAlias, Unpack, cast

from temporalio.client import Client, WorkflowExecutionDescription, WorkflowHandle
from temporalio.common import Priority, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.agent import Agent
from outlast.agents.checks import with_checked_arguments
from outlast.agents.errors import RunAlreadyStarted, RunClosed, UserError, no_namespace
from outlast.agents.run_objects import RUN_OBJECTS
from outlast.client.handle import RunHandle
from outlast.client.read.delta_poller import RawEvent
from outlast.client.read.read_range import ReadRange
from outlast.client.read.streaming import RunResultStreaming
from outlast.client.results.local_definitions import LocalDefinitions, RemoteAgent
from outlast.client.results.run_result import RunResult
from outlast.client.results.run_state import ENGINE, RunState, is_list_input
from outlast.client.start.following import followed
from outlast.client.start.missing_worker import warned_without_worker
from outlast.client.start.options import (
    Placed,
    RunOptions,
    agent_name,
    check_names,
    check_place,
    run_input,
    start_options,
)
from outlast.client.start.resumed_settings import PassedSettings
from outlast.client.start.resumption import resume
from outlast.client.start.run_host import RunHost
from outlast.client.start.same_run import difference, recorded_digest, start_digest
from outlast.client.start.tenant import Tenant, as_tenant
from outlast.client.start.thread_loop import thread_loop
from outlast.client.transport.connection import with_search_attributes
from outlast.client.transport.content import with_content_stored
from outlast.client.transport.executions import first_of, started_payload
from outlast.client.transport.outages import is_transient, retry_during_outage, unavailable
from outlast.client.transport.run_address import RunAddress, check_size
from outlast.contract import names, records
from outlast.edges.rendering import engine_summary, excerpt
from outlast.loop.actions import CancelMode
from outlast.loop.values import DEFAULT_MAX_TURNS, JsonObject
from outlast.ports.blobs import BlobStore, check_blob_store
from outlast.ports.engine import pause_engine
from outlast.ports.session import is_open, open_session
from outlast.temporal.payloads.attributes import first_attributes, listed_customer
from outlast.tracing.provider import join_current_trace
from outlast.views.run import RunSnapshot


class AgentRunner:
    """Carries out the calls of `Runner`.

    A subclass can do something around every run of a program: it overrides `run`, calls
    `super().run(...)`, and is set with `set_default_agent_runner`. The run itself is the workflow
    in any case, so `Runner.start` and runs hosted elsewhere are not affected.
    """

    async def run(
        self,
        starting_agent: Agent[Any] | RemoteAgent | str,
        input: str | list[JsonObject] | RunState,
        **options: Unpack[RunOptions],
    ) -> RunResult:
        """Carry out `Runner.run`."""
        check_names(options, RunOptions, caller="Runner.run")
        call = _Call(starting_agent, input, options)
        with call.host() as host:
            handle, read_range = await call.open(host)
            async with warned_without_worker(handle):
                result = await handle.wait_until_settled(
                    read_range.settles, without=read_range.without
                )
            host.release(ended=not result.snapshot.is_open)
            return result

    def run_sync(
        self,
        starting_agent: Agent[Any] | RemoteAgent | str,
        input: str | list[JsonObject] | RunState,
        **options: Unpack[RunOptions],
    ) -> RunResult:
        """Carry out `Runner.run_sync`, with this object's `run`."""
        # Not in an `except`, or the run's errors would have "no running event loop" as context.
        if _is_in_loop():
            raise RuntimeError(
                "Runner.run_sync cannot be used in async code: await Runner.run(...)."
            )
        loop = thread_loop()
        try:
            return loop.run(self.run(starting_agent, input, **options))
        finally:
            loop.run(pause_engine())

    def run_streamed(
        self,
        starting_agent: Agent[Any] | RemoteAgent | str,
        input: str | list[JsonObject] | RunState,
        *,
        keep_open: bool = False,
        **options: Unpack[RunOptions],
    ) -> RunResultStreaming:
        """Carry out `Runner.run_streamed`."""
        check_names(options, RunOptions, caller="Runner.run_streamed")
        if not isinstance(input, RunState):
            # Raise errors here, and read the input once, before the caller can change it.
            record = run_input(starting_agent, input, keep_open=keep_open, **start_options(options))
            input = record.input  # noqa: A001  the argument's name
        if not _is_in_loop():
            raise RuntimeError(
                "Runner.run_streamed needs a running event loop: call it in async code."
            )
        call = _Call(starting_agent, input, options, keep_open=keep_open, stream=True)
        host = call.host()
        return RunResultStreaming(
            RunReading(lambda: call.open(host), at_end=host.end_reading, run_id=call.run_id),
            starting_agent=RemoteAgent(starting_agent)
            if isinstance(starting_agent, str)
            else starting_agent,
            run_input=[] if isinstance(input, RunState) else input,
            definitions=call.definitions,
            max_turns=options.get("max_turns", DEFAULT_MAX_TURNS),
        )


_RUNNERS: list[AgentRunner] = []
"""The program's own runner, if it has set one."""

_RUNNER = AgentRunner()


def set_default_agent_runner(runner: AgentRunner | None) -> None:
    """Set the object that carries out the calls of `Runner`; None sets outlast's own."""
    if runner is not None and not isinstance(cast("object", runner), AgentRunner):
        raise UserError(
            f"set_default_agent_runner(...) takes an object of a subclass of AgentRunner, not {runner!r}."
        )
    _RUNNERS[:] = [] if runner is None else [runner]


def get_default_agent_runner() -> AgentRunner:
    """Return the object that carries out the calls of `Runner`."""
    return _RUNNERS[0] if _RUNNERS else _RUNNER


class Runner(Placed):
    """Starts runs and finds them again.

    Without a client, runs go to the server of Temporal's environment configuration; without a
    configuration, to an embedded server, which is started, or joined if one runs. A worker in this
    process then hosts an agent passed as an `Agent`; workers elsewhere host an agent passed by
    name. With a client, the workers of `task_queue` always host the runs. `using` sets the client
    and the task queue for all calls of a program.
    """

    @classmethod
    @with_checked_arguments
    async def run(
        cls,
        starting_agent: Agent[Any] | RemoteAgent | str,
        input: str | list[JsonObject] | RunState,
        **options: Unpack[RunOptions],
    ) -> RunResult:
        """Run an agent, and wait for the answer, or until a person has to decide.

        The same id and input resume the same run, also in another process after a crash; a
        completed run returns its answer again. Context, tenant, customer and session have to be
        the same, too. With a `RunState`, the decisions are sent to the
        waiting run, which has its own settings and turn count, and reading continues. Its settings
        may be passed again; others are refused. `RunOptions` describes the options.

        Cancelling this call, as `asyncio.wait_for` does, ends the wait and not the run. To end both,
        use `start`, wait with `handle.wait_for_people()`, and call `handle.cancel()` on a time-out.

        Raises:
            AgentsException: the run failed; the subclass says why.
            UserError: an argument does not fit.
        """
        options = cls._with_defaults(options)
        return await get_default_agent_runner().run(starting_agent, input, **options)

    @classmethod
    @with_checked_arguments
    def run_sync(
        cls,
        starting_agent: Agent[Any] | RemoteAgent | str,
        input: str | list[JsonObject] | RunState,
        **options: Unpack[RunOptions],
    ) -> RunResult:
        """Like `run`, for programs without an event loop.

        All calls of a thread share one event loop, which stays open until the thread ends, so that
        the program's own clients and connections work across calls. The loop is the thread's
        default loop, if the program has set one. It does not run between calls.

        Raises:
            RuntimeError: an event loop is running in this thread: await `run` there.
            AgentsException: as for `run`.
        """
        options = cls._with_defaults(options)
        return get_default_agent_runner().run_sync(starting_agent, input, **options)

    @classmethod
    @with_checked_arguments
    def run_streamed(
        cls,
        starting_agent: Agent[Any] | RemoteAgent | str,
        input: str | list[JsonObject] | RunState,
        *,
        keep_open: bool = False,
        **options: Unpack[RunOptions],
    ) -> RunResultStreaming:
        """Start a run in the background and return a result that streams its events.

        The same run as with `run`, with streamed model calls:
        `async for event in result.stream_events()`. With `keep_open`, it stays open after the answer,
        as with `start`; the events end with the first answer.

        Raises:
            UserError: an argument does not fit.
            RuntimeError: no event loop is running in this thread.
        """
        options = cls._with_defaults(options)
        return get_default_agent_runner().run_streamed(
            starting_agent, input, keep_open=keep_open, **options
        )

    @classmethod
    @with_checked_arguments
    async def start(
        cls,
        agent: Agent[Any] | RemoteAgent | str,
        input: str | list[JsonObject],
        *,
        keep_open: bool = False,
        stream: bool = False,
        message_id: str | None = None,
        follows: str | None = None,
        **options: Unpack[RunOptions],
    ) -> RunHandle:
        """Start a run and return at once.

        Args:
            agent: the agent, or its name.
            input: a text, or Responses items.
            keep_open: stay open after the answer and accept further messages; `max_turns` then
                applies to each answer.
            stream: stream all model calls, so that readers get the text while it is written.
            message_id: the id of the first message, for `RunHandle.send` to know it; default:
                `start`. It does not tell runs apart.
            follows: the id of a conversation that has ended, and that this one follows: `support-17.2`
                follows `support-17`, which is its default id. It has the customer and the tenant of
                that one, and whoever may open that one may open this one.
            **options: as for `run`. If a run of the same agent with the same input already uses the
            id, that run is returned.

        Raises:
            RunAlreadyStarted: a run with another agent, input, context, tenant, customer or
                session uses the id.
            UserError: the context is not data, or an argument does not fit.
            ServerUnavailable: no Temporal server answers.
        """
        options = cls._with_defaults(options)
        call = _Call(agent, input, options, keep_open, stream, message_id, follows)
        with call.host() as host:
            return await call.begin(host, input)

    @classmethod
    @with_checked_arguments
    async def attach(
        cls,
        id: str,
        *,
        agent: Agent[Any] | None = None,
        first_execution_id: str | None = None,
        client: Client | None = None,
        patience: timedelta | None = None,
        blob_store: BlobStore | None = None,
    ) -> RunHandle:
        """Return a handle on the newest run with an id, started before, here or elsewhere.

        The handle stays on that run, also when another one uses the id later. With the
        `first_execution_id` that the handle of the start had, it is that run in any case: who may
        start runs may have started another one under the id since.

        With the agent that the run was started with, results have agents and answers as objects, and
        the run is hosted here, as with `run`. `RunOptions` describes the other options.

        Raises:
            RunNotFound: there is no such run.
            UserError: an argument does not fit.
        """
        place = RunOptions(client=client, patience=patience, blob_store=blob_store)
        options = cls._with_defaults(place)
        check_place(id or "", options.get("client"))
        with _Call(agent, "", options).host() as host:
            handle = await host.handle(id, LocalDefinitions(agent))
            if first_execution_id is not None:
                handle = handle.pinned(first_execution_id)
            description = await handle.check()
            handle = handle.pinned(first_of(description))
            await host.follow(handle, description, attaches=True)
            return handle


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@dataclass(eq=False)
class RunReading:
    """Opens a run when it is first read, and reads it live.

    At the end, `at_end` gets the state in which the run settled, or None if it did not.
    """

    open_run: Callable[[], Awaitable[tuple[RunHandle, ReadRange]]]
    at_end: Callable[[RunSnapshot | None], None] | None = None
    run_id: str = ""
    client: Any = field(default=None, init=False)
    _run: RunHandle | None = field(default=None, init=False)
    _tried: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    @property
    def first_execution_id(self) -> str | None:
        """The run's first execution; None until the run is open."""
        return self._run.first_execution_id if self._run is not None else None

    async def states(self) -> AsyncGenerator[RunSnapshot | RawEvent]:
        """Yield the states of the run, beginning with the first of the range."""
        settled: RunSnapshot | None = None
        try:
            try:
                self._run, read_range = await self.open_run()
                self.client = self._run.kept_client
            finally:
                self._tried.set()
            last: RunSnapshot | None = None
            async with aclosing(self._run.read_states(read_range)) as progress:
                async for step in progress:
                    last = step if isinstance(step, RunSnapshot) else last
                    yield step
            settled = last
        finally:
            if self.at_end is not None:
                self.at_end(settled)

    async def cancel(self, mode: CancelMode) -> None:
        """Stop the run once it is open. A run that has ended stays as it is."""
        await self._tried.wait()
        if self._run is not None:
            with suppress(RunClosed):
                await self._run.cancel(mode)


@dataclass(frozen=True)
class _Call:
    agent: Any
    input: str | list[JsonObject] | RunState
    options: RunOptions
    keep_open: bool = False
    stream: bool = False
    message_id: str | None = None
    follows: str | None = None

    @cached_property
    def definitions(self) -> LocalDefinitions:
        agent_name(self.agent)
        earlier = self.input.definitions if isinstance(self.input, RunState) else None
        return LocalDefinitions(
            self.agent,
            run_config=self.options.get("run_config"),
            context=self._context,
            context_type=earlier and earlier.context_type,
            program_context=earlier and earlier.program_context,
            make_context=earlier and earlier.make_context,
            input_is_list=is_list_input(self.input),
        )

    @property
    def _context(self) -> Any:
        context = self.options.get("context")
        if context is None and isinstance(self.input, RunState):
            return self.input.context_override
        return context

    @cached_property
    def run_id(self) -> str:
        """The id of the run, or of the new run."""
        if isinstance(self.input, RunState):
            return self.input.run_id
        return self.options.get("id") or f"run-{secrets.token_hex(6)}"

    def host(self) -> RunHost:
        client, store = self.options.get("client"), self.options.get("blob_store")
        check_place(self.options.get("id"), client, self.options.get("task_queue"), is_new=True)
        as_tenant(self.options.get("tenant"))  # raises its errors before anything is sent
        if client is None and isinstance(self.input, RunState) and self.input.client != ENGINE:
            client = self.input.client
        check_blob_store(store)
        return RunHost(
            self.agent,
            client,
            self.options.get("task_queue"),
            None if self.agent is None else self.definitions.program_context,
            self.options.get("patience"),
            blob_store=store,
        )

    async def open(self, host: RunHost) -> tuple[RunHandle, ReadRange]:
        """Start a run, or send a waiting run its decisions; return the range to read."""
        if isinstance(self.input, RunState):
            handle = await host.handle(self.input.run_id, self.definitions)
            if self.input.first_execution_id:
                handle = handle.pinned(self.input.first_execution_id)
            is_stored = self.input.is_stored
            follow = partial(host.follow, handle, resumes=not is_stored, attaches=is_stored)
            references = host.objects.references
            passed = PassedSettings(self.agent, self.options, references, self.keep_open)
            return handle, await resume(
                handle, self.input, context=self._context, passed=passed, follow=follow
            )
        handle = await self.begin(host, self.input)
        if self.options.get("id") is None:
            return handle, ReadRange()
        _, place = await handle.present()  # a run with this id may have waited and resumed before
        return handle, ReadRange(settles=place)

    async def begin(self, host: RunHost, input: str | list[JsonObject]) -> RunHandle:
        """Start the run, unless it is there already."""
        definitions = self.definitions
        is_new_session = not is_open(self.options.get("session"))
        await open_session(self.options.get("session"))
        record = run_input(
            self.agent,
            input,
            references=host.objects.references,
            keep_open=self.keep_open,
            stream=self.stream,
            **start_options(self.options),
        )
        record = replace(record, settings=join_current_trace(record.settings))
        if self.message_id is not None:
            record = replace(record, message_id=self.message_id)
        run_id, tenant, base = self.run_id, as_tenant(self.options.get("tenant")), ""
        handle = await host.handle(run_id, definitions)
        if self.follows is not None:
            earlier = await followed(handle.client, self.follows, host.patience)
            record, tenant = earlier.owned(record, tenant)
            run_id, base = earlier.checked_id(self.options.get("id")), earlier.base
            handle = await host.handle(run_id, definitions)
        # From the moment that this process serves the queue until the run has its objects.
        with RUN_OBJECTS.starting(handle.client.namespace, run_id):
            new = NewRun(
                id=run_id,
                record=record,
                queue=await host.queue(),
                tenant=tenant,
                program=self.options.get("program") or "",
                base=base,
                is_new_session=is_new_session,
            )
            first, there = await _start(handle.client, new, host)
            handle = handle.pinned(first)
            if there is not None:
                await host.take_over(handle, there)
        if there is not None:
            await host.catch_up(handle, there)
        return handle


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run to start. A new session got its id for this start.

    `base` is the first of the conversations that it follows; empty if it follows none.
    """

    id: str
    record: records.RunInput
    queue: str
    tenant: Tenant | None
    program: str = ""
    is_new_session: bool = False
    base: str = ""

    @property
    def digest(self) -> str:
        """Tells whether another start means the same run."""
        return start_digest(self.record, self.tenant, is_new_session=self.is_new_session)


async def _start(
    client: Client, run: NewRun, host: RunHost
) -> tuple[str, WorkflowExecutionDescription | None]:
    """Start a run, unless it is there already.

    Returns:
        The first execution of the run, and the server's description of a run that was there.
    """
    reuse = WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY
    try:
        return await start_run(client, run, reuse, host.patience, host.has_begun), None
    except WorkflowAlreadyStartedError:
        there = await _same_run(client, run, host.patience)
    if there is not None:
        return first_of(there), there
    reuse = WorkflowIDReusePolicy.ALLOW_DUPLICATE
    return await start_run(client, run, reuse, host.patience, host.has_begun), None


async def _same_run(
    client: Client, run: NewRun, patience: timedelta
) -> WorkflowExecutionDescription | None:
    """Return the description of the run with this id, if it is the same; None if it is replaced."""
    address = RunAddress(client, run.id, patience)
    description = await address.ask(address.describe)
    other = difference(await description.memo_value(names.MEMO_INPUT_DIGEST, ""), run.digest)
    if not other:  # whoever may start workflows may write any digest into a memo
        told = partial(started_payload, client, run.id, first_of(description))
        started = await address.ask(told)
        if started is not None:
            other = difference(
                await recorded_digest(client, started, run.tenant, is_new=run.is_new_session),
                run.digest,
            )
    if other and description.close_time is None:
        raise RunAlreadyStarted(
            f"The id {run.id!r} is in use by a run that was started with another {other}. "
            f"Use that run with Runner.attach({run.id!r}), or choose another id."
        )
    return None if other else description


HasBegun: TypeAlias = Callable[[str, str], None]
"""Called with the namespace and the first execution of a run, once the server has accepted it."""


async def start_run(
    client: Client,
    run: NewRun,
    reuse: WorkflowIDReusePolicy,
    patience: timedelta,
    has_begun: HasBegun | None = None,
) -> str:
    """Start a run's workflow, through outages of the server; return its first execution."""

    def start() -> Awaitable[str]:
        return asyncio.shield(asyncio.ensure_future(_begin(client, run, reuse, has_begun)))

    try:
        return await retry_during_outage(client, start, patience)
    except RPCError as error:
        raise _start_error(client, error) from error


async def _begin(
    client: Client, run: NewRun, reuse: WorkflowIDReusePolicy, has_begun: HasBegun | None
) -> str:
    """Start the workflow, and say which execution it is.

    The caller may be cancelled on the way. The server may have accepted the start, so this goes on.
    """
    with RUN_OBJECTS.starting(client.namespace, run.id):
        workflow = await start_workflow(client, run, reuse)
        first = workflow.first_execution_run_id or ""
        if has_begun is not None:
            has_begun(client.namespace, first)
        return first


async def start_workflow(
    client: Client, run: NewRun, reuse: WorkflowIDReusePolicy
) -> WorkflowHandle[Any, Any]:
    """Start the workflow, with search attributes if the namespace has them."""
    record = run.record
    payload = records.write(await with_content_stored(client, record))
    await check_size(client, payload)

    tenant = run.tenant.name if run.tenant is not None else ""
    customer = listed_customer(client, record)

    async def start(*, visibility: bool, owners: bool = True) -> WorkflowHandle[Any, Any]:
        whose = (tenant, customer) if owners else ()
        return await client.start_workflow(
            names.WORKFLOW,
            payload | {"visibility": True} if visibility else payload,
            id=run.id,
            task_queue=run.queue,
            id_reuse_policy=reuse,
            memo=_memo(run),
            search_attributes=first_attributes(record.agent, *whose) if visibility else None,
            static_summary=run_summary(record),
            # Activities, nested runs and the run's next histories inherit it.
            priority=priority_of(run.tenant),
        )

    return await with_search_attributes(client, start)


def _memo(run: NewRun) -> dict[str, str]:
    fork = run.record.fork
    source = {} if fork is None else {names.MEMO_FORKED_FROM: fork.run_id}
    program = {names.MEMO_BEGUN_BY: run.program} if run.program else {}
    base = {names.MEMO_FOLLOWS: run.base} if run.base else {}
    return {names.MEMO_INPUT_DIGEST: run.digest, **source, **program, **base}


def priority_of(tenant: Tenant | None) -> Priority:
    """Return the priority of a tenant's runs."""
    if tenant is None:
        return Priority.default
    return Priority(fairness_key=tenant.name, fairness_weight=tenant.weight)


def _start_error(client: Client, error: RPCError) -> Exception:
    if error.status == RPCStatusCode.NOT_FOUND:
        return no_namespace(client.namespace)
    if is_transient(error):
        return unavailable(error)
    return UserError(f"The Temporal server refused to start the run: {error.message}")


def run_summary(record: records.RunInput) -> str:
    """Return one line in Markdown that describes a run."""
    content = record.input if isinstance(record.input, str) else f"{len(record.input)} items"
    return engine_summary(record.agent, ": ", excerpt(content, 80))
