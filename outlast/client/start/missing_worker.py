"""Warns about a run that no worker hosts, or whose workers lack what it needs."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Final

from temporalio.client import WorkflowExecutionDescription
from temporalio.service import RPCError

from outlast.agents.errors import AgentsException
from outlast.agents.logs import get_logger
from outlast.agents.run_objects import RUN_OBJECTS, RunKey
from outlast.client.handle import RunHandle
from outlast.client.transport.executions import first_of
from outlast.client.transport.pollers import pollers
from outlast.edges.rendering import visible
from outlast.edges.tasks import meanwhile
from outlast.views.run import loop_state

WARN_AFTER = timedelta(seconds=5)
"""A running worker starts a run well before this."""

logger: Final = get_logger(__name__)


@asynccontextmanager
async def warned_without_worker(handle: RunHandle) -> AsyncGenerator[None]:
    """Log a warning if the block takes long, and no worker can carry the run out."""
    with meanwhile(_warn_if_unserved(handle)):
        yield


async def _warn_if_unserved(handle: RunHandle) -> None:
    await asyncio.sleep(WARN_AFTER.total_seconds())
    with suppress(RPCError, AgentsException):
        description = await handle.check()
        if description.close_time is not None:
            return
        queue = description.task_queue
        if not await pollers(handle.client, queue):
            logger.warning(
                "The run %s waits: no worker has polled the task queue %r within the last minute. "
                "Start one, AgentWorker(client, agents=[...], task_queue=%r), or pass the task "
                "queue of your workers.",
                handle.id,
                queue,
                queue,
            )
        if _is_hosted_here(handle, description):
            return  # its worker says by itself what it lacks, and looks again soon
        for one in loop_state(await handle.state()).blocked:
            logger.warning("The run %s waits for a worker: %s", handle.id, visible(one.lacks))


def _is_hosted_here(handle: RunHandle, description: WorkflowExecutionDescription) -> bool:
    """Whether this process has brought the agents of a run, which it hosts."""
    objects = RUN_OBJECTS.get(RunKey(handle.client.namespace, first_of(description)))
    return objects is not None and objects.definitions is not None
