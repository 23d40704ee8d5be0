"""A worker that dies, as a program: `mcp_worker_program.py ADDRESS TASK_QUEUE URL`.

It kills itself when the MCP server at the URL has answered a call with a task, before the call waits
for it.
"""

import asyncio
import os
import signal
import sys
from typing import Any

from outlast import Agent
from outlast.agents.mcp import calls
from outlast.client import connect
from outlast.mcp import MCPServerStreamableHttp
from outlast.testing import ScriptedModel, call
from outlast.worker import AgentWorker

address, queue, url = sys.argv[1:]


async def die(*_call: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def main() -> None:
    calls._Call._pause = die  # pyright: ignore[reportAttributeAccessIssue]
    kitchen = MCPServerStreamableHttp({"url": url}, name="kitchen")
    model = ScriptedModel([call("work", "c1", kind="plain")])
    agent = Agent[Any](name="Cook", mcp_servers=[kitchen])
    client = await connect(address)
    async with AgentWorker(client, agents=[agent], task_queue=queue, model_provider=model):
        await asyncio.Event().wait()


asyncio.run(main())
