"""Reads what became of the notices that a run's end left."""

from typing import Any

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from outlast.archive import workflow_handle
from outlast.contract import names, records
from outlast.loop.notices import Delivered, NoticeReceipt, Undelivered


async def notices_after_end(client: Client, execution: str) -> NoticeReceipt:
    """Return what became of the notices that the end of an execution left.

    What is still on its way is not part of it.
    """
    lost: list[Undelivered] = []
    delivered: list[Delivered] = []
    number = 0
    while True:
        handle = workflow_handle(client, names.notices_id(execution, number))
        try:
            description = await handle.describe()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return NoticeReceipt(undelivered=tuple(lost), delivered=tuple(delivered))
            raise
        if description.status is WorkflowExecutionStatus.COMPLETED:
            result: Any = await handle.result()
            receipt = records.read(NoticeReceipt, result)
            lost += receipt.undelivered
            delivered += receipt.delivered
        number += 1
