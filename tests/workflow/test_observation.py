"""Whoever listens to traces changes nothing in a run: not an event, not a byte."""

import asyncio
import base64
import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, cast

import pytest
from google.protobuf.json_format import MessageToDict
from temporalio.api.history.v1 import HistoryEvent
from temporalio.worker import Replayer

from outlast import Agent, MaxTurnsExceeded, ToolRetry, function_tool
from outlast.testing import ScriptedModel, SpanCollector, call
from outlast.tracing import Span, Trace, TracingProcessor, add_trace_processor
from outlast.tracing.receivers import REGISTRATION
from outlast.worker import OutlastPlugin
from tests.workflow.desk import Desk
from tests.workflow.laws import failed_tasks, nested_runs

VARIES = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"  # ids of executions
    r"|\b1[0-9]{12}\b|(?:seconds|nanos)\W+[0-9]+"  # times
    r"|run-[0-9a-f]{12}"  # ids of runs: the same id would be the same run
)
LEFT_OUT = ("Time", "EventId", "eventId", "taskId", "identity", "version", "metadata")


@function_tool
def look_up(query: str) -> str:
    return f"found {query}"


@function_tool(retry=ToolRetry(attempts=1))
def broken() -> str:
    raise ValueError("no number")


def answering() -> tuple[Agent[Any], ScriptedModel]:
    """A run with tools, a handoff among two, a nested run, and a failure that the model reads."""
    ask = Agent(name="Expert", tools=[look_up]).as_tool(tool_name="ask", tool_description="Asks.")
    billing = Agent(name="Billing", tools=[ask, broken])
    triage = Agent(name="Triage", tools=[look_up], handoffs=[billing, Agent(name="Orders")])
    return triage, ScriptedModel(
        [call("look_up", "c1", query="it")],
        [call("transfer_to_billing", "h1"), call("transfer_to_orders", "h2")],
        [call("ask", "c2", input="Why?")],
        [call("look_up", "c3", query="this")],
        "It is so.",
        [call("broken", "c4")],
        "Paid.",
    )


def giving_up() -> tuple[Agent[Any], ScriptedModel]:
    """A run that uses its turns up."""
    calls = ([call("look_up", f"c{at}", query="it")] for at in range(10))
    return Agent(name="Triage", tools=[look_up]), ScriptedModel(*calls)


def said(events: Sequence[HistoryEvent]) -> list[str]:
    """Return all that events say, with every payload, but for times and ids of executions.

    How many workflow tasks it took is a matter of timing, so they are left out.
    """
    told = [MessageToDict(event) for event in events]
    return [
        VARIES.sub("…", json.dumps(_plain(one), sort_keys=True))
        for one in told
        if "WORKFLOW_TASK" not in one["eventType"]
    ]


def _plain(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {
            name: _plain(one, name) for name, one in fields.items() if not name.endswith(LEFT_OUT)
        }
    if isinstance(value, list):
        return [_plain(one) for one in cast("list[Any]", value)]
    return base64.b64decode(value).decode() if key == "data" else value


async def histories(desk: Desk, run_id: str) -> list[list[HistoryEvent]]:
    """Return the histories of a run and of those nested in it."""
    history = await desk.client.get_workflow_handle(run_id).fetch_history()
    events = list(history.events)
    found = [events]
    for nested in nested_runs(events):
        found += await histories(desk, nested)
    return found


@pytest.mark.parametrize("script", [answering, giving_up])
async def test_a_history_is_the_same_whether_or_not_anybody_listens(
    desk: Desk, script: Any
) -> None:
    found: list[list[list[HistoryEvent]]] = []
    for listens in (False, True):
        run_id, (agent, model) = desk.new_id(), script()
        worker = await desk.open(agent, model=model)
        fails = pytest.raises(MaxTurnsExceeded) if script is giving_up else nullcontext()
        with SpanCollector() if listens else nullcontext() as collected, fails:
            await desk.run(agent, id=run_id)
        await desk.close(worker)
        found.append(await histories(desk, run_id))
        assert not listens or (collected is not None and collected.ended_traces)
    for without, listened_to in zip(*found, strict=True):
        assert said(without) == said(listened_to)
        assert failed_tasks(listened_to) == []


class Faulty(TracingProcessor):
    """Does the same in each of its methods."""

    def __init__(self, fault: Callable[[], Any]) -> None:
        self.fault = fault

    def on_trace_start(self, trace: Trace) -> None:
        self.fault()

    def on_span_start(self, span: Span[Any]) -> None:
        self.fault()

    def force_flush(self) -> None:
        self.fault()

    on_trace_end, on_span_end, shutdown = on_trace_start, on_span_start, force_flush


def fail(error: BaseException) -> Callable[[], Any]:
    def raise_it() -> None:
        raise error

    return raise_it


@pytest.fixture
def released() -> Iterator[threading.Event]:
    yield (event := threading.Event())
    event.set()


@pytest.mark.parametrize(
    "fault",
    [fail(SystemExit(1)), None],
    ids=["exit", "hangs"],
)
async def test_whatever_a_processor_does_runs_are_answered_and_their_worker_ends(
    desk: Desk, released: threading.Event, fault: Callable[[], Any] | None
) -> None:
    agent, model = answering()
    worker = await desk.open(agent, model=model)
    faulty = Faulty(fault or (lambda: released.wait(600)))
    add_trace_processor(faulty)
    try:
        result = await desk.run(agent, id=(run_id := desk.new_id()))
        async with asyncio.timeout(60):
            await desk.close(worker)
    finally:
        REGISTRATION.remove(faulty)
    assert result.final_output == "Paid."
    for events in await histories(desk, run_id):
        assert failed_tasks(events) == []


async def test_replaying_a_history_tells_nobody_anything(desk: Desk) -> None:
    agent, model = answering()
    await desk.open(agent, model=model)
    await desk.run(agent, id=(run_id := desk.new_id()))
    plugin = OutlastPlugin([agent], model_provider=model)
    with SpanCollector() as collected:
        history = await desk.client.get_workflow_handle(run_id).fetch_history()
        await Replayer(workflows=[], plugins=[plugin]).replay_workflow(history)
    assert (collected.traces, collected.open_spans, collected.spans()) == ([], [], [])


async def test_a_run_that_goes_on_in_a_new_history_has_one_trace(desk: Desk) -> None:
    agent = Agent[Any](name="Triage", tools=[look_up])
    calls = [[call("look_up", f"c{at}", query="it")] for at in range(6)]
    await desk.open(agent, model=ScriptedModel(*calls, "Done."))
    with SpanCollector() as collected:
        handle = await desk.start_short(agent)
        await desk.settled(handle)
        assert len(await desk.all_events(handle)) > 1
    assert len(collected.traces) == len(collected.ended_traces) == 1
    assert [span.span_data.turn for span in collected.spans("turn")] == [1, 2, 3, 4, 5, 6, 7]
    (agent_span,), (task,) = collected.spans("agent"), collected.spans("task")
    assert task.started_at == agent_span.started_at == collected.spans("turn")[0].started_at
    assert task.span_data.usage["requests"] == 7
    assert collected.open_spans == []
