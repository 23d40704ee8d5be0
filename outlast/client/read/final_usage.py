"""What an ended run used, read from the last event of its history alone."""

from collections.abc import Sequence

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import HistoryEventFilterType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryRequest
from temporalio.client import Client

from outlast.contract.records import LeftRecord, RunResultRecord, UnreadableRecordError, read
from outlast.loop.values import Json, ModelUse
from outlast.temporal.payloads.failures import failure_of_cause
from outlast.temporal.payloads.readable import decode_failure, values_of


async def final_uses(client: Client, run_id: str, execution_id: str) -> Sequence[ModelUse] | None:
    """Return what an ended run used; None if its last event does not say it.

    A run that was cancelled, terminated or timed out does not, nor does an open one.

    Raises:
        temporalio.service.RPCError: the server refuses, or does not have the history any more.
    """
    request = GetWorkflowExecutionHistoryRequest(
        namespace=client.namespace,
        execution=WorkflowExecution(workflow_id=run_id, run_id=execution_id),
        history_event_filter_type=HistoryEventFilterType.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT,
    )
    found = await client.workflow_service.get_workflow_execution_history(request)
    events = found.history.events
    return await _uses_of(client, events[-1]) if events else None


async def _uses_of(client: Client, event: HistoryEvent) -> Sequence[ModelUse] | None:
    try:
        if event.HasField("workflow_execution_completed_event_attributes"):
            ended = event.workflow_execution_completed_event_attributes
            values = await values_of(client.data_converter, ended.result.payloads[:1])
            if values:
                return read(RunResultRecord, values[0]).uses
        elif event.HasField("workflow_execution_failed_event_attributes"):
            failure = event.workflow_execution_failed_event_attributes.failure
            error = await decode_failure(client.data_converter, failure)
            left: Json = failure_of_cause(error).spent
            if left is not None:
                return read(LeftRecord, left).uses
    except UnreadableRecordError:  # foreign, or under another key
        pass
    return None
