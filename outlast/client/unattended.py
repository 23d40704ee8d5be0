"""A run that nobody carries: what a program that waits for it is told.

Owns: asking who waits for work on a run's task queue, and the warning where nobody does. Must not
know: how the run is waited for.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from time import time

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError

from outlast.agents.logs import get_logger

WARN_AFTER = timedelta(seconds=5)
"""A worker that runs has taken up a run well before this."""

LONGEST_POLL = timedelta(seconds=70)
"""A worker that waits has asked at least once within this."""

logger = get_logger(__name__)


@asynccontextmanager
async def warned_without_worker(client: Client, run_id: str) -> AsyncGenerator[None]:
    """Warn once, in the log, when the block takes long and no worker asks for the run's work.

    Args:
        client: a connected Temporal client.
        run_id: the run that the block waits for.
    """
    looking = asyncio.create_task(_look(client, run_id))
    try:
        yield
    finally:
        looking.cancel()


async def _look(client: Client, run_id: str) -> None:
    await asyncio.sleep(WARN_AFTER.total_seconds())
    with suppress(RPCError):
        description = await client.get_workflow_handle(run_id).describe()
        queue = description.task_queue
        if description.close_time is None and not await pollers(client, queue):
            logger.warning(
                "The run %s waits: no worker has asked for work on the task queue %r within the "
                "last minute. Start one, AgentWorker(client, agents=[...], task_queue=%r), or give "
                "the queue on which yours wait.",
                run_id,
                queue,
                queue,
            )


async def pollers(client: Client, task_queue: str) -> list[str]:
    """Return the identities of the workers that wait for runs on a task queue.

    A worker that was killed is listed until its last poll would have ended, about a minute.

    Raises:
        RPCError: the server does not tell.
    """
    answer = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=TaskQueue(name=task_queue),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        )
    )
    oldest = time() - LONGEST_POLL.total_seconds()
    return [one.identity for one in answer.pollers if one.last_access_time.seconds >= oldest]
