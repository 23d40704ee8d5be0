"""Starts runs from the state of another run after one of its events."""

import json
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from temporalio.client import Client, WorkflowExecutionDescription
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from outlast.agents.errors import AgentsException, RunAlreadyStarted, UserError
from outlast.client.handle import RunHandle
from outlast.client.read.history import RunReader
from outlast.client.runs import RunFilter, list_executions
from outlast.client.start.options import check_place
from outlast.client.start.runner import NewRun, start_run
from outlast.client.start.tenant import Tenant
from outlast.client.transport.outages import PATIENCE
from outlast.client.transport.run_address import RunAddress
from outlast.contract import names, records
from outlast.contract.names import (
    SETTING_AS_TOOL,
    SETTING_INSTRUCTIONS,
    SETTING_SESSION,
    SETTINGS_OF_TRACE,
)
from outlast.loop.calls import ToolResult
from outlast.loop.effects import EffectAnswered, RunAgent, RunTool
from outlast.loop.events import Event
from outlast.loop.fork import Fork, RecordedCall
from outlast.loop.forked_state import cannot_fork
from outlast.loop.state import LoopState
from outlast.loop.values import Json, JsonObject
from outlast.temporal.payloads.readable import values_of
from outlast.views.run import RunSnapshot, loop_state, snapshot_of

MOST_RECORDED_BYTES: Final = 500_000
"""The maximum size of the recorded results that a fork takes along; it is part of its input."""

MOST_NESTED: Final = 100
"""The maximum number of nested runs whose results a fork takes along."""

_LEFT_OUT: Final = frozenset({*SETTINGS_OF_TRACE, SETTING_SESSION, SETTING_AS_TOOL})


_MARK: Final = "~"
"""Stands between the id of the source and the name of a fork."""

_NOT_IN_NAMES: Final = frozenset({_MARK, "/"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkPoint:
    """An event of a run, after which a fork may begin.

    Attributes:
        number: the number of the event, counted from 1.
        event: the event.
        before: the state before it.
        state: the state after it.
        obstacle: why no fork can begin there; None if one can.
    """

    number: int
    event: Event
    before: RunSnapshot
    state: RunSnapshot
    obstacle: str | None


async def read_fork_points(
    client: Client, run_id: str, *, execution_id: str | None = None
) -> AsyncGenerator[ForkPoint]:
    """Yield the events of a run, as far as its history is retained or archived. Needs no worker.

    Args:
        client: connected to the run's server.
        run_id: the run.
        execution_id: one of its executions; default: the newest.

    Raises:
        RunNotFound: there is no such run.
    """
    address, number, before = RunAddress(client, run_id), 0, LoopState()
    reading = RunReader(client, run_id).read_all(execution_id)
    async with address.errors(), aclosing(reading) as events:
        async for progress in events:
            if progress.event is not None:
                number += 1
                yield ForkPoint(
                    number=number,
                    event=progress.event,
                    before=snapshot_of(before),
                    state=snapshot_of(progress.state),
                    obstacle=cannot_fork(progress.state),
                )
            before = progress.state


async def fork_run(
    client: Client,
    run_id: str,
    *,
    at: int | None = None,
    name: str | None = None,
    execution_id: str | None = None,
    task_queue: str | None = None,
    instructions: str | None = None,
    model: str | None = None,
    arguments: Mapping[str, JsonObject] | None = None,
    allow: Collection[str] = (),
) -> RunHandle:
    """Start a run with the state that another run had after an event.

    The fork does what its source was about to do. It shares nothing with it: it has no session,
    keeps no conversation on the provider's server, notifies nobody, and its nested runs are its own;
    those that were under way begin again. A tool that does not say that it only reads
    (`effect="read"`) is not called, unless it is allowed: if the source made the same call, the model
    reads what that returned, and else that the tool is switched off. Callbacks of handoffs, hooks and
    guardrails run as in every run.

    Args:
        client: connected to the run's server.
        run_id: the source.
        at: the number of the event, as `read_fork_points` counts; default: the newest event.
        name: a name for the fork, whose id is that of the source, `~`, and this; default: a new one.
        execution_id: the source's execution to read; default: the newest.
        task_queue: where workers have the agents; default: that of the source.
        instructions: instructions for the agent that is active there, instead of its own.
        model: the model for all agents, instead of their own.
        arguments: other arguments for calls that are under way there, by the model's id of the call.
        allow: the names of the tools that may have effects; `*` for all.

    Returns:
        A handle on the fork.

    Raises:
        RunNotFound: there is no such run.
        UserError: no fork can begin there, or an argument does not fit.
        RunAlreadyStarted: the source has a fork with this name.
    """
    address = RunAddress(client, run_id)
    described = address.checked(await address.ask(address.workflow.describe))
    execution = execution_id or described.run_id
    source = await _read_source(client, run_id, execution, at)
    record = records.RunInput(
        agent=source.state.agent,
        carried=records.write_state(source.state),
        fork=Fork(
            run_id=run_id,
            execution_id=execution,
            event=source.number,
            allowed=tuple(sorted(set(allow))),
            recorded=tuple(_that_fit(await _recorded(client, source))),
            arguments=_checked_arguments(source.state, arguments or {}),
        ),
        settings=_settings(source.state, instructions, model),
    )
    return await _start(client, _fork_id(run_id, name), record, task_queue, described)


def _fork_id(run_id: str, name: str | None) -> str:
    if name is None:
        name = f"fork-{secrets.token_hex(4)}"
    if not name or not _NOT_IN_NAMES.isdisjoint(name):
        raise UserError(f"name={name!r:.80}: the name of a fork must not be empty or have / or ~.")
    return f"{run_id}{_MARK}{name}"


async def _start(
    client: Client,
    fork_id: str,
    record: records.RunInput,
    task_queue: str | None,
    source: WorkflowExecutionDescription,
) -> RunHandle:
    check_place(fork_id, client, task_queue, is_new=True)
    priority = source.raw_info.priority
    tenant = None
    if priority.fairness_key:
        tenant = Tenant(priority.fairness_key, priority.fairness_weight or 1.0)
    queue = task_queue or source.task_queue
    new = NewRun(id=fork_id, record=record, queue=queue, tenant=tenant)
    try:
        first = await start_run(client, new, WorkflowIDReusePolicy.REJECT_DUPLICATE, PATIENCE)
    except WorkflowAlreadyStartedError as error:
        message = f"There is a run {fork_id!r} already. Choose another name."
        raise RunAlreadyStarted(message) from error
    return RunHandle(client, fork_id, first_execution_id=first)


async def list_forks(
    client: Client, run_id: str, *, limit: int = 20, patience: timedelta | None = None
) -> tuple[str, ...]:
    """Return the ids of the newest forks of a run, as visibility lists them: a moment behind.

    Args:
        client: connected to the run's server.
        run_id: the source.
        limit: the most forks to look for.
        patience: how long to wait for a server that does not answer.

    Raises:
        ServerUnavailable: the server does not answer.
    """
    criteria = RunFilter(id_prefix=f"{run_id}{_MARK}", nested=False)
    listed, _ = await list_executions(client, criteria.query(), limit, None, patience)
    found: dict[str, None] = {}
    for one in listed:
        memo = one.memo.fields.get(names.MEMO_FORKED_FROM)
        if memo is not None and await values_of(client.data_converter, [memo]) == (run_id,):
            found[one.execution.workflow_id] = None
    return tuple(found)


async def known_forks(client: Client, run_id: str) -> tuple[str, ...]:
    """Return what `list_forks` does at once; nothing if the server cannot search just now.

    For those who show a run, which needs no search.
    """
    try:
        return await list_forks(client, run_id, patience=timedelta(0))
    except AgentsException:
        return ()


# --- Reading the source --------------------------------------------------------------------------


@dataclass
class _Source:
    """What a fork needs of its source.

    Attributes:
        state: the state after the event.
        number: the number of the event.
        last: the number of the newest event.
        earlier: the tool calls that were answered up to the event.
        later: those that were answered after it.
        nested: nested runs, in the order in which they began.
    """

    state: LoopState = field(default_factory=LoopState)
    number: int = 0
    last: int = 0
    earlier: list[RecordedCall] = field(default_factory=list[RecordedCall])
    later: list[RecordedCall] = field(default_factory=list[RecordedCall])
    nested: dict[str, None] = field(default_factory=dict[str, None])


async def _read_source(client: Client, run_id: str, execution: str, at: int | None) -> _Source:
    source = _Source()
    points = read_fork_points(client, run_id, execution_id=execution)
    async with aclosing(points) as reading:
        async for point in reading:
            source.last, state = point.number, loop_state(point.state)
            if at is None or point.number <= at:
                source.state, source.number = state, point.number
            calls = source.earlier if at is None or point.number <= at else source.later
            calls += _answered(loop_state(point.before), point.event)
            source.nested |= dict.fromkeys(_nested(state))
    if at is not None and not 1 <= at <= source.last:
        raise UserError(
            f"{run_id} has no event {at}: choose one from 1 to {source.last}. "
            "`outlast fork ID --list` shows them."
        )
    if (obstacle := cannot_fork(source.state)) is not None:
        raise UserError(
            f"{run_id} cannot be forked after event {source.number}: {obstacle} "
            "`outlast fork ID --list` shows all events."
        )
    return source


async def _recorded(client: Client, source: _Source) -> list[RecordedCall]:
    """Return what tools returned: what came after the event first, then the newest before it."""
    found = [*source.later, *reversed(source.earlier)]
    waiting, known = deque(source.nested), set(source.nested)
    while waiting and len(known) <= MOST_NESTED:
        reader, before = RunReader(client, waiting.popleft()), LoopState()
        try:
            async with aclosing(reader.read_all()) as events:
                async for progress in events:
                    if progress.event is not None:
                        found += _answered(before, progress.event)
                    before = progress.state
                    further = [one for one in _nested(before) if one not in known]
                    known.update(further)
                    waiting += further
        except RPCError:  # it is no longer retained: its tools answer that they are switched off
            continue
    return found


def _answered(before: LoopState, event: Event) -> list[RecordedCall]:
    """Return the tool call that an event answers; one that began to wait has no result yet."""
    if not isinstance(event, EffectAnswered) or not isinstance(event.result, ToolResult):
        return []
    result = event.result
    effect = next((one for one in before.pending if one.effect == event.effect), None)
    if type(effect) is not RunTool or result.wait or result.required or result.deferred:
        return []
    plain = replace(result, host="", order=0)  # the object of another process's call
    return [RecordedCall(name=effect.name, arguments=effect.arguments, result=plain)]


def _nested(state: LoopState) -> list[str]:
    """Return the nested runs that are under way."""
    return [one.nested_id for one in state.pending if isinstance(one, RunAgent)]


def _that_fit(found: Iterable[RecordedCall]) -> Iterable[RecordedCall]:
    """Yield the first result of each call, as many as a fork's input can hold."""
    seen, size = set[tuple[str, str]](), 0
    for one in found:
        if (key := (one.name, one.arguments)) in seen:
            continue
        seen.add(key)
        size += len(json.dumps(records.write(one)))
        if size > MOST_RECORDED_BYTES:
            return
        yield one


# --- What is different in the fork ---------------------------------------------------------------


def _settings(state: LoopState, instructions: str | None, model: str | None) -> JsonObject | None:
    before = state.start.settings or {}
    settings = {name: value for name, value in before.items() if name not in _LEFT_OUT}
    if model is not None:
        if not model.strip():
            raise UserError("model= must be a non-empty string.")
        settings["model"] = model
    if instructions is not None:
        others: JsonObject = settings.get(SETTING_INSTRUCTIONS) or {}
        settings[SETTING_INSTRUCTIONS] = {**others, state.agent: instructions}
    return settings or None


def _checked_arguments(
    state: LoopState, arguments: Mapping[str, Json]
) -> tuple[tuple[str, str], ...]:
    under_way = {one.call_id: one for one in state.calls if one.status == "running"}
    for call_id, value in arguments.items():
        if call_id not in under_way:
            known = ", ".join(f"{one.call_id} ({one.name})" for one in under_way.values())
            raise UserError(
                f"No call {call_id!r:.200} is under way after this event. Under way: "
                f"{known or 'none'}. A call that waits for approval gets other arguments from the "
                "person who decides about it."
            )
        if not isinstance(value, dict):
            raise UserError(f"The arguments of {call_id!r:.200} must be a JSON object.")
    return tuple(
        (call_id, json.dumps(value, ensure_ascii=False)) for call_id, value in arguments.items()
    )
