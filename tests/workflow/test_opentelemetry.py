"""One trace for each question, on a real server, through killed workers and continue-as-new.

`make otel` puts a real collector between the workers and the receiver.
"""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import Generator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider

from outlast.client.handle import RunHandle
from tests.otlp import OtlpReceiver, Received, tree
from tests.workflow.desk import PATIENCE_SECONDS, QUICK, Desk

PROGRAM = Path(__file__).parents[1] / "otel_worker_program.py"

WHOLE = """\
invoke_workflow Agent workflow
  invoke_agent Triage
    turn 1
      chat gpt-5-mini
      execute_tool look_up
    turn 2
      chat gpt-5-mini
      execute_tool transfer_to_billing
  invoke_agent Billing
    turn 3
      chat gpt-5-mini
      execute_tool refund (attempt 2)
    turn 4
      chat gpt-5-mini"""


@pytest.fixture
def receiver() -> Generator[OtlpReceiver]:
    with OtlpReceiver() as made:
        yield made


async def worker(desk: Desk, receiver: OtlpReceiver, directory: Path, **variables: str) -> Process:
    address = desk.client.service_client.config.target_host
    own = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint,
        "OTEL_METRIC_EXPORT_INTERVAL": "500",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
    }
    return await asyncio.create_subprocess_exec(
        sys.executable,
        str(PROGRAM),
        address,
        desk.queue,
        str(directory),
        env=os.environ | own | variables,
    )


def ours(spans: list[Received]) -> list[Received]:
    """Return the spans of runs, without those of Temporal's own tracing."""
    return [one for one in spans if "outlast.run.id" in one.attributes]


def is_whole(spans: list[Received]) -> bool:
    return any(one.name.startswith("invoke_workflow") for one in spans)


@pytest.mark.full
async def test_a_worker_is_killed_and_the_trace_is_whole(
    desk: Desk, receiver: OtlpReceiver, tmp_path: Path
) -> None:
    first = await worker(desk, receiver, tmp_path, OUTLAST_TEST_LIVES_ON="1")
    tracer = TracerProvider().get_tracer("caller")
    with tracer.start_as_current_span("request") as request:
        handle = await desk.start_short("Triage", events=20, run_config=QUICK)
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await first.wait() == -signal.SIGKILL
    second = await worker(desk, receiver, tmp_path)
    try:
        assert (await desk.result(handle)).final_output == "Refunded."
        spans = await asyncio.to_thread(receiver.until, is_whole)
        assert await continued_as_new(desk, handle)
        spans = ours(spans)
        assert tree(spans) == WHOLE
        assert len({one.trace_id for one in spans}) == 1
        assert len({one.span_id for one in spans}) == len(spans)
        assert {one.attributes["gen_ai.conversation.id"] for one in spans} == {handle.id}
        (root,) = [one for one in spans if not one.parent_id]
        caller = request.get_span_context()
        assert root.links == ((f"{caller.trace_id:032x}", f"{caller.span_id:016x}"),)
        chats = [one for one in spans if one.name.startswith("chat")]
        assert all(one.attributes["outlast.cost.usd"] > 0 for one in chats)
        beside = [one for one in receiver.spans if "temporalWorkflowID" in one.attributes]
        assert {"RunWorkflow:AgentRun"} & {one.name for one in beside} or beside
        assert not {one.trace_id for one in beside} & {root.trace_id}
        await asyncio.to_thread(until_metrics, receiver)
    finally:
        second.kill()


def until_metrics(receiver: OtlpReceiver) -> None:
    wanted = {"gen_ai.client.inference.duration", "outlast.cost", "outlast.queue.duration"}
    receiver.until(lambda _spans: wanted <= receiver.metrics)


async def continued_as_new(desk: Desk, handle: RunHandle) -> bool:
    return len(await desk.all_events(handle)) > 1
