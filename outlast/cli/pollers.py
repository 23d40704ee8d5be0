"""Whether a worker waits on a task queue.

Owns: the hint for people who wait for a worker that nobody has started.
Must not know: what is waited for.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from outlast.cli import terminal

if TYPE_CHECKING:
    from temporalio.client import Client

HINT_AFTER = timedelta(seconds=2)
"""A worker that runs has taken up a run well before this."""


async def pollers(client: "Client", task_queue: str) -> list[str]:
    """Return the identities of the workers that wait for runs on a task queue.

    A worker that was killed is listed until its last poll would have ended, about a minute.

    Raises:
        RPCError: the server does not tell.
    """
    from outlast.client import unattended

    return await unattended.pollers(client, task_queue)


@asynccontextmanager
async def hint_without_worker(
    client: "Client", task_queue: str, console: terminal.Screen
) -> AsyncGenerator[None]:
    """Say so when the block takes long and no worker waits on the task queue."""
    from temporalio.service import RPCError

    async def look() -> None:
        await asyncio.sleep(HINT_AFTER.total_seconds())
        with suppress(RPCError):
            if not await pollers(client, task_queue):
                terminal.say(
                    console,
                    f"No worker waits on the task queue {task_queue!r}, so nothing happens until "
                    "you start one: `outlast worker MODULE`.",
                )

    looking = asyncio.create_task(look())
    try:
        yield
    finally:
        looking.cancel()
