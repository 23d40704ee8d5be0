"""Asks the server what keeps a run from going on: the facts of `outlast.views.trouble`."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType, PendingActivityState, PendingWorkflowTaskState
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import (
    DescribeWorkflowExecutionResponse,
    GetSystemInfoRequest,
    GetWorkflowExecutionHistoryReverseRequest,
)
from temporalio.client import Client, WorkflowExecutionDescription
from temporalio.service import RPCError

from outlast.client.transport.executions import describe_newest
from outlast.client.transport.outages import AWAY, is_transient
from outlast.client.transport.pollers import pollers
from outlast.contract import history, names
from outlast.contract.records import (
    RunInput,
    Unreadable,
    UnreadableRecordError,
    first_message_of,
    read,
)
from outlast.edges.clock import now_ms
from outlast.loop.events import MessageWithdrawn, PersonActed, ValueDelivered
from outlast.loop.human_actions import row_of
from outlast.loop.items import Message
from outlast.loop.values import Json
from outlast.temporal.payloads.readable import decode_failure, values_of
from outlast.views.trouble import QUIET, SILENT, KeptSignal, PendingTry, ServerFacts

ASKS_FOR: Final = timedelta(seconds=2.5)
"""How long a server may take to answer."""

SAYS_SO_WITHIN: Final = timedelta(milliseconds=800)
"""How long it may take to say that it is there."""

MOST_KEPT: Final = 20
"""How many kept signals are read."""

_PAGE: Final = 50
_MOST_PAGES: Final = 4

_STARTED: Final = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED
_COMPLETED: Final = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
_SIGNALED: Final = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
_CANCELLED: Final = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED


async def server_facts(
    client: Client, run_id: str, *, works: bool = True, first: str | None = None
) -> ServerFacts:
    """Return what the server says about a run; it has less than three seconds for that.

    Args:
        client: connected to the run's server.
        run_id: the workflow id.
        works: whether the run works, as far as its state is known: then it needs a worker.
        first: the run's first execution; None means the newest run with the id.

    Raises:
        RPCError: the server refuses, as for a run that does not exist.
    """
    try:
        async with asyncio.timeout(ASKS_FOR.total_seconds()):
            description = await describe_newest(client, run_id, first)
            return await facts_of(client, description, works=works)
    except TimeoutError:
        return SILENT
    except RPCError as error:
        if not is_transient(error):
            raise
        return SILENT


async def server_answers(client: Client) -> bool:
    """Whether the server is there; it has less than a second to say so."""
    try:
        async with asyncio.timeout(SAYS_SO_WITHIN.total_seconds()):
            await client.workflow_service.get_system_info(GetSystemInfoRequest())
    except TimeoutError:
        return False
    except RPCError as error:
        return error.status not in AWAY
    return True


async def facts_of(
    client: Client, description: WorkflowExecutionDescription, *, works: bool = True
) -> ServerFacts:
    """Return what the server says about a run, and with it what it does not describe.

    Raises:
        RPCError: the server does not answer.
    """
    if description.close_time is not None:
        return QUIET
    raw, untaken = description.raw_description, _Untaken()
    since = _waits_since(raw)
    if since is not None:
        untaken = await _untaken(client, description)
    asks = works or since is not None
    return ServerFacts(
        at_ms=now_ms(),
        queue=description.task_queue,
        workers=await _workers(client, description.task_queue) if asks else None,
        task_since_ms=since,
        is_begun=untaken.is_begun,
        tries=tuple([await _try(client, one) for one in raw.pending_activities]),
        kept=tuple(untaken.kept),
        first=untaken.first,
    )


def _waits_since(raw: DescribeWorkflowExecutionResponse) -> int | None:
    """Return since when a workflow task waits for a worker; None if there is none, or one has it.

    A task that began again has failed, or its worker is gone.
    """
    task = raw.pending_workflow_task
    is_taken = task.state == PendingWorkflowTaskState.PENDING_WORKFLOW_TASK_STATE_STARTED
    if not raw.HasField("pending_workflow_task") or (is_taken and task.attempt <= 1):
        return None
    return task.original_scheduled_time.ToMilliseconds() or task.scheduled_time.ToMilliseconds()


async def _workers(client: Client, task_queue: str) -> int | None:
    try:
        return len(await pollers(client, task_queue))
    except RPCError as error:
        if is_transient(error):
            raise
        return None  # who may read runs may not be allowed to read task queues


async def _try(client: Client, info: PendingActivityInfo) -> PendingTry:
    is_failed = info.attempt > 1 and info.HasField("last_failure")
    scheduled = info.scheduled_time.ToMilliseconds()
    waits = info.state == PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
    following = (
        info.next_attempt_schedule_time if info.HasField("next_attempt_schedule_time") else None
    )
    number = info.activity_id
    return PendingTry(
        effect=int(number) if number.isdigit() else 0,
        name=info.activity_type.name,
        failed=info.attempt - 1 if is_failed else 0,
        why=await _why(client, info) if is_failed else "",
        waits_since_ms=scheduled if waits else None,
        next_ms=following.ToMilliseconds() if waits and following is not None else None,
        failed_ms=info.last_attempt_complete_time.ToMilliseconds() or None,
    )


async def _why(client: Client, info: PendingActivityInfo) -> str:
    """Return why the last attempt failed."""
    failure = info.last_failure
    if failure.HasField("server_failure_info") and failure.HasField("cause"):
        failure = failure.cause
    with suppress(Exception):  # a codec's error; the message is as the server has it then
        error = await decode_failure(client.data_converter, failure)
        return str(getattr(error, "message", "") or failure.message)
    return failure.message


# --- What no workflow task has taken -------------------------------------------------------------


@dataclass(slots=True)
class _Untaken:
    """What no workflow task has taken.

    Attributes:
        kept: signals, oldest first.
        is_begun: whether a workflow task of the run has completed.
        first: the first message of a run that has not begun.
    """

    kept: list[KeptSignal] = field(default_factory=list[KeptSignal])
    is_begun: bool = True
    first: Message | None = None


async def _untaken(client: Client, description: WorkflowExecutionDescription) -> _Untaken:
    found = _Untaken()
    async for event in _newest_events(client, description):
        if event.event_type == _COMPLETED:
            break
        if event.event_type == _STARTED:
            found.is_begun = False
            found.first = await _first_message(client, event)
        elif (one := await _kept(client, event)) is not None:
            found.kept.insert(0, one)
    del found.kept[MOST_KEPT:]
    return found


async def _first_message(client: Client, event: HistoryEvent) -> Message | None:
    payloads = event.workflow_execution_started_event_attributes.input.payloads
    values = await values_of(client.data_converter, payloads)
    try:
        record = read(RunInput, values[0] if values else None)
    except UnreadableRecordError:
        return None
    return first_message_of(record, event.event_time.ToMilliseconds())


async def _newest_events(
    client: Client, description: WorkflowExecutionDescription
) -> AsyncGenerator[HistoryEvent]:
    """Yield the events of an execution, the newest first, as far as they are read for this."""
    request = GetWorkflowExecutionHistoryReverseRequest(
        namespace=client.namespace,
        execution=WorkflowExecution(workflow_id=description.id, run_id=description.run_id),
        maximum_page_size=_PAGE,
    )
    for _ in range(_MOST_PAGES):
        answer = await client.workflow_service.get_workflow_execution_history_reverse(request)
        for event in answer.history.events:
            yield event
        if not answer.next_page_token:
            return
        request.next_page_token = answer.next_page_token


async def _kept(client: Client, event: HistoryEvent) -> KeptSignal | None:
    at_ms = event.event_time.ToMilliseconds()
    if event.event_type == _CANCELLED:
        return KeptSignal(what="request to stop", at_ms=at_ms)
    if event.event_type != _SIGNALED:
        return None
    signal = event.workflow_execution_signaled_event_attributes
    if signal.signal_name not in names.SIGNALS:
        return None
    arguments = await values_of(client.data_converter, signal.input.payloads)
    what = None if arguments is None else _what(signal.signal_name, arguments, at_ms)
    return None if what is None else KeptSignal(what=what, at_ms=at_ms)


def _what(name: str, arguments: tuple[Json | Unreadable, ...], at_ms: int) -> str | None:
    """Return what people or programs sent; None for what runs send each other."""
    match history.signalled(name, arguments, at_ms):
        case PersonActed() as acted:
            by: Any = acted.person.subject
            return row_of(acted.action).attempt(acted.action) + (f" by {by:.80}" if by else "")
        case ValueDelivered(name=wait, source=source):
            return f"delivery of {wait:.80}" + (f" from {source:.80}" if source else "")
        case MessageWithdrawn():
            return "withdrawal of a message"
        case _ if name == names.SIGNAL_CANCEL:
            return "request to stop"
        case _:
            return None
