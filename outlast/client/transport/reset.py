"""Resets a run that has failed and closed to the step that failed."""

from typing import Final

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client

from outlast.agents.errors import RunClosed, UserError
from outlast.client.transport.executions import first_of
from outlast.contract import failures, names
from outlast.loop.state import LoopState

_SAVES: Final = frozenset({names.ACTIVITY_SAVE, names.ACTIVITY_OFFLOAD})


async def reset_to_failed_step(client: Client, state: LoopState, first: str | None) -> None:
    """Let a failed run continue from the workflow task that scheduled its last step.

    Earlier steps keep their results; those of that workflow task are carried out again.

    Raises:
        RunClosed: another run uses the id now, which a reset would end; `first` is the first
            execution of the run that failed.
        UserError: the run has not failed, or a retry cannot help.
        RPCError: the server refused.
    """
    run_id, failure = state.run_id, state.failure
    if state.outcome != "failed":
        raise UserError(
            f"The run {run_id} is {state.status}, so there is no failed question to retry."
        )
    if failure is not None and failure.code == failures.MAX_TURNS_EXCEEDED:
        raise UserError(
            f"The run {run_id} has used up its max_turns, and a retry would have none left. Start "
            "a new run with more."
        )
    workflow = client.get_workflow_handle(run_id)
    description = await workflow.describe()
    if first is not None and first_of(description) != first:
        raise RunClosed(
            f"The run {run_id} has ended, and another run uses its id now. Start a new run."
        )
    execution = description.run_id
    history = await client.get_workflow_handle(run_id, run_id=execution).fetch_history()
    saves = state.saving.save_failure is not None
    tasks = [_task_of_step(event, saves=saves) for event in history.events]
    point = max((task for task in tasks if task is not None), default=None)
    if point is None:
        raise UserError(f"The run {run_id} failed before its first step. Start a new run.")
    await client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=run_id, run_id=execution),
            reason="outlast retry",
            workflow_task_finish_event_id=point,
            request_id=f"retry-{execution}",  # a repeated call is the same reset
        )
    )


def _task_of_step(event: HistoryEvent, *, saves: bool) -> int | None:
    match event.event_type:
        case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            scheduled = event.activity_task_scheduled_event_attributes
            if saves or scheduled.activity_type.name not in _SAVES:
                return scheduled.workflow_task_completed_event_id
        case EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
            child = event.start_child_workflow_execution_initiated_event_attributes
            if child.workflow_type.name == names.WORKFLOW:  # and not the notices of the end
                return child.workflow_task_completed_event_id
        case _:
            pass
    return None
