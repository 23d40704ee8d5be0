"""Measures what OpenTelemetry costs a worker: CPU of runs on a server, with and without it.

The exporter encodes each batch as OTLP and drops it, so that no collector shares the machine.
"""

import argparse
import asyncio
import secrets
import statistics
import sys
import time
from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from outlast import Agent, Runner, function_tool
from outlast.client import connect
from outlast.contract import names
from outlast.dev import EmbeddedServer
from outlast.otel import OpenTelemetryProcessor
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, say
from outlast.tracing.receivers import REGISTRATION
from outlast.worker import AgentWorker

TURNS = 8


class Encoder(SpanExporter):
    """Encodes spans, counts them, and sends them nowhere."""

    spans = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Encode a batch."""
        encode_spans(spans).SerializeToString()
        self.spans += len(spans)
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Do nothing."""


@function_tool
async def look_up(query: str) -> str:
    """Look something up."""
    return f"found {query}"


def answer(request: ModelRequest) -> object:
    """Call the tool in every turn but the last."""
    done = sum(item.get("type") == "function_call_output" for item in request.input)
    return say("Done.") if done >= TURNS - 1 else [call("look_up", f"c{done}", query="A-17")]


async def measure(runs: int, rounds: int) -> float:
    """Print the CPU of a run without and with OpenTelemetry; return the overhead."""
    agent = Agent(name="Clerk", model="gpt-5-mini", tools=[look_up])
    exporter = Encoder()
    spent: dict[bool, list[float]] = {False: [], True: []}
    async with EmbeddedServer(ui_port=None, search_attributes=names.SEARCH_ATTRIBUTES) as server:
        client = await connect(server.info.address)
        queue = f"bench-{secrets.token_hex(4)}"
        model = ScriptedModel(always=answer)  # pyright: ignore[reportArgumentType]  a step
        async with AgentWorker(client, agents=[agent], task_queue=queue, model_provider=model):

            async def batch() -> None:
                started = [
                    await Runner.start(agent, "Hello", client=client, task_queue=queue)
                    for _ in range(runs)
                ]
                await asyncio.gather(*(one.result() for one in started))

            await batch()
            processor = OpenTelemetryProcessor(exporter=exporter)
            for at in range(2 * rounds):
                if at % 2:
                    REGISTRATION.add([processor])
                began = time.process_time()
                await batch()
                REGISTRATION.flush(10)
                spent[bool(at % 2)].append((time.process_time() - began) / runs)
                if at % 2:
                    REGISTRATION.remove(processor)
    without, with_it = (statistics.median(spent[one]) for one in (False, True))
    overhead = with_it / without - 1
    print(
        f"{TURNS} turns, CPU of worker and client: {without * 1e3:.1f} ms a run, with OpenTelemetry "
        f"{with_it * 1e3:.1f} ms ({overhead:+.1%}); {exporter.spans / rounds / runs:.0f} spans a run"
    )
    return overhead


def main() -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    asyncio.run(measure(options.runs, options.rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
