"""A worker that archives, as a program: `archive_worker_program.py ADDRESS NAMESPACE TASK_QUEUE`.

`OUTLAST_ARCHIVE` names the archive.
"""

import asyncio
import sys
from datetime import timedelta
from typing import Any

from temporalio.client import Client

from outlast import Agent
from outlast.archive import Archive
from outlast.archive.locations import archive_from_environment
from outlast.testing import ScriptedModel, say
from outlast.worker import AgentWorker

address, namespace, queue = sys.argv[1:]


async def main() -> None:
    named = archive_from_environment()
    assert named is not None
    desk = Agent[Any](name="Desk", model=ScriptedModel(always=lambda _: say("Noted.")))
    client = await Client.connect(address, namespace=namespace)
    archive = Archive(named.store, every=timedelta(milliseconds=200))
    async with AgentWorker(client, agents=[desk], task_queue=queue, archive=archive):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
