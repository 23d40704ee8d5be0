"""A worker that dies while its second model is called, as a program.

`fallback_worker_program.py ADDRESS QUEUE`.
"""

import asyncio
import os
import signal
import sys
from typing import Any

from outlast import Agent, FallbackModel
from outlast.client import connect
from outlast.ports.model import ModelError, ModelRequest
from outlast.testing import ScriptedModel
from outlast.worker import AgentWorker

address, queue = sys.argv[1:]
NO_QUOTA = ModelError("Nothing is left.", code="quota_exceeded", retryable=False, status=429)


def die(_request: ModelRequest) -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


async def main() -> None:
    models = FallbackModel(ScriptedModel(NO_QUOTA), ScriptedModel(die))
    client = await connect(address)
    async with AgentWorker(
        client, agents=[Agent[Any](name="Helper", model=models)], task_queue=queue
    ):
        await asyncio.Event().wait()


asyncio.run(main())
