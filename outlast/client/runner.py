"""Starting runs.

Owns: `Runner`, the input of a run, and what a second start with the same id means. Must not know:
who carries the run.
"""

import asyncio
import hashlib
import json
import secrets
from typing import Any, cast

from temporalio.client import Client, WorkflowHandle
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDReusePolicy,
)
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.agent import Agent
from outlast.agents.context_codec import write_context
from outlast.agents.errors import RunAlreadyStarted, ServerUnavailable, UserError
from outlast.agents.registry import type_name
from outlast.agents.settings import RunConfig, write_run_config
from outlast.client.connection import add_search_attributes
from outlast.client.handle import RunHandle
from outlast.client.messages import check_input
from outlast.client.results import RunResult
from outlast.contract import names, records
from outlast.loop.values import JsonObject
from outlast.ports.engine import local_engine

DEFAULT_MAX_TURNS = 10


class Runner:
    """Starts runs and finds them again.

    Where no client is given, runs go to the server that Temporal's environment configuration
    names; where it names none, an embedded server is started, or joined if one runs. An `Agent`
    given as an object is then carried by a worker in this process; one given by name by a worker
    elsewhere. With a client, runs are always carried by the workers of `task_queue`.
    """

    @classmethod
    async def run(
        cls,
        starting_agent: Agent[Any] | str,
        input: str | list[JsonObject],
        *,
        id: str | None = None,
        context: Any = None,
        max_turns: int | None = DEFAULT_MAX_TURNS,
        run_config: RunConfig | None = None,
        client: Client | None = None,
        task_queue: str | None = None,
    ) -> RunResult:
        """Ask an agent, and wait for the answer, or until a person has to decide.

        Running this again with the same id and input goes on with the same run, also in another
        process after a crash; once it has completed, the same answer is returned.

        Args:
            starting_agent: the agent, or its name.
            input: a text, or Responses items.
            id: the run's id, which is the workflow id; default a new one.
            context: a pydantic model, dataclass or JSON value that the agent's callables get.
            max_turns: how many model calls the answer may take; None for no bound.
            run_config: settings of the run.
            client: a connected Temporal client.
            task_queue: where the workers wait that carry the run.

        Raises:
            AgentsException: the run failed; the subclass says why.
        """
        handle = await cls.start(
            starting_agent,
            input,
            id=id,
            context=context,
            max_turns=max_turns,
            run_config=run_config,
            client=client,
            task_queue=task_queue,
        )
        return await handle.wait_for_people()

    @classmethod
    def run_sync(
        cls, starting_agent: Agent[Any] | str, input: str | list[JsonObject], **options: Any
    ) -> RunResult:
        """Do the same as `run`, for programs without an event loop.

        Raises:
            RuntimeError: an event loop is running in this thread: await `run` there.
            AgentsException: as for `run`.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(cls._run_and_close(starting_agent, input, options))
        raise RuntimeError("Runner.run_sync cannot be used in async code: await Runner.run(...).")

    @classmethod
    async def _run_and_close(
        cls, agent: Agent[Any] | str, input: str | list[JsonObject], options: dict[str, Any]
    ) -> RunResult:
        try:
            return await cls.run(agent, input, **options)
        finally:
            await local_engine().close_shared()

    @classmethod
    async def start(
        cls,
        agent: Agent[Any] | str,
        input: str | list[JsonObject],
        *,
        id: str | None = None,
        context: Any = None,
        max_turns: int | None = DEFAULT_MAX_TURNS,
        run_config: RunConfig | None = None,
        keep_open: bool = False,
        client: Client | None = None,
        task_queue: str | None = None,
    ) -> RunHandle:
        """Start a run and return at once.

        Args:
            agent: the agent, or its name.
            input: a text, or Responses items.
            id: the run's id. If it is in use by a run of the same agent with the same input, that
                run is returned.
            context: as for `run`.
            max_turns: as for `run`; for each answer anew.
            run_config: settings of the run.
            keep_open: stay open after the answer and take further messages.
            client: a connected Temporal client.
            task_queue: where the workers wait that carry the run.

        Raises:
            RunAlreadyStarted: the id is in use by a run that was started otherwise.
            UserError: the context is not data, or an argument does not fit.
            ServerUnavailable: no Temporal server answers.
        """
        if max_turns is not None and max_turns < 0:
            raise UserError(
                f"max_turns={max_turns} makes no sense: give a positive number or None."
            )
        if not isinstance(agent, Agent | str):  # pyright: ignore[reportUnnecessaryIsInstance]  users
            raise UserError(f"A run starts with an Agent or an agent's name, not {agent!r}.")
        check_input(input)
        settings = write_run_config(run_config or RunConfig())
        record = records.RunInput(
            agent=agent if isinstance(agent, str) else agent.name,
            input=input,
            context=write_context(context) if context is not None else None,
            context_type=_type_name(context),
            max_turns=max_turns,
            keep_open=keep_open,
            settings=settings or None,
        )
        client, queue = await _engine_for(agent, client, task_queue)
        return await _start(client, queue, id or f"run-{secrets.token_hex(6)}", record)

    @classmethod
    async def attach(cls, id: str, *, client: Client | None = None) -> RunHandle:
        """Return a handle on a run that was started before, here or elsewhere.

        Raises:
            RunNotFound: there is no such run.
        """
        connected = client if client is not None else (await local_engine().shared()).client
        handle = RunHandle(connected, id)
        await handle.check()
        return handle


async def _engine_for(
    agent: Agent[Any] | str, client: Client | None, task_queue: str | None
) -> tuple[Client, str]:
    if client is not None:
        return client, task_queue or names.TASK_QUEUE
    engine = await local_engine().shared()
    if isinstance(agent, str) or task_queue is not None:
        return engine.client, task_queue or names.TASK_QUEUE
    return engine.client, await engine.serve(agent)


async def _start(client: Client, queue: str, run_id: str, record: records.RunInput) -> RunHandle:
    digest = _digest(record)
    try:
        await _start_workflow(
            client, queue, run_id, record, WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY
        )
    except WorkflowAlreadyStartedError:
        await _join_or_replace(client, queue, run_id, record, digest)
    return RunHandle(client, run_id)


async def _join_or_replace(
    client: Client, queue: str, run_id: str, record: records.RunInput, digest: str
) -> None:
    """The id is known: the same question is the same run; another one needs the first to end."""
    description = await client.get_workflow_handle(run_id).describe()
    if await description.memo_value(names.MEMO_INPUT_DIGEST, "") == digest:
        return
    if description.close_time is None:
        raise RunAlreadyStarted(
            f"The id {run_id!r} is in use by a run that was started with another agent or input. "
            f"Talk to that run with Runner.attach({run_id!r}), or choose another id."
        )
    await _start_workflow(client, queue, run_id, record, WorkflowIDReusePolicy.ALLOW_DUPLICATE)


async def _start_workflow(
    client: Client,
    queue: str,
    run_id: str,
    record: records.RunInput,
    reuse: WorkflowIDReusePolicy,
) -> WorkflowHandle[Any, Any]:
    """Start the workflow with its search attributes, or without where there are none."""

    async def start(*, visibility: bool) -> WorkflowHandle[Any, Any]:
        payload = records.write(record)
        if visibility:
            payload["visibility"] = True
        return await client.start_workflow(
            names.WORKFLOW,
            payload,
            id=run_id,
            task_queue=queue,
            id_reuse_policy=reuse,
            memo={names.MEMO_INPUT_DIGEST: _digest(record)},
            search_attributes=_first_attributes(record.agent) if visibility else None,
            static_summary=f"{record.agent}: {_first_words(record.input)}",
        )

    try:
        try:
            return await start(visibility=True)
        except RPCError as error:
            if error.status != RPCStatusCode.INVALID_ARGUMENT or "search attribute" not in str(
                error
            ):
                raise
            return await start(visibility=await add_search_attributes(client))
    except RPCError as error:
        raise _start_error(client, error) from error


def _start_error(client: Client, error: RPCError) -> Exception:
    if error.status == RPCStatusCode.NOT_FOUND:
        return UserError(
            f"The namespace {client.namespace!r} does not exist on this server: {error.message}"
        )
    if error.status in {RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED}:
        return ServerUnavailable(f"The Temporal server does not answer: {error.message}")
    return UserError(f"The Temporal server refused to start the run: {error.message}")


def _first_attributes(agent: str) -> TypedSearchAttributes:
    """Return what the workflow takes to be there already, so that it need not write it."""
    return TypedSearchAttributes(
        [
            SearchAttributePair(SearchAttributeKey.for_keyword(names.ATTRIBUTE_AGENT), agent),
            SearchAttributePair(SearchAttributeKey.for_keyword(names.ATTRIBUTE_STATUS), "running"),
            SearchAttributePair(SearchAttributeKey.for_int(names.ATTRIBUTE_APPROVALS), 0),
        ]
    )


def _first_words(content: str | list[JsonObject]) -> str:
    text = content if isinstance(content, str) else f"{len(content)} items"
    return text if len(text) <= 80 else text[:79] + "…"


def _digest(record: records.RunInput) -> str:
    text = json.dumps([record.agent, record.input, record.keep_open], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _type_name(context: Any) -> str | None:
    plain = (dict, list, str, int, float, bool, type(None))
    kind = cast("type[Any]", type(context))
    return None if issubclass(kind, plain) else type_name(kind)
