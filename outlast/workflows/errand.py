"""The workflow that executes an operation for a call of a run, and delivers its result.

The operation is another workflow, as a child, or a Nexus operation. The run itself starts neither:
its call waits for a delivery, as for any other result from outside.
"""

import asyncio
from typing import Any, Final

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import (
    ApplicationError,
    CancelledError,
    FailureError,
    TerminatedError,
    WorkflowAlreadyStartedError,
)
from temporalio.exceptions import TimeoutError as EngineTimeoutError

from outlast.contract import blobs, names, records
from outlast.contract.delivered_values import LARGEST_VALUE_BYTES, check_shape, size_of
from outlast.edges.rendering import engine_summary, head
from outlast.loop.actions import DeliverRecord
from outlast.loop.values import Json, JsonObject
from outlast.workflows.translation import read_input, received_json

LONGEST_FAILURE: Final = 2_000
"""The maximum length of a failure in words, in characters."""


@workflow.defn(name=names.WORKFLOW_ERRAND, sandboxed=False)
class Errand:
    """Executes an operation, and delivers its result, or its failure in words, to a run."""

    @workflow.run
    async def run(self, payload: RawValue) -> JsonObject:
        """Execute and deliver; a run that has ended gets nothing.

        Raises:
            ApplicationError: the input is unreadable.
            CancelledError: somebody cancelled this workflow, and so the operation.
        """
        record = read_input(records.ErrandRecord, payload, "The errand is")
        cancelled: BaseException | None = None
        try:
            outcome = _deliverable(record, await _execute(record))
        except (asyncio.CancelledError, FailureError) as error:
            outcome = _failure(record, _words(error))
            cancelled = error if workflow.cancellation_reason() is not None else None
        delivered = workflow.cancellation_reason() != names.CALL_DROPPED
        if delivered:
            delivered = await _deliver(record, outcome)
        if cancelled is not None:
            raise cancelled
        return {**outcome, "delivered": delivered}


async def _execute(record: records.ErrandRecord) -> Json | records.Unreadable:
    """Execute the operation, and return its result; a cancellation of this workflow cancels it."""
    summary = engine_summary("For the run ", record.run_id)
    if not record.workflow:
        nexus = workflow.create_nexus_client(service=record.service, endpoint=record.endpoint)
        argument = record.arguments[0] if record.arguments else None
        result: Any = await nexus.execute_operation(
            record.operation, argument, output_type=RawValue, summary=summary
        )
        return received_json(result)
    result = await workflow.execute_child_workflow(
        record.workflow,
        args=record.arguments,
        id=record.workflow_id,
        task_queue=record.task_queue or None,
        result_type=RawValue,
        parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
        memo={"outlast_run": record.run_id},
        static_summary=summary,
    )
    return received_json(result)


async def _deliver(record: records.ErrandRecord, outcome: JsonObject) -> bool:
    """Send the outcome to the run, whichever history it has now; return False if it has ended."""
    delivery = DeliverRecord(
        question=record.question,
        turn=record.turn,
        call_id=record.call_id,
        name=record.name,
        value=blobs.escape(outcome),
        delivery_id=workflow.info().first_execution_run_id,
        source=names.WORKFLOW_ERRAND,
    )
    try:
        run = workflow.get_external_workflow_handle(record.run_id)
        await run.signal(names.DELIVER, records.write(delivery))
    except FailureError:
        return False
    return True


def _deliverable(record: records.ErrandRecord, result: Json | records.Unreadable) -> JsonObject:
    """Return the result as a value that a run takes, or say why there is none."""
    if isinstance(result, records.Unreadable):
        return _failure(record, f"its result cannot be read: {result.problem}")
    outcome: JsonObject = {"result": result}
    try:
        check_shape(outcome)
    except ValueError as error:
        return _failure(record, f"its result cannot be delivered: {error}")
    size = size_of(blobs.escape(outcome))
    if size > LARGEST_VALUE_BYTES:
        return _failure(
            record,
            f"its result has {size:,} bytes as JSON, of at most {LARGEST_VALUE_BYTES:,}. Return the "
            "address of the data instead",
        )
    return outcome


def _failure(record: records.ErrandRecord, words: str) -> JsonObject:
    what = (
        f"The workflow {record.workflow} ({record.workflow_id})"
        if record.workflow
        else f"The Nexus operation {record.service}.{record.operation}"
    )
    return {"failure": head(f"{what} failed: {words}.", LONGEST_FAILURE)}


def _words(error: BaseException) -> str:
    """Return why an operation failed: the innermost error, without what Temporal wraps it in."""
    while error.__cause__ is not None and not isinstance(error, ApplicationError):
        error = error.__cause__
    match error:
        case ApplicationError():
            kind = f"{error.type}: " if error.type else ""
            return f"{kind}{error.message}".rstrip(".")
        case WorkflowAlreadyStartedError():
            return "a workflow with this id is running already"
        case EngineTimeoutError():
            return "it timed out"
        case CancelledError() | asyncio.CancelledError():
            return "it was cancelled"
        case TerminatedError():
            return "it was terminated"
        case _:
            return str(error).rstrip(".")
