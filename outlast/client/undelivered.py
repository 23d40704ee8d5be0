"""Reads which notices of a run nobody has heard of, also after the run's end."""

from typing import Any

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from outlast.contract import names, records
from outlast.loop.notices import NoticeReceipt, Undelivered


async def undelivered_after_end(client: Client, execution: str) -> tuple[Undelivered, ...]:
    """Return what the end of an execution left and nobody has heard of.

    What is still on its way is not part of it.

    Args:
        client: the client.
        execution: Temporal's run id of the execution.

    Raises:
        RPCError: the server refused.
    """
    found: list[Undelivered] = []
    number = 0
    while True:
        handle = client.get_workflow_handle(names.notices_id(execution, number))
        try:
            description = await handle.describe()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return tuple(found)
            raise
        if description.status is WorkflowExecutionStatus.COMPLETED:
            result: Any = await handle.result()
            found += records.read(NoticeReceipt, result).undelivered
        number += 1
