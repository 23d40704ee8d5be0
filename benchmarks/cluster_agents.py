"""The agent of the measured workers, which `outlast worker` starts for `cluster.py`."""

import os

from benchmarks.worker import AGENT, NOTE
from outlast import Agent, function_tool
from outlast.models import OpenAIProvider
from outlast.worker import AgentWorkerConfig

QUEUE = "bench-cluster"


@function_tool
async def note(number: int) -> str:
    """Keep a note.

    Args:
        number: The number of the note.
    """
    return f"{number:04d} {NOTE}"[:1024]


def worker_config() -> AgentWorkerConfig:
    """Return the arguments of the worker; its model is the scripted one of the benchmarks."""
    return {
        "agents": [Agent(name=AGENT, instructions="You keep notes.", tools=[note])],
        "task_queue": QUEUE,
        "model_provider": OpenAIProvider(base_url=os.environ["BENCH_MODEL_URL"], api_key="none"),
    }
