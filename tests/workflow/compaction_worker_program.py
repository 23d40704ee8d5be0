"""A worker that dies while it summarises, as a program: `compaction_worker_program.py ADDRESS QUEUE`."""

import asyncio
import os
import signal
import sys
from typing import Any

from outlast import Agent, Compaction
from outlast.client import connect
from outlast.loop.values import JsonObject
from outlast.testing import ScriptedModel
from outlast.worker import AgentWorker

address, queue = sys.argv[1:]


async def die(_context: Any, _items: list[JsonObject]) -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


async def main() -> None:
    agent = Agent[Any](name="Desk", compaction=Compaction(window=16, summarize=die))
    model = ScriptedModel("Answer 0.", "Answer 1.")
    client = await connect(address)
    async with AgentWorker(client, agents=[agent], task_queue=queue, model_provider=model):
        await asyncio.Event().wait()


asyncio.run(main())
