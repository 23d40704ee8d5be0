"""Warns about a run that no worker hosts: nobody polls its task queue."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from temporalio.client import Client
from temporalio.service import RPCError

from outlast.agents.logs import get_logger
from outlast.client.transport.pollers import pollers

WARN_AFTER = timedelta(seconds=5)
"""A running worker starts a run well before this."""

logger = get_logger(__name__)


@asynccontextmanager
async def warned_without_worker(client: Client, run_id: str) -> AsyncGenerator[None]:
    """Log a warning if the block takes long and no worker polls the task queue."""
    watching = asyncio.create_task(_warn_if_unserved(client, run_id))
    try:
        yield
    finally:
        watching.cancel()


async def _warn_if_unserved(client: Client, run_id: str) -> None:
    await asyncio.sleep(WARN_AFTER.total_seconds())
    with suppress(RPCError):
        description = await client.get_workflow_handle(run_id).describe()
        queue = description.task_queue
        if description.close_time is None and not await pollers(client, queue):
            logger.warning(
                "The run %s waits: no worker has polled the task queue %r within the last minute. "
                "Start one, AgentWorker(client, agents=[...], task_queue=%r), or pass the task "
                "queue of your workers.",
                run_id,
                queue,
                queue,
            )
