"""Measures the time of `run_in_memory` for a run of three turns with two tool calls.

    python benchmarks/in_memory.py [--repeats 200]

The exit code is 1 if the median is 5 ms or more.
"""

import argparse
import asyncio
import sys
import time
from statistics import median

from outlast import Agent, function_tool
from outlast.testing import ScriptedModel, call, run_in_memory

LIMIT_MS = 5.0


@function_tool
async def look_up(order_id: str) -> str:
    """Look an order up.

    Args:
        order_id: The order, such as A-17.
    """
    return f"{order_id} is on its way."


async def measure() -> float:
    """Return how long one run takes, in milliseconds."""
    agent = Agent("Orders", instructions="Look orders up.", tools=[look_up])
    model = ScriptedModel(
        [call("look_up", "c1", order_id="A-17")],
        [call("look_up", "c2", order_id="A-18")],
        "Both are on their way.",
    )
    start = time.perf_counter()
    result = await run_in_memory(agent, "Where are A-17 and A-18?", model=model)
    spent_ms = (time.perf_counter() - start) * 1000
    assert result.turns == 3
    return spent_ms


async def main(repeats: int) -> int:
    """Measure often, and say the median."""
    first = await measure()  # imports and schemas
    times = sorted([await measure() for _ in range(repeats)])
    print(f"the first run in a process: {first:.1f} ms")
    print(f"3 turns, median of {repeats}: {median(times):.2f} ms (limit {LIMIT_MS:g} ms)")
    print(f"95th percentile: {times[int(repeats * 0.95)]:.2f} ms")
    return int(median(times) >= LIMIT_MS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=200)
    sys.exit(asyncio.run(main(parser.parse_args().repeats)))
