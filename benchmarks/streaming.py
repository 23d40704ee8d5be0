"""Measures the delay of streamed model output, and what streaming costs.

    python benchmarks/streaming.py [--repeats 3] [--seconds 1 10 60] [--json]

A model emits 50 words per second, and each word is the time of its emission. A reader takes them
from `RunResultStreaming.stream_events` and compares. The worker is a process of its own, and so is
the server; all have one clock (Linux). First come answers of four seconds at the default cadence,
and the same run without streaming, whose history has to be as long. Then answers of each length at
several cadences, at the same time; one case has its worker in the reader's process. Heartbeats are
counted by the SDK's core, as requests to the server; each is one billed action in Temporal Cloud.
The exit code is 1 where a limit is missed.

The namespace has a dot in its name, as Temporal Cloud's have, so that workers take heartbeats to be
billed. In other namespaces, the default is the case of 50 ms.
"""

import argparse
import asyncio
import json
import os
import resource
import secrets
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from statistics import median, quantiles
from typing import Any

from temporalio.client import Client
from temporalio.runtime import MetricBuffer, Runtime, TelemetryConfig

from benchmarks.processes import Child
from benchmarks.surroundings import surroundings
from outlast import Agent, RunConfig, Runner
from outlast.contract import names
from outlast.contract.streams.reply_events import reply_events, response_object
from outlast.dev import EmbeddedServer
from outlast.loop.values import JsonObject, Usage
from outlast.ports.model import ModelRequest, ModelResponse, response_of_stream
from outlast.testing import ScriptedModel
from outlast.worker import AgentWorker

PACE_SECONDS = 0.02
"""Between two words: 50 a second, as a quick model does."""

SHORT_SECONDS = 4
"""How long the answers take to which the limits of delay apply."""

NAMESPACE = "bench.cloud"

AGENT = Agent[Any](name="Clock", instructions="Say the time.")

CADENCES: dict[str, timedelta | None] = {
    "default": None,
    **{f"{ms} ms": timedelta(milliseconds=ms) for ms in (50, 100, 150, 250, 500, 1000)},
}
UNREAD = "default, reader gone"
NOT_STREAMED = "not streamed"
PATIENT = "not streamed, heartbeat time-out 60 s"
CASES = (*CADENCES, UNREAD, NOT_STREAMED, PATIENT)
HERE = "default, reader in the worker's process"
"""This worker is in the process of the readers; the others are elsewhere."""

PRICE_PER_MILLION = 50.0
"""Temporal Cloud's list price of the first five million actions of a month, in dollars."""

LIMITS = {"p50_ms": 100.0, "p95_ms": 200.0, "history_more": 0.0}
MOST_HEARTBEATS = {10: 50, 60: 110}
"""Of one answer of so many seconds at the default cadence."""

ROWS = {
    "p50_ms": ("from said to read, median, ms", "{:.0f}"),
    "p95_ms": ("from said to read, 95 %, ms", "{:.0f}"),
    "heartbeats": ("heartbeats", "{:.0f}"),
    "polls": ("requests of the reader for news", "{:.0f}"),
    "cpu_cores": ("CPU of worker and reader while it speaks, cores", "{:.2f}"),
    "history_events": ("history, events", "{:.0f}"),
    "history_more": ("of these due to streaming", "{:.0f}"),
}


class SpeakingClock(ScriptedModel):
    """A model that emits words, each of which is the time of its emission."""

    async def get_response(self, request: ModelRequest) -> ModelResponse:
        """Return the whole response at once."""
        return await response_of_stream(self.stream_response(request))

    async def stream_response(self, request: ModelRequest) -> AsyncGenerator[JsonObject]:
        """Stream the response word by word; the question is the length in seconds."""
        opening, said = list(reply_events(_reply("")))[:4], ""
        words = round(float(str(request.input[-1]["content"])) / PACE_SECONDS)
        for event in opening:
            yield event
        begun = time.monotonic()
        for number in range(words):
            await asyncio.sleep(max(0.0, begun + number * PACE_SECONDS - time.monotonic()))
            word = f"{time.monotonic():.6f} "
            said += word
            place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
            yield {
                "type": "response.output_text.delta",
                **place,
                "delta": word,
                "logprobs": [],
                "sequence_number": len(opening) + number,
            }
        *_, last = reply_events(_reply(said))
        yield last


def _reply(text: str) -> JsonObject:
    content = [{"type": "output_text", "text": text, "annotations": list[str]()}]
    message: JsonObject = {"type": "message", "id": "msg_1", "role": "assistant"}
    usage = Usage(requests=1, input_tokens=10, output_tokens=len(text.split()))
    return response_object([{**message, "content": content}], usage, response_id="resp_1")


@dataclass
class Requests:
    """Counts the requests of one client, and of the workers that use it, by operation."""

    metrics: MetricBuffer = field(default_factory=lambda: MetricBuffer(1_000_000))
    counts: Counter[str] = field(default_factory=Counter[str])

    async def connect(self, address: str, namespace: str = "default") -> Client:
        """Return the client whose requests are counted."""
        runtime = Runtime(telemetry=TelemetryConfig(metrics=self.metrics))
        return await Client.connect(address, namespace=namespace, runtime=runtime)

    def count(self, operation: str) -> float:
        """Return the number of requests so far."""
        for update in self.metrics.retrieve_updates():
            if update.metric.name == "temporal_request":
                self.counts[str(update.attributes["operation"])] += int(update.value)
        return self.counts[operation]


# --- The worker, in a process of its own ----------------------------------------------------------


async def serve(address: str) -> None:
    """Carry runs, with a client for each case, until standard input ends."""
    requests = {case: Requests() for case in CASES}

    def tell() -> None:
        for _ in sys.stdin:
            usage = resource.getrusage(resource.RUSAGE_SELF)
            sent = {
                case: one.count("RecordActivityTaskHeartbeat") for case, one in requests.items()
            }
            print(json.dumps({"cpu_s": usage.ru_utime + usage.ru_stime, "sent": sent}), flush=True)
        os._exit(0)

    async with AsyncExitStack() as stack:
        for case in CASES:
            client = await requests[case].connect(address, NAMESPACE)
            await stack.enter_async_context(worker_of(client, case))
        threading.Thread(target=tell, daemon=True).start()
        print("ready", flush=True)
        await asyncio.Event().wait()


def worker_of(client: Client, case: str) -> AgentWorker:
    """Return the worker of a case."""
    return AgentWorker(client, agents=[AGENT], task_queue=case, model_provider=SpeakingClock())


# --- The reader -----------------------------------------------------------------------------------


@dataclass
class Reading:
    """What a reader saw of one run.

    Attributes:
        run_id: of the run.
        lags_ms: of each word.
        polls: how many requests it took.
    """

    run_id: str = field(default_factory=lambda: f"bench-{secrets.token_hex(6)}")
    lags_ms: list[float] = field(default_factory=list[float])
    polls: float = 0

    def take(self, event: Any) -> None:
        """Take an event of the run in."""
        if event.type != "raw_response_event" or not event.data.type.endswith("text.delta"):
            return
        now = time.monotonic()
        self.lags_ms += [(now - float(word)) * 1000 for word in event.data.delta.split()]

    def delays(self) -> dict[str, float]:
        """Return the median delay and that of 95 %; zero where nobody read."""
        lags = self.lags_ms or [0.0, 0.0]
        return {"p50_ms": median(lags), "p95_ms": quantiles(lags, n=20, method="inclusive")[-1]}


async def read(address: str, case: str, seconds: float) -> Reading:
    """Carry a run with an answer of this length, and read it along as the case says."""
    requests, reading = Requests(), Reading()
    options: Any = {
        "id": reading.run_id,
        "client": (client := await requests.connect(address, NAMESPACE)),
        "task_queue": case,
        "run_config": RunConfig(
            stream_interval=CADENCES.get(case),
            heartbeat_timeout=timedelta(seconds=60) if case == PATIENT else None,
        ),
    }
    if case in {NOT_STREAMED, PATIENT}:
        await Runner.run(AGENT, str(seconds), **options)
        return reading
    result = Runner.run_streamed(AGENT, str(seconds), **options)
    async for event in result.stream_events():
        reading.take(event)
        if case == UNREAD:
            result.run_loop_task.cancel()
            break
    if case == UNREAD:
        await client.get_workflow_handle(reading.run_id).result()
        return Reading(reading.run_id)
    reading.polls = requests.count("DescribeWorkflowExecution")
    return reading


async def measure_short(client: Client, address: str, worker: Child) -> dict[str, float]:
    """Carry one short run with a reader and without one."""
    before, own_s, begun = json.loads(await worker.ask()), time.process_time(), time.perf_counter()
    reading = await read(address, "default", SHORT_SECONDS)
    seconds, own_s = time.perf_counter() - begun, time.process_time() - own_s
    after = json.loads(await worker.ask())
    quiet = await read(address, NOT_STREAMED, SHORT_SECONDS)
    events = await _history_events(client, reading.run_id)
    return {
        **reading.delays(),
        "heartbeats": after["sent"]["default"] - before["sent"]["default"],
        "polls": reading.polls,
        "cpu_cores": (after["cpu_s"] - before["cpu_s"] + own_s) / seconds,
        "history_events": events,
        "history_more": events - await _history_events(client, quiet.run_id),
    }


async def measure_prices(
    address: str, worker: Child, here: Requests, seconds: float
) -> dict[str, Any]:
    """Carry an answer of this length in every case, all at the same time."""

    async def sent() -> dict[str, float]:
        elsewhere = json.loads(await worker.ask())["sent"]
        return {**elsewhere, HERE: here.count("RecordActivityTaskHeartbeat")}

    cases, before = (*CASES, HERE), await sent()
    readings = await asyncio.gather(*(read(address, case, seconds) for case in cases))
    after = await sent()
    return {
        case: {
            **reading.delays(),
            "heartbeats": after[case] - before[case],
            "polls": reading.polls,
        }
        for case, reading in zip(cases, readings, strict=True)
    }


async def _history_events(client: Client, run_id: str) -> float:
    description = await client.get_workflow_handle(run_id).describe()
    return description.raw_description.workflow_execution_info.history_length


async def measure(repeats: int, lengths: list[float]) -> dict[str, Any]:
    """Measure everything, and return the medians with all that they are made of."""
    attributes = names.SEARCH_ATTRIBUTES
    async with EmbeddedServer(
        ui_port=None, search_attributes=attributes, namespace=NAMESPACE
    ) as server:
        client = await Client.connect(server.address, namespace=NAMESPACE)
        async with Child("benchmarks/streaming.py", "--serve", server.address) as worker:
            await read(server.address, "default", 1)  # warm
            every: list[dict[str, float]] = []
            for repeat in range(repeats):
                print(f"repeat {repeat + 1} of {repeats}", file=sys.stderr)
                every.append(await measure_short(client, server.address, worker))
            prices: dict[float, list[dict[str, Any]]] = {}
            async with worker_of(
                await (here := Requests()).connect(server.address, NAMESPACE), HERE
            ):
                for seconds in lengths:
                    print(f"answers of {seconds:g} s", file=sys.stderr)
                    prices[seconds] = [
                        await measure_prices(server.address, worker, here, seconds)
                        for _ in range(repeats)
                    ]
    medians = {row: median(one[row] for one in every) for row in ROWS}
    return {
        **surroundings(),
        "repeats": repeats,
        "medians": medians,
        "every": every,
        "prices": {seconds: _medians(found) for seconds, found in prices.items()},
        "every_price": prices,
    }


def _medians(found: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        case: {row: median(one[case][row] for one in found) for row in values}
        for case, values in found[0].items()
    }


# --- The report -----------------------------------------------------------------------------------


def table(measured: dict[str, Any]) -> str:
    """Return the medians as tables in Markdown."""
    lines = [f"| an answer of {SHORT_SECONDS} s | outlast | at most |", "|---|---:|---:|"]
    for row, (title, form) in ROWS.items():
        most = form.format(LIMITS[row]) if row in LIMITS else ""
        lines.append(f"| {title} | {form.format(measured['medians'][row])} | {most} |")
    lines += [
        "",
        "| answer | cadence | median, ms | 95 %, ms | heartbeats | per 1,000 answers | polls |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for seconds, cases in measured["prices"].items():
        for case, one in cases.items():
            delays = f"{one['p50_ms']:.0f} | {one['p95_ms']:.0f}" if one["p50_ms"] else "|"
            dollars = one["heartbeats"] * PRICE_PER_MILLION / 1_000
            lines.append(
                f"| {seconds:g} s | {case} | {delays} | {one['heartbeats']:.0f} | ${dollars:.2f} |"
                f" {one['polls']:.0f} |"
            )
    where = f"{measured['date']}; {measured['machine']}; {measured['versions']}"
    return "\n".join([*lines, "", f"{where}; medians of {measured['repeats']}."])


def missed_limits(measured: dict[str, Any]) -> list[str]:
    """Return a sentence for each limit that is missed."""
    found = [(ROWS[row][0], measured["medians"][row], most) for row, most in LIMITS.items()]
    found += [
        (f"heartbeats of {seconds:g} s", cases["default"]["heartbeats"], MOST_HEARTBEATS[seconds])
        for seconds, cases in measured["prices"].items()
        if seconds in MOST_HEARTBEATS
    ]
    return [
        f"limit missed: {title}: {value:,.1f}, at most {most:,}"
        for title, value, most in found
        if value > most
    ]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, nargs="*", default=[1, 10, 60], help="of answers")
    parser.add_argument("--json", action="store_true", help="print every number instead of a table")
    parser.add_argument("--serve", metavar="ADDRESS", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(options.serve))
    measured = asyncio.run(measure(options.repeats, options.seconds))
    print(json.dumps(measured, indent=2) if options.json else table(measured))
    missed = missed_limits(measured)
    for sentence in missed:
        print(sentence, file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
