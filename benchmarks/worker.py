"""The measured worker, in a process of its own.

    python benchmarks/worker.py outlast|websocket|floor ADDRESS MODEL_URL

Prints `ready` when it takes work, and for each line on standard input its resource usage so far, as
JSON. It ends with its standard input.
"""

import asyncio
import sys
from typing import Literal

from temporalio.client import Client

from benchmarks.usage import report_when_asked
from outlast.cli import event_loop
from outlast.client.transport.connection import connect

TASK_QUEUES = {
    "outlast": "bench-outlast",
    "websocket": "bench-websocket",
    "floor": "bench-floor",
}
AGENT = "Notes"

NOTE = " ".join(f"note {number * 7919 % 10007}" for number in range(200))[:1024]
"""The tool's result: 1 KB."""


async def _run_outlast(client: Client, model_url: str) -> None:
    await _run_agent(client, model_url, "http", TASK_QUEUES["outlast"])


async def _run_websocket(client: Client, model_url: str) -> None:
    await _run_agent(client, model_url, "websocket", TASK_QUEUES["websocket"])


async def _run_agent(
    client: Client, model_url: str, transport: Literal["http", "websocket"], queue: str
) -> None:
    from outlast import Agent, function_tool
    from outlast.models import OpenAIProvider
    from outlast.worker import AgentWorker

    @function_tool(effect="read")
    async def note(number: int) -> str:
        """Keep a note.

        Args:
            number: The number of the note.
        """
        return f"{number:04d} {NOTE}"[:1024]

    agent = Agent(name=AGENT, instructions="You keep notes.", tools=[note])
    async with AgentWorker(
        client,
        agents=[agent],
        task_queue=queue,
        model_provider=OpenAIProvider(base_url=model_url, api_key="none", transport=transport),
    ):
        print("ready", flush=True)
        await asyncio.Event().wait()


async def _run_floor(client: Client, model_url: str) -> None:
    from openai import AsyncOpenAI
    from temporalio.worker import Worker

    from benchmarks.floor import Floor, FloorActivities

    activities = FloorActivities(
        AsyncOpenAI(base_url=model_url, api_key="none", max_retries=0), NOTE
    )
    async with Worker(
        client,
        task_queue=TASK_QUEUES["floor"],
        workflows=[Floor],
        activities=[activities.ask_model, activities.note],
        build_id="floor",
    ):
        print("ready", flush=True)
        await asyncio.Event().wait()


async def main(subject: str, address: str, model_url: str) -> None:
    """Carry runs until standard input ends."""
    report_when_asked()
    # As `outlast worker` connects; the floor connects as the SDK does by default.
    client = await (Client.connect(address) if subject == "floor" else connect(address))
    run = {"outlast": _run_outlast, "websocket": _run_websocket, "floor": _run_floor}[subject]
    await run(client, model_url)


if __name__ == "__main__":
    # The floor's event loop is Python's own; ours is that of `outlast worker`.
    (asyncio.run if sys.argv[1] == "floor" else event_loop.run)(main(*sys.argv[1:4]))
