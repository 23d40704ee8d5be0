"""Measures a reply with many fast calls, and calls beside one that blocks the event loop.

    python benchmarks/many_calls.py [--calls 500] [--block 15]

The exit code is 1 where a limit is missed: all calls of a reply within 5 seconds, and every run's
answer within ten seconds of the end of the block. The worker is in this process, the server is not.
"""

import argparse
import asyncio
import os
import sys
import time
from typing import Any

from temporalio.client import Client

from outlast import Agent, Runner, function_tool
from outlast.contract import names
from outlast.dev import EmbeddedServer
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, say
from outlast.worker import AgentWorker

CALLS_SECONDS = 5.0
AFTER_BLOCK_SECONDS = 10.0
QUEUE = "many-calls"


def agent_of(block: float) -> Agent[Any]:
    """Return an agent whose tool blocks the loop for number 0."""

    @function_tool(fast=True)
    async def look(number: int) -> str:
        """Look something up."""
        if number == 0:
            time.sleep(block)  # noqa: ASYNC251  this is what is measured
        return f"{number}"

    return Agent(name="Clerk", tools=[look])


def reply(request: ModelRequest) -> Any:
    """Call the tool for each number that the question names, then answer."""
    if len(request.input) > 1:
        return say("Done.")
    first, _, last = str(request.input[0]["content"]).partition("-")
    numbers = range(int(first), int(last) + 1)
    return [call("look", f"c{number}", number=number) for number in numbers]


async def measure(client: Client, questions: list[str]) -> float:
    """Return how long the runs of several questions take side by side, in seconds."""
    began = time.monotonic()
    await asyncio.gather(
        *(Runner.run("Clerk", one, client=client, task_queue=QUEUE) for one in questions)
    )
    return time.monotonic() - began


async def main(calls: int, block: float) -> int:
    """Print both figures; return 1 if one is beyond its limit."""
    async with EmbeddedServer(ui_port=None, search_attributes=names.SEARCH_ATTRIBUTES) as server:
        client = await Client.connect(server.address)
        model = ScriptedModel(always=reply)
        agent = agent_of(block)
        async with AgentWorker(client, agents=[agent], task_queue=QUEUE, model_provider=model):
            await measure(client, ["1-1"])
            many = await measure(client, [f"1-{calls}"])
            beside = await measure(client, ["0-0", *["1-3"] * 4])
    load = os.getloadavg()[0]
    print(f"{calls} fast calls of one reply: {many:.1f} s (limit {CALLS_SECONDS:.0f})")
    print(f"five runs, one blocks for {block:.0f} s: {beside:.1f} s")
    print(f"load average {load:.1f} on {os.cpu_count()} cores")
    return int(many > CALLS_SECONDS or beside > block + AFTER_BLOCK_SECONDS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--block", type=float, default=15.0)
    options = parser.parse_args()
    sys.exit(asyncio.run(main(options.calls, options.block)))
