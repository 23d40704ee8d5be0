"""Wakes a model call whose response the provider has made in the background."""

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import ResetActivityRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from outlast.contract import failures, names

_IS_OVER = frozenset({RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION})
_CANNOT = frozenset({RPCStatusCode.UNIMPLEMENTED, RPCStatusCode.INVALID_ARGUMENT})


async def look_for_response(client: Client, run_id: str) -> bool:
    """Let a run's model call look now for the response that the provider makes in the background.

    The call itself asks the provider, so nobody can pass off another response. A server that cannot
    wake an activity lets it look in its own time, within half a minute.

    Args:
        client: connected to the run's namespace.
        run_id: the run.

    Returns:
        Whether a model call waited for a response, and was woken.
    """
    try:
        description = await client.get_workflow_handle(run_id).describe()
        waiting = filter(_waits, description.raw_description.pending_activities)
        woken = [await _wake(client, run_id, one.activity_id) for one in waiting]
    except RPCError as error:
        if error.status in _IS_OVER | _CANNOT:
            return False
        raise
    return bool(woken)


def _waits(info: PendingActivityInfo) -> bool:
    is_between = info.state == PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
    code = info.last_failure.application_failure_info.type
    is_model = info.activity_type.name == names.ACTIVITY_MODEL
    return is_between and is_model and code == failures.MODEL_WORKING


async def _wake(client: Client, run_id: str, activity_id: str) -> None:
    await client.workflow_service.reset_activity(
        ResetActivityRequest(
            namespace=client.namespace,
            execution=WorkflowExecution(workflow_id=run_id),
            identity=client.identity,
            id=activity_id,
        )
    )
