"""One trace for each question, on a real server, through killed workers and continue-as-new.

`make otel` puts a real collector between the workers and the receiver.
"""

import asyncio
import os
import signal
import time
from asyncio.subprocess import Process
from collections.abc import Generator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.api.enums.v1 import EventType

from outlast import Agent, add_trace_processor, function_tool
from outlast.client.forks import fork_run, read_fork_points
from outlast.client.handle import RunHandle
from outlast.otel import OpenTelemetryProcessor
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, say
from outlast.tracing.receivers import REGISTRATION
from tests import forked
from tests.otlp import OtlpReceiver, Received, tree
from tests.workflow.desk import PATIENCE_SECONDS, QUICK, Desk
from tests.workflow.test_resets import reset, task_ends

PROGRAM = Path(__file__).parents[1] / "otel_worker_program.py"

OWN = TracerProvider(shutdown_on_exit=False)
"""Where a tool's own spans come from."""

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
    return await forked.start(
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


@function_tool
def find(query: str) -> str:
    with OWN.get_tracer("the tool's own").start_as_current_span("query"):
        return f"found {query}"


def finds_once(request: ModelRequest) -> Any:
    """Look things up after each message of the user, and then answer."""
    item = request.input[-1]
    asked = sum(one.get("role") == "user" for one in request.input)
    return say("Found.") if "output" in item else [call("find", f"c{asked}", query="A-17")]


@pytest.mark.full
async def test_questions_link_their_callers_and_a_reset_repeats_no_span(desk: Desk) -> None:
    exporter, own = InMemorySpanExporter(), InMemorySpanExporter()
    processor = OpenTelemetryProcessor(exporter=exporter)
    export_own = SimpleSpanProcessor(own)
    OWN.add_span_processor(export_own)
    add_trace_processor(processor)
    tracer = TracerProvider().get_tracer("caller")
    agent = Agent[Any](name="Clerk", tools=[find])
    try:
        await desk.open(agent, model=ScriptedModel(always=finds_once))
        with tracer.start_as_current_span("first") as first:
            handle = await desk.start(agent, keep_open=True)
        await handle.wait_for_answer("start")
        with tracer.start_as_current_span("second") as second:
            sent = await handle.send("And now?", message_id="m1")
        await sent.answer()
        await (await handle.send("And then?", message_id="m2")).answer()
        REGISTRATION.flush(10)
        before = {id_of(one): one for one in exporter.get_finished_spans()}
        assert len(before) == len(exporter.get_finished_spans()) == 3 * 7
        roots = {
            root.attributes["outlast.question"]: root
            for root in before.values()
            if root.attributes and root.parent is None
        }
        callers = [[id_of(link) for link in roots[number].links] for number in (1, 2, 3)]
        assert callers == [[id_of(first)], [id_of(second)], []]
        tools = [one for one in before if before[one].name == "execute_tool find"]
        assert sorted(parent_of(one) for one in own.get_finished_spans()) == sorted(tools)

        execution, points = await task_ends(desk, handle)
        await reset(desk, handle, execution, points[-2])
        await (await handle.send("Still there?", message_id="m3", mode="queue")).answer()
        REGISTRATION.flush(10)
        after = exporter.get_finished_spans()
        assert len({id_of(one) for one in after}) == len(after)
        traces = {one.context.trace_id for one in after if one.context}
        assert len(traces) == 4
        again = [
            one
            for one in after
            if id_of(one) not in before
            and one.attributes
            and one.attributes["outlast.question"] == 3
        ]
        assert {one.name.partition(" ")[0] for one in again} <= {"chat", "execute_tool"}
        assert again
        assert {parent_of(one) for one in again} <= set(before)
    finally:
        REGISTRATION.remove(processor)
        processor.shutdown()
        export_own.shutdown()


async def test_traces_add_no_event_to_a_history(desk: Desk) -> None:
    processor = OpenTelemetryProcessor(exporter=(exporter := InMemorySpanExporter()))
    agent = Agent[Any](name="Clerk", tools=[find])
    await desk.open(agent, model=ScriptedModel(always=finds_once))

    async def event_types() -> list[str]:
        handle = await desk.start(agent)
        await handle.result()
        [events] = await desk.all_events(handle)
        names = [EventType.Name(one.event_type) for one in events]
        # A busy machine has more workflow tasks.
        return [one for one in names if not one.startswith("EVENT_TYPE_WORKFLOW_TASK_")]

    without = await event_types()
    add_trace_processor(processor)
    try:
        assert await event_types() == without
        REGISTRATION.flush(10)
        assert len(exporter.get_finished_spans()) == 7
    finally:
        REGISTRATION.remove(processor)
        processor.shutdown()


async def test_the_spans_of_a_fork_begin_with_it_and_are_its_own(desk: Desk) -> None:
    processor = OpenTelemetryProcessor(exporter=(exporter := InMemorySpanExporter()))
    agent = Agent[Any](name="Clerk", tools=[find])
    await desk.open(agent, model=ScriptedModel(always=finds_once))
    source = await desk.start(agent)
    await source.result()
    async with aclosing(read_fork_points(desk.client, source.id)) as points:
        replied = [one async for one in points if one.state.usage.requests == 1]
    add_trace_processor(processor)
    try:
        began = time.time_ns()
        made = await fork_run(desk.client, source.id, at=replied[0].number)
        desk.ids.append(made.id)
        await made.result()
        REGISTRATION.flush(10)
        live = {id_of(one): one for one in exporter.get_finished_spans()}
        assert live
        assert {
            str(one.attributes["outlast.run.id"]) for one in live.values() if one.attributes
        } == {made.id}
        assert min(one.start_time or 0 for one in live.values()) >= began - 1_000_000
        (root,) = [one for one in live.values() if one.parent is None]
        assert root.name == "invoke_workflow Agent workflow"
    finally:
        REGISTRATION.remove(processor)
        processor.shutdown()


def id_of(one: Any) -> tuple[int, int]:
    context = one.get_span_context() if hasattr(one, "get_span_context") else one.context
    return context.trace_id, context.span_id


def parent_of(one: ReadableSpan) -> tuple[int, int]:
    assert one.parent is not None
    return one.parent.trace_id, one.parent.span_id


def until_metrics(receiver: OtlpReceiver) -> None:
    wanted = {"gen_ai.client.inference.duration", "outlast.cost", "outlast.queue.duration"}
    receiver.until(lambda _spans: wanted <= receiver.metrics)


async def continued_as_new(desk: Desk, handle: RunHandle) -> bool:
    return len(await desk.all_events(handle)) > 1
