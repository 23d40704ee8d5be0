"""Measures how long the inbox takes to list what waits for people.

    python benchmarks/inbox.py [--runs 1000] [--repeats 30]

Starts runs on the embedded server that each wait for one approval, every tenth of them in a nested
run, and then lists them: a page of 100 of them, all of them, and one person's first page. The exit
code is 1 if the median of a page is 300 ms or more. The embedded server keeps visibility in SQLite
and takes about a millisecond of CPU for each run that it lists.
"""

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable

from temporalio.client import Client

from outlast import Agent, Inbox, Runner, function_tool
from outlast.contract import names
from outlast.dev import EmbeddedServer
from outlast.testing import ScriptedModel, call
from outlast.worker import AgentWorker

LIMIT_MS = 300
NESTED_EVERY = 10
AT_ONCE = 40
"""How many runs are started at a time."""


@function_tool(needs_approval=True)
async def refund(order: str) -> str:
    """Refund an order.

    Args:
        order: The order.
    """
    return f"refunded {order}"


def desk() -> tuple[Agent, Agent]:
    """Return an agent with a tool that waits for a person, and one that has it as a tool."""
    billing = Agent("Billing", tools=[refund])
    return billing, Agent("Desk", tools=[billing.as_tool("ask_billing", "Ask about refunds.")])


def model() -> ScriptedModel:
    """Return a model that asks for one refund, or passes the question on."""
    return ScriptedModel(
        always=lambda request: [
            call("ask_billing", "c1", input="Refund it.")
            if any(tool.name == "ask_billing" for tool in request.tools)
            else call("refund", "c1", order="A-17")
        ]
    )


async def start_all(client: Client, runs: int) -> None:
    """Start the runs, and wait until the inbox has all of them."""
    billing, nesting = desk()
    turn = asyncio.Semaphore(AT_ONCE)

    async def start(number: int) -> None:
        agent = nesting if number % NESTED_EVERY == 0 else billing
        async with turn:
            handle = await Runner.start(agent, "Hello", id=f"run-{number}", client=client)
            await handle.wait_for_people()

    await asyncio.gather(*map(start, range(runs)))
    async with asyncio.timeout(120):
        while sum([1 async for _ in Inbox(client).all()]) < runs:  # noqa: ASYNC110  nothing announces it
            await asyncio.sleep(0.2)


async def measure(name: str, repeats: int, action: Callable[[], Awaitable[int]]) -> float:
    """Repeat an action, print its median and its 95th percentile, and return the median."""
    taken: list[float] = []
    found = 0
    for _ in range(repeats):
        begin = time.perf_counter()
        found = await action()
        taken.append((time.perf_counter() - begin) * 1000)
    p50, p95 = statistics.median(taken), statistics.quantiles(taken, n=20)[-1]
    print(f"{name}: {found:,} entries, p50 {p50:.0f} ms, p95 {p95:.0f} ms ({repeats} times)")
    return p50


async def main(runs: int, repeats: int) -> int:
    """Measure all ways to list, and compare a page with the limit."""
    async with EmbeddedServer(ui_port=None, search_attributes=names.SEARCH_ATTRIBUTES) as server:
        client = await Client.connect(server.address)
        inbox = Inbox(client)
        begin = time.perf_counter()
        async with AgentWorker(client, agents=desk(), model_provider=model()):
            await start_all(client, runs)
        seconds = time.perf_counter() - begin
        print(f"{runs:,} runs wait, started in {seconds:.0f} s ({runs / seconds:.0f} per second)")

        async def one_page() -> int:
            return len(await inbox.list(limit=100))

        async def whole() -> int:
            return sum([1 async for _ in inbox.all()])

        async def first_page() -> int:
            return len(await inbox.list(mine="ann", limit=50))

        p50 = await measure("a page of 100", repeats, one_page)
        await measure("everything", repeats, whole)
        await measure("the first 50 for one person", repeats, first_page)
        entry = (await inbox.list(limit=1)).entries[0]

        async def details() -> int:
            return len(await entry.requests())

        await measure("the requests of one run, from its history", repeats, details)
    return int(p50 >= LIMIT_MS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--repeats", type=int, default=30)
    arguments = parser.parse_args()
    sys.exit(asyncio.run(main(arguments.runs, arguments.repeats)))
