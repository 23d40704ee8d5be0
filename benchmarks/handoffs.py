"""Measures the history size of handoff filters, in a run with many handoffs.

    python benchmarks/handoffs.py [--turns 50]

Two agents hand over to each other in every fifth turn and use a tool in the others, with results
of 1 KB. The same run is executed once without filters and once with `remove_all_tools` on every
handoff. The exit code is 1 if the filtered run's history is more than 1.3 times the other's.
"""

import argparse
import asyncio
import secrets
import sys

from temporalio.client import Client

from outlast import Agent, Runner, function_tool, handoff
from outlast.contract import names
from outlast.dev import EmbeddedServer
from outlast.extensions.handoff_filters import remove_all_tools
from outlast.loop.values import JsonObject
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call
from outlast.worker import AgentWorker

LIMIT = 1.3
NOTE = " ".join(f"note {number * 7919 % 10007}" for number in range(200))[:1024]
HANDS_OVER_EVERY = 5


@function_tool
async def note(number: int) -> str:
    """Keep a note.

    Args:
        number: The number of the note.
    """
    return f"{number:04d} {NOTE}"[:1024]


def desk(*, filtered: bool) -> Agent:
    """Return two agents that hand over to each other."""
    chosen = remove_all_tools if filtered else None
    front, back = Agent("Front", tools=[note]), Agent("Back", tools=[note])
    front.handoffs.append(handoff(back, input_filter=chosen))
    back.handoffs.append(handoff(front, input_filter=chosen))
    return front


def script(turns: int) -> ScriptedModel:
    """Return a model that uses the tool, hands over in every fifth turn, and answers at last."""
    made = 0

    def step(request: ModelRequest) -> list[JsonObject]:
        nonlocal made
        made += 1
        call_id = f"call_{made:06d}"
        if made % HANDS_OVER_EVERY == 0:
            transfer = next(one.name for one in request.tools if one.name.startswith("transfer"))
            return [call(transfer, call_id)]
        return [call("note", call_id, number=made)]

    return ScriptedModel(*[step] * (turns - 1), "That was all.")


async def measure(client: Client, turns: int, *, filtered: bool) -> tuple[int, int]:
    """Execute one run; return its history's size in bytes and its length."""
    agent, queue = desk(filtered=filtered), f"bench-{secrets.token_hex(4)}"
    async with AgentWorker(client, agents=[agent], task_queue=queue, model_provider=script(turns)):
        handle = await Runner.start(
            agent, "Keep notes.", id=queue, max_turns=None, client=client, task_queue=queue
        )
        result = await handle.result()
        assert result.turns == turns
        described = await client.get_workflow_handle(queue).describe()
    info = described.raw_description.workflow_execution_info
    return info.history_size_bytes, info.history_length


async def main(turns: int) -> int:
    """Measure both, and say how they compare."""
    async with EmbeddedServer(ui_port=None, search_attributes=names.SEARCH_ATTRIBUTES) as server:
        client = await Client.connect(server.address)
        plain, plain_events = await measure(client, turns, filtered=False)
        filtered, filtered_events = await measure(client, turns, filtered=True)
    ratio = filtered / plain
    print(f"{turns} turns, {turns // HANDS_OVER_EVERY} handoffs")
    print(f"without a filter: {plain:,} bytes, {plain_events:,} events")
    print(f"with remove_all_tools: {filtered:,} bytes, {filtered_events:,} events")
    print(f"ratio: {ratio:.2f} (limit {LIMIT})")
    return int(ratio > LIMIT)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=50)
    sys.exit(asyncio.run(main(parser.parse_args().turns)))
