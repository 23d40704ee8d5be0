"""Starts runs, and resumes runs that wait."""

import asyncio
import hashlib
import json
import secrets
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar, Self, Unpack, cast

from temporalio.client import Client, WorkflowHandle
from temporalio.common import (
    WorkflowIDReusePolicy,
)
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.agent import Agent
from outlast.agents.errors import RunAlreadyStarted, UserError
from outlast.client.connection import add_search_attributes
from outlast.client.content import outgoing
from outlast.client.handle import RunHandle
from outlast.client.known_agents import KnownAgents, RemoteAgent
from outlast.client.missing_worker import warned_without_worker
from outlast.client.outages import is_passing, patience_of, ride_out, unavailable
from outlast.client.read_range import ReadRange, RunReading
from outlast.client.results import RunResult
from outlast.client.resumption import resume
from outlast.client.run_address import RunAddress, check_size
from outlast.client.run_host import RunHost
from outlast.client.run_state import ENGINE, RunState, gave_items
from outlast.client.start import (
    RunOptions,
    agent_name,
    check_names,
    check_place,
    run_input,
    start_options,
)
from outlast.client.streaming import RunResultStreaming
from outlast.client.thread_loop import thread_loop
from outlast.contract import names, records
from outlast.loop.values import DEFAULT_MAX_TURNS, JsonObject
from outlast.payloads.attributes import first_attributes
from outlast.ports.blobs import BlobStore, check_blob_store
from outlast.ports.engine import rest_engine
from outlast.rendering import Shown, excerpt, inline_within, joined
from outlast.tracing.provider import join_current_trace

LONGEST_SUMMARY_BYTES = 200
"""The server's limit for the length of a run's summary."""


class Runner:
    """Starts runs and finds them again.

    Without a client, runs go to the server of Temporal's environment configuration; without a
    configuration, to an embedded server, which is started, or joined if one runs. A worker in this
    process then hosts an agent passed as an `Agent`; workers elsewhere host an agent passed by
    name. With a client, the workers of `task_queue` always host the runs. `using` sets the client
    and the task queue for all calls of a program.
    """

    _place: ClassVar[RunOptions] = {}
    """The options set by `using`."""

    @classmethod
    def using(
        cls,
        *,
        client: Client | None = None,
        task_queue: str | None = None,
        patience: timedelta | None = None,
        blob_store: BlobStore | None = None,
    ) -> type[Self]:
        """Return a runner with the same methods and other default options.

        With `runner = Runner.using(client=client, task_queue="desk")`, `runner.run(agent, "Hi")` is
        `Runner.run(agent, "Hi", client=client, task_queue="desk")`. An option of the call itself
        outranks these.

        Args:
            client: a connected Temporal client.
            task_queue: the task queue of the workers that host the runs.
            patience: how long to wait for a server that does not answer.
            blob_store: the store for large content; the workers need the same one.

        Raises:
            UserError: an argument does not fit.
        """
        check_place(client=client, task_queue=task_queue)
        check_blob_store(blob_store)
        patience = None if patience is None else patience_of(patience)
        place = RunOptions(
            client=client, task_queue=task_queue, patience=patience, blob_store=blob_store
        )
        runner = type(cls.__name__, (cls,), {"_place": cls._placed(place), "__doc__": cls.__doc__})
        return cast("type[Self]", runner)

    @classmethod
    def _placed(cls, options: RunOptions) -> RunOptions:
        """Return the options of a call, with the defaults of `using`."""
        check_names(options, RunOptions, caller="Runner")
        given = {name: value for name, value in options.items() if value is not None}
        return cast("RunOptions", {**options, **cls._place, **given})

    @classmethod
    async def run(
        cls,
        starting_agent: Agent[Any] | RemoteAgent | str,
        input: str | list[JsonObject] | RunState,
        **options: Unpack[RunOptions],
    ) -> RunResult:
        """Run an agent, and wait for the answer, or until a person has to decide.

        The same id and input resume the same run, also in another process after a crash; a
        completed run returns its answer again. With a `RunState`, the decisions are sent to the
        waiting run, which has its own settings and turn count, and reading continues. `RunOptions`
        describes the options.

        Raises:
            AgentsException: the run failed; the subclass says why.
            UserError: an argument does not fit.
        """
        options = cls._placed(options)
        with _carrying(starting_agent, input, options) as host:
            handle, read_range = await _open(starting_agent, input, options, host)
            async with warned_without_worker(handle.client, handle.id):
                result = await handle.wait_until_settled(
                    read_range.settles, without=read_range.without
                )
            host.settled(ended=result.snapshot.phase == "closed")
            return result

    @classmethod
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
        # Not in an `except`, or the run's errors would have "no running event loop" as context.
        if _is_in_loop():
            raise RuntimeError(
                "Runner.run_sync cannot be used in async code: await Runner.run(...)."
            )
        loop = thread_loop()
        try:
            return loop.run(cls.run(starting_agent, input, **options))
        finally:
            loop.run(rest_engine())

    @classmethod
    def run_streamed(
        cls,
        starting_agent: Agent[Any] | RemoteAgent | str,
        input: str | list[JsonObject] | RunState,
        **options: Unpack[RunOptions],
    ) -> RunResultStreaming:
        """Start a run and stream its events. Returns immediately, without awaiting anything.

        The same run as with `run`, with streamed model calls:
        `async for event in result.stream_events()`.

        Raises:
            UserError: an argument does not fit.
            RuntimeError: no event loop is running in this thread.
        """
        options = cls._placed(options)
        known = _known(starting_agent, input, options)
        if not isinstance(input, RunState):
            # Raise errors here, and read the input once, before the caller can change it.
            record = run_input(starting_agent, input, **start_options(options))
            input = record.input  # noqa: A001  the argument's name
        if not _is_in_loop():
            raise RuntimeError(
                "Runner.run_streamed needs a running event loop: call it in async code."
            )
        named = RemoteAgent(starting_agent) if isinstance(starting_agent, str) else starting_agent
        host = _carrying(starting_agent, input, options)
        return RunResultStreaming(
            RunReading(
                lambda: _open(starting_agent, input, options, host, known=known, stream=True),
                at_end=host.read,
            ),
            starting_agent=named,
            asked=[] if isinstance(input, RunState) else input,
            known=known,
            max_turns=options.get("max_turns", DEFAULT_MAX_TURNS),
        )

    @classmethod
    async def start(
        cls,
        agent: Agent[Any] | RemoteAgent | str,
        input: str | list[JsonObject],
        *,
        keep_open: bool = False,
        **options: Unpack[RunOptions],
    ) -> RunHandle:
        """Start a run and return at once.

        Args:
            agent: the agent, or its name.
            input: a text, or Responses items.
            keep_open: stay open after the answer and accept further messages; `max_turns` then
                applies to each answer.
            **options: as for `run`. If a run of the same agent with the same input already uses the
            id, that run is returned.

        Raises:
            RunAlreadyStarted: a run with another agent or input uses the id.
            UserError: the context is not data, or an argument does not fit.
            ServerUnavailable: no Temporal server answers.
        """
        options = cls._placed(options)
        known = _known(agent, input, options)
        with _carrying(agent, input, options) as host:
            return await _begin(agent, input, options, host, known=known, keep_open=keep_open)

    @classmethod
    async def attach(
        cls,
        id: str,
        *,
        agent: Agent[Any] | None = None,
        client: Client | None = None,
        patience: timedelta | None = None,
        blob_store: BlobStore | None = None,
    ) -> RunHandle:
        """Return a handle on a run that was started before, here or elsewhere.

        Args:
            id: the run's id.
            agent: the agent that the run was started with, for results with agents and answers as
                objects, and to host the run here, as with `run`.
            client: a connected Temporal client.
            patience: how long to wait for a server that does not answer; default:
                OUTLAST_PATIENCE_SECONDS, or five minutes.
            blob_store: the store for large content; the workers need the same one.

        Raises:
            RunNotFound: there is no such run.
            UserError: an argument does not fit.
        """
        place = RunOptions(client=client, patience=patience, blob_store=blob_store)
        options = cls._placed(place)
        check_place(id or "", options.get("client"))
        with _carrying(agent, "", options) as host:
            handle = await host.handle(id, KnownAgents(agent))
            await handle.check()
            await host.follow(handle)
            return handle


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _open(
    agent: Any,
    input: str | list[JsonObject] | RunState,
    options: RunOptions,
    host: RunHost,
    *,
    known: KnownAgents | None = None,
    stream: bool = False,
) -> tuple[RunHandle, ReadRange]:
    """Start a run, or send a waiting run its decisions; return the range to read."""
    known = known or _known(agent, input, options)
    if isinstance(input, RunState):
        handle = await host.handle(input.run_id, known)
        known.keep_live_values(input.run_id)
        if input.snapshot is None:
            await host.follow(handle)
        return handle, await resume(handle, input, context=_context(input, options))
    handle = await _begin(agent, input, options, host, known=known, stream=stream)
    if options.get("id") is None:
        return handle, ReadRange()
    _, place = await handle.present()  # a run with this id may have waited and resumed before
    return handle, ReadRange(settles=place)


async def _begin(
    agent: Any,
    input: str | list[JsonObject],
    options: RunOptions,
    host: RunHost,
    *,
    known: KnownAgents,
    keep_open: bool = False,
    stream: bool = False,
) -> RunHandle:
    record = run_input(agent, input, keep_open=keep_open, stream=stream, **start_options(options))
    record = replace(record, settings=join_current_trace(record.settings))
    run_id = options.get("id") or f"run-{secrets.token_hex(6)}"
    handle = await host.handle(run_id, known)
    known.keep_live_values(run_id)
    queue = await host.queue(run_id)
    if not await _start(handle.client, queue, run_id, record, host.patience):
        await host.follow(handle)
    return handle


def _known(
    agent: Any, input: str | list[JsonObject] | RunState, options: RunOptions
) -> KnownAgents:
    agent_name(agent)
    return KnownAgents(
        agent,
        run_config=options.get("run_config"),
        context=_context(input, options),
        context_type=input.known.context_type if isinstance(input, RunState) else None,
        lent=input.known.lent if isinstance(input, RunState) else None,
        make_context=input.known.make_context if isinstance(input, RunState) else None,
        items_given=gave_items(input),
    )


def _carrying(agent: Any, input: str | list[JsonObject] | RunState, options: RunOptions) -> RunHost:
    client = options.get("client")
    check_place(options.get("id"), client, options.get("task_queue"))
    if client is None and isinstance(input, RunState) and input.client != ENGINE:
        client = input.client
    store = options.get("blob_store")
    check_blob_store(store)
    return RunHost(
        agent,
        client,
        options.get("task_queue"),
        _context(input, options),
        options.get("patience"),
        blob_store=store,
    )


def _context(input: object, options: RunOptions) -> Any:
    """Return the program's context, from the call or from the resumed state."""
    given = options.get("context")
    return input.context_override if given is None and isinstance(input, RunState) else given


async def _start(
    client: Client, queue: str, run_id: str, record: records.RunInput, patience: timedelta
) -> bool:
    """Start a run, or find it; return whether it is new."""

    async def start(reuse: WorkflowIDReusePolicy) -> None:
        try:
            await ride_out(lambda: _start_workflow(client, queue, run_id, record, reuse), patience)
        except RPCError as error:
            raise _start_error(client, error) from error

    try:
        await start(WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY)
    except WorkflowAlreadyStartedError:
        if not await _is_replaced(client, run_id, record, patience):
            return False
        await start(WorkflowIDReusePolicy.ALLOW_DUPLICATE)
    return True


async def _is_replaced(
    client: Client, run_id: str, record: records.RunInput, patience: timedelta
) -> bool:
    """Whether a new run replaces the run with this id; not if the inputs are equal.

    Raises:
        RunAlreadyStarted: the existing run has other input and has not ended.
    """
    address = RunAddress(client, run_id, patience)
    description = await address.ask(address.workflow.describe)
    if await description.memo_value(names.MEMO_INPUT_DIGEST, "") == _digest(record):
        return False
    if description.close_time is None:
        raise RunAlreadyStarted(
            f"The id {run_id!r} is in use by a run that was started with another agent or input. "
            f"Use that run with Runner.attach({run_id!r}), or choose another id."
        )
    return True


async def _start_workflow(
    client: Client,
    queue: str,
    run_id: str,
    record: records.RunInput,
    reuse: WorkflowIDReusePolicy,
) -> WorkflowHandle[Any, Any]:
    """Start the workflow with its search attributes, or without if the namespace lacks them.

    Raises:
        RPCError: the server refuses, or does not answer.
        UserError: the input is too large.
        WorkflowAlreadyStartedError: the id is in use.
    """
    payload = records.write(await outgoing(client, record))
    await check_size(client, payload)

    async def start(*, visibility: bool) -> WorkflowHandle[Any, Any]:
        return await client.start_workflow(
            names.WORKFLOW,
            payload | {"visibility": True} if visibility else payload,
            id=run_id,
            task_queue=queue,
            id_reuse_policy=reuse,
            memo={names.MEMO_INPUT_DIGEST: _digest(record)},
            search_attributes=first_attributes(record.agent) if visibility else None,
            static_summary=inline_within(_summary(record), LONGEST_SUMMARY_BYTES),
        )

    try:
        return await start(visibility=True)
    except RPCError as error:
        if error.status != RPCStatusCode.INVALID_ARGUMENT or "search attribute" not in str(error):
            raise
        return await start(visibility=await add_search_attributes(client))


def _start_error(client: Client, error: RPCError) -> Exception:
    if error.status == RPCStatusCode.NOT_FOUND:
        return UserError(
            f"The namespace {client.namespace!r} does not exist on this server: {error.message}"
        )
    if is_passing(error):
        return unavailable(error)
    return UserError(f"The Temporal server refused to start the run: {error.message}")


def _summary(record: records.RunInput) -> Shown:
    content = record.input if isinstance(record.input, str) else f"{len(record.input)} items"
    return joined(record.agent, ": ", excerpt(content, 80))


def _digest(record: records.RunInput) -> str:
    text = json.dumps([record.agent, record.input, record.keep_open], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
