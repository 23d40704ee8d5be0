"""A worker that sends traces, as a program: `otel_worker_program.py ADDRESS TASK_QUEUE DIRECTORY`.

The first one kills itself in a tool call; the file `died` in the directory says that it did.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from temporalio.contrib.opentelemetry import TracingInterceptor

from outlast import Agent, add_trace_processor, function_tool
from outlast.client import connect
from outlast.otel import OpenTelemetryProcessor
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, say
from outlast.worker import AgentWorker

address, queue, directory = sys.argv[1:]
died = Path(directory) / "died"


@function_tool
async def look_up(query: str) -> str:
    return f"found {query}"


@function_tool
async def refund(order: str) -> str:
    if not died.exists():
        died.touch()
        await asyncio.sleep(float(os.environ.get("OUTLAST_TEST_LIVES_ON", "0")))
        os.kill(os.getpid(), signal.SIGKILL)
    return f"refunded {order}"


def answer(request: ModelRequest) -> Any:
    """Answer by what the conversation holds, so that any worker gives the next answer."""
    done = {item.get("call_id") for item in request.input if item.get("type") != "function_call"}
    for reply in (
        call("look_up", "c1", query="A-17"),
        call("transfer_to_billing", "h1"),
        call("refund", "c2", order="A-17"),
    ):
        if reply["call_id"] not in done:
            return [reply]
    return say("Refunded.")


async def main() -> None:
    add_trace_processor(OpenTelemetryProcessor())
    billing = Agent[Any](name="Billing", model="gpt-5-mini", tools=[refund])
    triage = Agent[Any](name="Triage", model="gpt-5-mini", tools=[look_up], handoffs=[billing])
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)  # for Temporal's own tracing, beside ours
    client = await connect(address)
    async with AgentWorker(
        client,
        agents=[triage],
        task_queue=queue,
        model_provider=ScriptedModel(always=answer),
        interceptors=[TracingInterceptor()],
    ):
        await asyncio.Event().wait()


asyncio.run(main())
