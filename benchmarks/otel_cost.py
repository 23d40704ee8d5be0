"""Measures what OpenTelemetry costs a worker: its CPU with and without the exporter of `outlast[otel]`.

    python benchmarks/otel_cost.py [--rounds 60] [--read] [--content]

One worker carries the same runs in turn without OpenTelemetry, with spans, and with spans and metrics:
eight turns with a tool, the model over HTTP. It is one process, because two processes that do the same
differ by several percent. Worker, model, server and the collector, which drops what it gets over OTLP, are
processes of their own. Another process makes as many spans with as many attributes with
OpenTelemetry's SDK and nothing else: no exporter of this SDK can cost less.
"""

import argparse
import asyncio
import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median

from benchmarks.model_server import question
from benchmarks.processes import Child
from outlast.cli import event_loop

TURNS = 8
RUNS = 12
AGENT = "Clerk"
QUEUE = "otel-cost"
VARIANTS = ("without", "spans", "all")
"""Without OpenTelemetry, with spans only, and with spans and metrics."""
ADDED_THREADS = (
    "outlast-spans",
    "OtelBatchSpanRecordProcessor",
    "OtelPeriodicExportingMetricReader",
)
WARM_UP = 3
"""How many rounds come before the first that counts."""
BARE_RUNS = 100
"""How many runs' spans the process with the bare SDK makes in a round."""

NOTE = " ".join(f"note {number * 7919 % 10007}" for number in range(200))[:1024]


class Sink(BaseHTTPRequestHandler):
    """Answers every request of an exporter, and drops it."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Take a batch."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  as in the base class
        """Log nothing."""


def answer_lines(answer: Callable[[str], object]) -> None:
    """Answer each line on standard input with JSON; end the process with the input."""
    for line in sys.stdin:
        print(json.dumps(answer(line.strip())), flush=True)
    os._exit(0)


def sink() -> None:
    """Serve as a collector."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    answer_lines(lambda _line: None)


def spent() -> dict[str, float]:
    """Return the CPU seconds of this process so far, and those of its threads with names."""
    found = {"all": time.process_time()}
    for thread in threading.enumerate():
        if thread.ident is not None:
            clock = time.pthread_getcpuclockid(thread.ident)
            name = thread.name.partition("_")[0]
            found[name] = found.get(name, 0.0) + time.clock_gettime(clock)
    return found


async def worker(address: str, model_url: str, *, read: bool, content: bool) -> None:
    """Run a worker until standard input ends; each line names what the next runs are traced with."""
    from outlast import Agent, function_tool
    from outlast.client.transport.connection import connect
    from outlast.models import OpenAIProvider
    from outlast.otel import OpenTelemetryProcessor
    from outlast.tracing.receivers import REGISTRATION
    from outlast.worker import AgentWorker

    os.environ["OTEL_METRICS_EXPORTER"] = "none"
    spans = OpenTelemetryProcessor(include_content=content)
    del os.environ["OTEL_METRICS_EXPORTER"]
    processors = {
        "without": [],
        "spans": [spans],
        "all": [OpenTelemetryProcessor(include_content=content)],
    }

    def switch(line: str) -> dict[str, dict[str, float]]:
        REGISTRATION.flush(10)
        ended = spent()
        gc.collect()  # no variant pays for another's garbage, nor for this
        REGISTRATION.add(processors[line], replace=True)
        return {"ended": ended, "began": spent()}

    @function_tool(effect="read" if read else None)
    async def note(number: int) -> str:
        """Keep a note.

        Args:
            number: The number of the note.
        """
        return f"{number:04d} {NOTE}"[:1024]

    agent = Agent(name=AGENT, model="gpt-5-mini", instructions="You keep notes.", tools=[note])
    client = await connect(address)
    provider = OpenAIProvider(base_url=model_url, api_key="none")
    async with AgentWorker(client, agents=[agent], task_queue=QUEUE, model_provider=provider):
        threading.Thread(target=answer_lines, args=(switch,), daemon=True).start()
        print("ready", flush=True)
        await asyncio.Event().wait()


def bare(spans: Sequence[tuple[str, dict[str, object]]]) -> None:
    """Send the same spans with OpenTelemetry's SDK alone, once for each line on standard input."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(), max_queue_size=100_000))
    tracer = provider.get_tracer("bare")

    def make(_line: str) -> dict[str, float]:
        before = spent()
        for _ in range(BARE_RUNS):
            for name, attributes in spans:
                tracer.start_span(name, attributes=attributes).end()  # pyright: ignore[reportArgumentType]  plain
        provider.force_flush()
        after = spent()
        return {name: (after[name] - before.get(name, 0.0)) / BARE_RUNS for name in after}

    print("ready", flush=True)
    answer_lines(make)


async def spans_of_a_run(*, content: bool) -> list[tuple[str, dict[str, object]]]:
    """Return the names and attributes of the spans of a run, as an exporter gets them."""
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from outlast import Agent, add_trace_processor, function_tool
    from outlast.otel import OpenTelemetryProcessor
    from outlast.testing import ScriptedModel, call, run_in_memory
    from outlast.tracing.receivers import REGISTRATION

    @function_tool
    async def note(number: int) -> str:
        return f"{number:04d} {NOTE}"[:1024]

    exporter = InMemorySpanExporter()
    processor = OpenTelemetryProcessor(exporter=exporter, include_content=content)
    add_trace_processor(processor)
    calls = [[call("note", f"c{number}", number=number)] for number in range(TURNS - 1)]
    agent = Agent(name=AGENT, model="gpt-5-mini", tools=[note])
    await run_in_memory(agent, question(TURNS), model=ScriptedModel(*calls, "Done."))
    REGISTRATION.flush(10)
    REGISTRATION.remove(processor)
    return [(one.name, dict(one.attributes or {})) for one in exporter.get_finished_spans()]


async def measure(rounds: int, *, read: bool, content: bool) -> None:
    """Measure in turn, and print."""
    from outlast import Runner
    from outlast.client import connect
    from outlast.contract import names
    from outlast.dev import EmbeddedServer

    flags = [*(["--read"] if read else []), *(["--content"] if content else [])]
    spans = await spans_of_a_run(content=content)
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        server = await enter(
            EmbeddedServer(ui_port=None, search_attributes=names.SEARCH_ATTRIBUTES)
        )
        model = await enter(Child(str(Path(__file__).parent / "model_server.py")))
        collector = await enter(Child(__file__, "--role", "sink"))
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.greeting}
        role = ("--role", "worker", server.info.address, model.greeting, *flags)
        worker = await enter(Child(__file__, *role, env=env))
        floor = await enter(Child(__file__, "--role", "bare", json.dumps(spans), env=env))
        client = await connect(server.info.address)

        async def run() -> None:
            asked = question(TURNS)
            handle = await Runner.start(AGENT, asked, client=client, task_queue=QUEUE)
            await handle.result()

        async def cost_of(variant: str) -> dict[str, float]:
            before = json.loads(await worker.ask(variant))
            await asyncio.gather(*(run() for _ in range(RUNS)))
            after = json.loads(await worker.ask(variant))
            began, ended = before["began"], after["ended"]
            return {name: (ended[name] - began.get(name, 0.0)) / RUNS for name in ended}

        found: dict[str, list[dict[str, float]]] = {one: [] for one in (*VARIANTS, "bare")}
        for at in range(rounds + WARM_UP):
            for variant in VARIANTS[at % 3 :] + VARIANTS[: at % 3]:
                cost = await cost_of(variant)
                if at >= WARM_UP:
                    found[variant].append(cost)
            cost = json.loads(await floor.ask())
            if at >= WARM_UP:
                found["bare"].append(cost)
    print(report(found, len(spans), sum(len(attributes) for _, attributes in spans)))


def report(found: dict[str, list[dict[str, float]]], spans: int, attributes: int) -> str:
    """Return the medians and the overheads in words.

    The overhead is the CPU of the threads that OpenTelemetry adds, and what the rest of the worker
    takes more than without it. The latter is a small difference of two large numbers.
    """
    rounds = len(found["bare"])
    head = f"{TURNS} turns, {spans} spans, {attributes} attributes; medians of {rounds} rounds"
    lines = [f"{head} of {RUNS} runs; ms of CPU a run"]
    without = _middle(found["without"], "all")
    lines.append(f"worker without:     {without:7.2f}")
    for variant in VARIANTS[1:]:
        own = {name: _middle(found[variant], name) for name in found[variant][0]}
        added = {name: ms for name, ms in own.items() if name in ADDED_THREADS}
        pairs = zip(found["without"], found[variant], strict=True)
        ratios = sorted(after["all"] / before["all"] - 1 for before, after in pairs)
        spread = f"{ratios[rounds // 4]:+.1%} to {ratios[-1 - rounds // 4]:+.1%}"
        head = f"worker with {variant + ':':8}{own['all']:7.2f}"
        lines += [
            f"{head}   {median(ratios):+.1%}, quarters {spread}",
            *(f"    {name:34}{ms:6.2f}   {ms / without:+.1%}" for name, ms in added.items()),
        ]
    bare = _middle(found["bare"], "all")
    lines.append(f"bare SDK:           {bare:7.2f}   {bare / without:+.1%}")
    return "\n".join(lines)


def _middle(rounds: list[dict[str, float]], part: str) -> float:
    return median(one.get(part, 0.0) for one in rounds) * 1e3


def main() -> int:
    """Measure, or be one of the processes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--read", action="store_true", help="the tool is declared to only read")
    parser.add_argument("--content", action="store_true", help="spans contain messages")
    parser.add_argument("--role", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    role, *rest = options.role or [""]
    if role == "sink":
        sink()
    elif role == "bare":
        bare(json.loads(rest[0]))
    elif role:
        event_loop.run(worker(*rest, read=options.read, content=options.content))
    else:
        asyncio.run(measure(options.rounds, read=options.read, content=options.content))
    return 0


if __name__ == "__main__":
    sys.exit(main())
