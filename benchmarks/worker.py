"""The measured worker, in a process of its own.

    python benchmarks/worker.py outlast|floor ADDRESS MODEL_URL

Prints `ready` when it takes work, and for each line on standard input its resource usage so far, as
JSON. It ends with its standard input.
"""

import asyncio
import json
import os
import resource
import sys
import threading

from temporalio.client import Client

TASK_QUEUES = {"outlast": "bench-outlast", "floor": "bench-floor"}
AGENT = "Notes"

NOTE = " ".join(f"note {number * 7919 % 10007}" for number in range(200))[:1024]
"""The tool's result: 1 KB."""


def _spent() -> str:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    # Linux counts in KiB, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return json.dumps(
        {"cpu_s": usage.ru_utime + usage.ru_stime, "peak_rss_bytes": usage.ru_maxrss * unit}
    )


def _tell_when_asked() -> None:
    for _ in sys.stdin:
        print(_spent(), flush=True)
    os._exit(0)


async def _run_outlast(client: Client, model_url: str) -> None:
    from outlast import Agent, function_tool
    from outlast.models import OpenAIProvider
    from outlast.worker import AgentWorker

    @function_tool
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
        task_queue=TASK_QUEUES["outlast"],
        model_provider=OpenAIProvider(base_url=model_url, api_key="none"),
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
    threading.Thread(target=_tell_when_asked, daemon=True).start()
    client = await Client.connect(address)
    run = {"outlast": _run_outlast, "floor": _run_floor}[subject]
    await run(client, model_url)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
