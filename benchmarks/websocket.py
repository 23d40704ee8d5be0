"""Measures the Responses API over WebSocket against HTTP: bytes, delay and CPU.

    python benchmarks/websocket.py [--repeats 5] [--json]

A conversation of n turns calls one tool in each turn but the last, with results of 1 KB. First the
model adapters alone stream it: the bytes that they send, the time to the first event of a turn,
and their CPU. Then workers of both transports execute it as a run, which is not streamed. The
transports take turns; the model server and the workers are processes of their own. Every ratio is
the median of the ratios within each repeat.
"""

import argparse
import asyncio
import json
import secrets
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, Literal

from temporalio.client import Client

from benchmarks import worker
from benchmarks.model_server import question
from benchmarks.processes import Child
from benchmarks.surroundings import OtherPrograms, surroundings
from outlast import Runner
from outlast.contract import names
from outlast.dev import EmbeddedServer
from outlast.loop.values import JsonObject
from outlast.models import OpenAIProvider
from outlast.ports.model import ModelRequest, ToolSpec

HERE = Path(__file__).parent
TRANSPORTS: Sequence[Literal["http", "websocket"]] = ("http", "websocket")
QUEUES = {"http": "outlast", "websocket": "websocket"}
SIZES = (20, 100)
CONVERSATIONS = {20: 5, 100: 1}
"""How many conversations of a size are measured together."""

ROWS = {
    f"{name}_{size}": (title.format(size), form)
    for size in SIZES
    for name, title, form in (
        ("bytes", "bytes sent in a conversation of {} turns", "{:,.0f}"),
        ("first_ms", "first event of a turn, {} turns, ms", "{:.2f}"),
        ("last_first_ms", "first event of the last five of {} turns, ms", "{:.2f}"),
        ("adapter_ms", "CPU of the adapter per turn, {} turns, streamed, ms", "{:.2f}"),
        ("worker_ms", "CPU of a worker per turn, {} turns, ms", "{:.2f}"),
    )
}

TOOL = ToolSpec(
    name="note",
    description="Keep a note.",
    parameters={"type": "object", "properties": {"number": {"type": "integer"}}},
)


class Subject:
    """One transport: its adapter in this process, and its worker."""

    def __init__(
        self, transport: Literal["http", "websocket"], client: Client, model: Child, process: Child
    ) -> None:
        self.transport = transport
        self.provider = OpenAIProvider("none", model.greeting, transport=transport)
        self._client = client
        self._server = model
        self._process = process

    async def sent(self) -> int:
        """Return the bytes of all requests so far, as the server counts them."""
        return json.loads(await self._server.ask())[self.transport]

    async def spent_s(self) -> float:
        """Return the CPU seconds of the worker so far."""
        return json.loads(await self._process.ask())["cpu_s"]

    async def converse(self, turns: int) -> list[float]:
        """Stream one conversation, and return the milliseconds to each turn's first event."""
        model = self.provider.get_model("benchmark")
        items: list[JsonObject] = [{"role": "user", "content": question(turns)}]
        request = ModelRequest(
            instructions="You keep notes.",
            input=items,
            tools=[TOOL],
            run_id=secrets.token_hex(6),
        )
        waits: list[float] = []
        for _ in range(turns):
            begun, first = time.perf_counter(), None
            output: list[JsonObject] = []
            async with aclosing(model.stream_response(replace(request, input=items))) as events:
                async for event in events:
                    first = first or time.perf_counter()
                    if event["type"] == "response.completed":
                        output = event["response"]["output"]
            assert first is not None
            waits.append((first - begun) * 1000)
            items = [*items, *output]
            if output[0]["type"] == "function_call":
                answer = {"type": "function_call_output", "call_id": output[0]["call_id"]}
                items.append({**answer, "output": worker.NOTE})
        return waits

    async def run(self, turns: int) -> None:
        """Execute one run to its end."""
        run_id = f"bench-{self.transport}-{secrets.token_hex(6)}"
        queue = worker.TASK_QUEUES[QUEUES[self.transport]]
        await Runner.start(
            worker.AGENT,
            question(turns),
            id=run_id,
            max_turns=None,
            client=self._client,
            task_queue=queue,
        )
        await self._client.get_workflow_handle(run_id).result()


async def measure_size(subject: Subject, turns: int) -> dict[str, float]:
    """Measure conversations and runs of one size."""
    count = CONVERSATIONS[turns]
    sent, cpu_s = await subject.sent(), time.process_time()
    waits = [await subject.converse(turns) for _ in range(count)]
    cpu_s, sent = time.process_time() - cpu_s, await subject.sent() - sent
    worker_s = await subject.spent_s()
    for _ in range(count):
        await subject.run(turns)
    worker_s = await subject.spent_s() - worker_s
    return {
        f"bytes_{turns}": sent / count,
        f"first_ms_{turns}": median(wait for one in waits for wait in one),
        f"last_first_ms_{turns}": median(wait for one in waits for wait in one[-5:]),
        f"adapter_ms_{turns}": cpu_s / (count * turns) * 1000,
        f"worker_ms_{turns}": worker_s / (count * turns) * 1000,
    }


async def measure(repeats: int) -> dict[str, Any]:
    """Measure everything, and return the medians with all that they are made of."""
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        server = await enter(
            EmbeddedServer(ui_port=None, search_attributes=names.SEARCH_ATTRIBUTES)
        )
        model = await enter(Child(str(HERE / "model_server.py")))
        client = await Client.connect(server.address)
        subjects: list[Subject] = []
        for transport in TRANSPORTS:
            arguments = (QUEUES[transport], server.address, model.greeting)
            process = await enter(Child(str(HERE / "worker.py"), *arguments))
            subjects.append(Subject(transport, client, model, process))
            stack.push_async_callback(subjects[-1].provider.aclose)
        for subject in subjects:  # warm: packages loaded, connections open
            await measure_size(subject, 20)
        others = OtherPrograms([model.pid, server.info.pid])
        every: list[dict[str, dict[str, float]]] = []
        for repeat in range(repeats):
            print(f"repeat {repeat + 1} of {repeats}", file=sys.stderr)
            numbers: dict[str, dict[str, float]] = {one: {} for one in TRANSPORTS}
            for turns in SIZES:
                for subject in subjects if repeat % 2 == 0 else subjects[::-1]:
                    numbers[subject.transport].update(await measure_size(subject, turns))
            every.append(numbers)
        busy = others.cores()
    medians = {one: _medians([numbers[one] for numbers in every]) for one in TRANSPORTS}
    ratios = _medians(
        [{row: one["websocket"][row] / one["http"][row] for row in ROWS} for one in every]
    )
    found = {"repeats": repeats, "medians": medians, "ratios": ratios, "every": every}
    return {**surroundings(), "others_cores": busy, **found}


def _medians(repeats: list[dict[str, float]]) -> dict[str, float]:
    return {row: median(one[row] for one in repeats) for row in repeats[0]}


def table(measured: dict[str, Any]) -> str:
    """Return the medians as a table in Markdown."""
    lines = ["| | HTTP | WebSocket | ratio |", "|---|---:|---:|---:|"]
    for row, (title, form) in ROWS.items():
        cells = [form.format(measured["medians"][one][row]) for one in TRANSPORTS]
        lines.append(f"| {title} | {' | '.join(cells)} | {measured['ratios'][row]:.2f} |")
    where = f"{measured['date']}; {measured['machine']}; {measured['versions']}"
    lines += ["", f"{where}; medians of {measured['repeats']}."]
    if measured["others_cores"] is not None:
        lines.append(
            f"Meanwhile, workers and other programs kept {measured['others_cores']:.1f} cores busy."
        )
    return "\n".join(lines)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print every number instead of a table")
    options = parser.parse_args()
    measured = asyncio.run(measure(options.repeats))
    print(json.dumps(measured, indent=2) if options.json else table(measured))
    return 0


if __name__ == "__main__":
    sys.exit(main())
