"""Sends a scheduled message to its conversation, once."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from temporalio import activity
from temporalio.client import (
    WorkflowExecutionDescription,
    WorkflowHandle,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from outlast.contract import failures, names, records
from outlast.contract.records import ScheduledRecord, SendRecord
from outlast.edges.rendering import engine_summary, excerpt
from outlast.loop.values import JsonObject
from outlast.temporal.payloads.attributes import first_attributes, listed_customer

PATIENCE_SECONDS: Final = 10
"""How long an attempt waits for a worker of the conversation; the next attempt waits again."""

LATER: Final = frozenset({failures.RUN_CLOSED, failures.RUN_BUSY})
"""Refusals that pass: the conversation is about to end, or has too many messages."""


@activity.defn(name=names.ACTIVITY_SCHEDULED)
async def send_scheduled_message(payload: JsonObject) -> JsonObject:
    """Send the message to the conversation, or start the conversation with it.

    A repeated attempt changes nothing: an open conversation knows the id of the message, and of one
    that has ended the server says whether it had it.

    Raises:
        ApplicationError: the message is not sent; its type says why, and whether it is tried again.
    """
    record = records.read(ScheduledRecord, payload)
    message_id = activity.info().workflow_id or ""
    conversation = activity.client().get_workflow_handle(record.run_id)
    found = await _description(conversation)
    if found is not None and found.workflow_type != names.WORKFLOW:
        raise _final(
            f"{record.run_id!r} is not a conversation, but a workflow of the type "
            f"{found.workflow_type!r}."
        )
    is_open = found is not None and found.close_time is None
    if is_open:
        await _send(conversation, record, message_id)
    elif not await _has_ended_with(found, message_id):
        await _start(record, message_id)
    return {"run_id": record.run_id, "message_id": message_id, "started": not is_open}


async def _description(
    conversation: WorkflowHandle[Any, Any],
) -> WorkflowExecutionDescription | None:
    try:
        return await conversation.describe()
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            raise
        return None


async def _has_ended_with(found: WorkflowExecutionDescription | None, message_id: str) -> bool:
    """Whether an earlier attempt has reached a conversation that has ended since."""
    if found is None:
        return False
    if await found.memo_value(names.MEMO_MESSAGE, "") == message_id:
        return True
    if activity.info().attempt == 1:
        return False
    handle = activity.client().get_workflow_handle(found.id, run_id=found.run_id)
    try:
        await handle.get_update_handle(message_id).result(
            rpc_timeout=timedelta(seconds=PATIENCE_SECONDS)
        )
    except (WorkflowUpdateFailedError, RPCError):
        return False
    return True


async def _send(
    conversation: WorkflowHandle[Any, Any], record: ScheduledRecord, message_id: str
) -> None:
    message = SendRecord(
        input=record.input,
        message_id=message_id,
        mode=record.mode,
        stream=record.stream,
        author=record.author,
    )
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await conversation.execute_update(  # pyright: ignore[reportUnknownMemberType]  the SDK's own annotation
                names.UPDATE_SEND, records.write(message), id=message_id
            )
    except WorkflowUpdateFailedError as error:
        cause = error.cause
        code = (cause.type or "") if isinstance(cause, ApplicationError) else ""
        text = cause.message if isinstance(cause, ApplicationError) else str(error)
        if code in LATER:
            raise ApplicationError(f"Not sent yet: {text}", type=code) from error
        raise _final(text, code or failures.USER_ERROR) from error
    except (TimeoutError, WorkflowUpdateRPCTimeoutOrCancelledError) as error:
        raise ApplicationError(
            f"The conversation {record.run_id!r} has not taken the message within "
            f"{PATIENCE_SECONDS} s. Is a worker of its task queue running?",
            type=failures.INTERNAL,
        ) from error


async def _start(record: ScheduledRecord, message_id: str) -> None:
    if record.start is None:
        raise _final(
            f"The conversation {record.run_id!r} is not open, and the schedule names no agent to "
            "start it with. Create it with one, or delete it.",
            failures.RUN_CLOSED,
        )
    run = replace(record.start, input=record.input, message_id=message_id)
    tenant = activity.info().priority.fairness_key or ""
    whose = (tenant, listed_customer(activity.client(), run))
    # The namespace may be of an older version, or may have lost its search attributes.
    ways = [
        (run, whose),
        *([(run, ())] if any(whose) else []),
        (replace(run, visibility=False), ()),
    ]
    try:
        for way, listed in ways:
            try:
                await _start_run(record, way, listed)
            except RPCError as error:
                if "search attribute" not in error.message or not way.visibility:
                    raise
            else:
                return
    except WorkflowAlreadyStartedError as error:
        raise ApplicationError(
            f"The conversation {record.run_id!r} has just been started.", type=failures.INTERNAL
        ) from error


async def _start_run(
    record: ScheduledRecord, run: records.RunInput, whose: tuple[str, ...]
) -> None:
    info = activity.info()
    shown = run.input if isinstance(run.input, str) else f"{len(run.input)} items"
    await activity.client().start_workflow(
        names.WORKFLOW,
        records.write(run),
        id=record.run_id,
        task_queue=info.task_queue,
        id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
        memo={names.MEMO_INPUT_DIGEST: record.digest, names.MEMO_MESSAGE: run.message_id},
        search_attributes=first_attributes(run.agent, *whose) if run.visibility else None,
        static_summary=engine_summary(run.agent, ": ", excerpt(shown, 80)),
        priority=info.priority,  # the tenant's, from the schedule
    )


def _final(message: str, code: str = failures.USER_ERROR) -> ApplicationError:
    return ApplicationError(message, type=code, non_retryable=True)
