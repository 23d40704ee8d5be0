"""Asks the server which workers there are."""

from datetime import timedelta
from time import time
from typing import Final

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client

LONGEST_POLL: Final = timedelta(seconds=70)
"""A waiting worker polls at least once within this."""


async def pollers(client: Client, task_queue: str) -> list[str]:
    """Return the workers that poll a queue for workflows; a killed one is listed for a minute."""
    answer = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=TaskQueue(name=task_queue),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        )
    )
    oldest = time() - LONGEST_POLL.total_seconds()
    return [
        poller.identity for poller in answer.pollers if poller.last_access_time.seconds >= oldest
    ]
