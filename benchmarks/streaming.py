"""Measures the delay of streamed model output, and the effect of streaming on the history.

    python benchmarks/streaming.py [--repeats 3] [--json]

A model emits words at an even pace, and each word is the time of its emission. A reader takes them
from `RunResultStreaming.stream_events` and compares. Then the same run is executed without
streaming: its history has to be as long. Worker and reader are in this process, on one clock; the
server is a process of its own. The exit code is 1 where a limit is missed.
"""

import argparse
import asyncio
import json
import secrets
import sys
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any

from temporalio.client import Client

from benchmarks.surroundings import surroundings
from outlast import Agent, Runner
from outlast.contract import names
from outlast.contract.reply_events import reply_events, response_object
from outlast.dev import EmbeddedServer
from outlast.loop.values import JsonObject, Usage
from outlast.ports.model import ModelRequest, ModelResponse, response_of_stream
from outlast.testing import ScriptedModel
from outlast.worker import AgentWorker

WORDS = 200
PACE_SECONDS = 0.02
"""Between two words: 50 a second, as a quick model does."""

AGENT = Agent[Any](name="Clock", instructions="Say the time.")

LIMITS = {"p50_ms": 100.0, "p95_ms": 200.0, "history_more": 0.0}
ROWS = {
    "p50_ms": ("from said to read, median, ms", "{:.0f}"),
    "p95_ms": ("from said to read, 95 %, ms", "{:.0f}"),
    "readings_per_s": ("readings with news per second", "{:.1f}"),
    "apart": ("deltas that were read as the model said them, of 1", "{:.2f}"),
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
        """Stream the response word by word."""
        self.requests.append(request)
        opening, said = list(reply_events(_reply("")))[:4], ""
        for event in opening:
            yield event
        for number in range(WORDS):
            await asyncio.sleep(PACE_SECONDS)
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
    usage = Usage(requests=1, input_tokens=10, output_tokens=WORDS)
    return response_object([{**message, "content": content}], usage, response_id="resp_1")


@dataclass
class Reading:
    """What a reader saw of one run.

    Attributes:
        lags_ms: of each word.
        readings: how many times there was something new.
        apart: how many words came in a delta of their own.
    """

    lags_ms: list[float] = field(default_factory=list[float])
    readings: int = 0
    apart: int = 0
    _last_s: float = 0.0

    def take(self, event: Any) -> None:
        """Take an event of the run in."""
        if event.type != "raw_response_event" or not event.data.type.endswith("text.delta"):
            return
        now = time.monotonic()
        words = event.data.delta.split()
        self.apart += len(words) == 1
        self.lags_ms += [(now - float(word)) * 1000 for word in words]
        self.readings += now - self._last_s > 0.005  # what one look brings, comes at once
        self._last_s = now


async def measure_once(client: Client, queue: str) -> dict[str, float]:
    """Carry the run with a reader and without one."""
    reading, run_id = Reading(), f"bench-{secrets.token_hex(6)}"
    cpu_s, begun = time.process_time(), time.perf_counter()
    result = Runner.run_streamed(AGENT, "The time?", id=run_id, client=client, task_queue=queue)
    async for event in result.stream_events():
        reading.take(event)
    seconds, cpu_s = time.perf_counter() - begun, time.process_time() - cpu_s
    quiet_id = f"{run_id}-quiet"
    await Runner.run(AGENT, "The time?", id=quiet_id, client=client, task_queue=queue)
    events = await _history_events(client, run_id)
    return {
        "p50_ms": median(reading.lags_ms),
        "p95_ms": quantiles(reading.lags_ms, n=20)[-1],
        "readings_per_s": reading.readings / seconds,
        "apart": reading.apart / WORDS,
        "cpu_cores": cpu_s / seconds,
        "history_events": events,
        "history_more": events - await _history_events(client, quiet_id),
    }


async def _history_events(client: Client, run_id: str) -> float:
    description = await client.get_workflow_handle(run_id).describe()
    return description.raw_description.workflow_execution_info.history_length


async def measure(repeats: int) -> dict[str, Any]:
    """Measure everything, and return the medians with all that they are made of."""
    async with EmbeddedServer(ui_port=None, search_attributes=names.SEARCH_ATTRIBUTES) as server:
        client = await Client.connect(server.address)
        queue = "clock"
        async with AgentWorker(
            client, agents=[AGENT], task_queue=queue, model_provider=SpeakingClock()
        ):
            await measure_once(client, queue)  # warm
            every: list[dict[str, float]] = []
            for repeat in range(repeats):
                print(f"repeat {repeat + 1} of {repeats}", file=sys.stderr)
                every.append(await measure_once(client, queue))
    medians = {row: median(one[row] for one in every) for row in ROWS}
    return {**surroundings(), "repeats": repeats, "medians": medians, "every": every}


def table(measured: dict[str, Any]) -> str:
    """Return the medians as a table in Markdown."""
    lines = ["| | outlast | at most |", "|---|---:|---:|"]
    for row, (title, form) in ROWS.items():
        most = form.format(LIMITS[row]) if row in LIMITS else ""
        lines.append(f"| {title} | {form.format(measured['medians'][row])} | {most} |")
    where = f"{measured['date']}; {measured['machine']}; {measured['versions']}"
    return "\n".join([*lines, "", f"{where}; medians of {measured['repeats']}."])


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print every number instead of a table")
    options = parser.parse_args()
    measured = asyncio.run(measure(options.repeats))
    print(json.dumps(measured, indent=2) if options.json else table(measured))
    missed = [
        f"limit missed: {ROWS[row][0]}: {measured['medians'][row]:,.1f}, at most {most:,}"
        for row, most in LIMITS.items()
        if measured["medians"][row] > most
    ]
    for sentence in missed:
        print(sentence, file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
