"""The kind of change that CONTRIBUTING.md adds: the timeline says who changes the context."""

import asyncio
import json
import subprocess
import sys
from typing import Any

from temporalio.client import Client

from outlast import Agent, RunContextWrapper, Runner, function_tool
from outlast.testing import ScriptedModel, call
from outlast.worker import AgentWorker


@function_tool
def count(wrapper: RunContextWrapper[dict[str, int]]) -> str:
    """Count a visitor."""
    wrapper.context["visitors"] += 1
    return "counted"


agent = Agent[Any](name="Clerk", tools=[count])


def timeline(run_id: str) -> list[dict[str, Any]]:
    """Return what `outlast tail` shows of a run."""
    program = f"import sys; sys.argv[1:] = {['tail', run_id, '--json', '--address', sys.argv[1]]!r}"
    program += "; from outlast.cli.entry import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


async def main() -> None:
    client = await Client.connect(sys.argv[1])
    model = ScriptedModel([call("count", "c1")], "You are the first.")
    async with AgentWorker(client, agents=[agent], task_queue="new-change", model_provider=model):
        handle = await Runner.start(
            agent, "Hello", context={"visitors": 0}, client=client, task_queue="new-change"
        )
        await handle.result()
    entries = await asyncio.to_thread(timeline, handle.id)
    types = [entry["type"] for entry in entries if entry["type"] != "raw_response_event"]
    assert types == [
        "agent_updated",
        "message_input",
        "tool_called",
        "tool_output",
        "context",
        "message_output_created",
        "status",
    ], types
    (changed,) = [entry for entry in entries if entry["type"] == "context"]
    assert (changed["who"], "id" in changed) == ("Clerk", False), changed
    numbers = [entry["id"] for entry in entries if "id" in entry]
    assert numbers == list(range(len(numbers))), numbers


asyncio.run(main())
