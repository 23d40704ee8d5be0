"""Reading along on a server: in order, from any place, at any time, and nothing twice."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from datetime import timedelta
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import Client
from temporalio.runtime import MetricBuffer, Runtime, TelemetryConfig

from outlast.agents.agent import Agent
from outlast.agents.config.run_config import RunConfig
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle
from outlast.client.read import delta_poller as reader
from outlast.client.read.events import StreamEvent
from outlast.contract.names import ACTIVITY_MODEL, SETTING_STREAM
from outlast.contract.streams.call_windows import CallWindows
from outlast.contract.streams.delta_reader import RESTARTED
from outlast.loop.values import JsonObject
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, fail_after, paced, say
from outlast.testing.scripted_model import Step
from tests.workflow.desk import PATIENCE_SECONDS, QUICK, Desk
from tests.workflow.replies import model_error, outputs

WORDS = "Where is my order? It is on its way, and it will be with you on Monday morning."
"""Sixteen words, so that there is something to read along."""


@pytest.fixture(autouse=True, params=["elsewhere"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the reader is: in another process than the worker, unless a test says `here`."""
    if request.param == "elsewhere":
        monkeypatch.setattr(reader, "call_windows", CallWindows())
    return str(request.param)


HERE_TOO = pytest.mark.parametrize("place", ["elsewhere", "here"], indirect=True)


@function_tool
async def look_up(number: int) -> str:
    return f"found {number}"


def team() -> Agent[Any]:
    return Agent(name="Triage", tools=[look_up], handoffs=[Agent(name="Billing", tools=[look_up])])


def script() -> tuple[Step, ...]:
    return (
        [*say("Let me see."), call("look_up", "c1", number=1)],
        [call("look_up", "c2", number=2), call("transfer_to_billing", "h1")],
        paced(0.02, WORDS),
    )


NAMES = [
    "agent Triage",
    "message_output_created",
    "tool_called",
    "tool_output",
    "tool_called",
    "handoff_requested",
    "tool_output",
    "handoff_occured",
    "agent Billing",
    "message_output_created",
]


def named(events: Iterable[Any]) -> list[str]:
    """Name the events that programs of the field know; pieces of texts are left out."""
    return [
        event.name if event.type == "run_item_stream_event" else f"agent {event.new_agent.name}"
        for event in events
        if event.type in {"run_item_stream_event", "agent_updated_stream_event"}
        and getattr(event, "name", "") != "message_input"
    ]


def heard(events: Iterable[Any]) -> list[str]:
    """Put the pieces of the texts together, for each reply; a restart voids what came before."""
    replies: list[str] = []
    for event in events:
        if event.type != "raw_response_event":
            continue
        if event.raw["type"] == "response.created":
            replies.append("")
        elif event.raw["type"] == RESTARTED:
            replies.pop()
        elif event.raw["type"] == "response.output_text.delta":
            replies[-1] += event.raw["delta"]
    return replies


def deltas(events: Iterable[Any]) -> int:
    """Count the pieces of texts."""
    kind = "response.output_text.delta"
    return sum(one.type == "raw_response_event" and one.raw["type"] == kind for one in events)


async def read(source: Any, from_event: int | None = None) -> list[Any]:
    """Read a run to its end."""
    events: Any = source.stream_events(*(() if from_event is None else (from_event,)))
    async with asyncio.timeout(PATIENCE_SECONDS):
        return [event async for event in events]


def numbered(events: Iterable[StreamEvent]) -> list[StreamEvent]:
    return [event for event in events if event.type != "raw_response_event"]


@pytest.mark.smoke
@HERE_TOO
async def test_events_and_texts_come_in_order_and_end_with_the_result(desk: Desk):
    await desk.open(team(), model=ScriptedModel(*script()))
    stream = desk.stream(team())
    events = await read(stream)
    assert named(events) == NAMES
    assert heard(events) == ["Let me see.", "", WORDS]
    assert stream.final_output == WORDS
    texts = [at for at, one in enumerate(events) if deltas([one])]
    last_item = max(at for at, one in enumerate(events) if one.type == "run_item_stream_event")
    assert deltas(events[texts[0] :]) > 3, "the text came in pieces"
    assert texts[-1] < last_item, "what is said comes before the item that holds it"


async def test_any_reader_goes_on_from_the_number_it_had(desk: Desk):
    await desk.open(team(), model=ScriptedModel(*script()))
    stream = desk.stream(team(), id=(run_id := desk.new_id()))
    handle = RunHandle(desk.client, run_id)
    await read(stream)
    whole = await read(handle)
    assert [event.id for event in numbered(whole)] == list(range(len(numbered(whole))))
    for start in (1, len(numbered(whole)) // 2, len(numbered(whole))):
        rest = await read(RunHandle(desk.client, run_id), start)
        assert numbered(rest) == numbered(whole)[start:]
    assert named(whole) == NAMES
    assert heard(whole) == ["Let me see.", "", WORDS]


async def test_who_comes_later_hears_every_text_as_well(desk: Desk):
    """While the run is at work in its third reply, and after it has ended without a worker."""
    worker = await desk.open(team(), model=ScriptedModel(*script()))
    first = desk.stream(team(), id=(run_id := desk.new_id()))
    handle = RunHandle(desk.client, run_id)
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for event in first.stream_events():
            if event.type == "agent_updated_stream_event" and event.new_agent.name == "Billing":
                break
    late = await read(handle)
    await desk.close(worker)
    after = await read(handle)
    assert numbered(late) == numbered(after)
    assert heard(late) == heard(after) == ["Let me see.", "", WORDS]


@pytest.mark.smoke
@HERE_TOO
async def test_an_attempt_that_breaks_off_is_told_and_no_text_is_doubled(desk: Desk):
    agent = Agent[Any](name="A")
    broken = fail_after(12, model_error(retryable=True), paced(0.05, WORDS))
    await desk.open(agent, model=ScriptedModel(broken, paced(0.02, WORDS)))
    events = await read(desk.stream(agent))
    kinds = [one.raw["type"] for one in events if one.type == "raw_response_event"]
    assert kinds.count(RESTARTED) == 1
    before = kinds[: kinds.index(RESTARTED)]
    assert before.count("response.output_text.delta") > 0
    assert heard(events) == [WORDS]
    assert named(events) == ["agent A", "message_output_created"]


async def test_a_worker_that_leaves_in_mid_answer_is_told_and_no_text_is_doubled(desk: Desk):
    agent = Agent[Any](name="A")
    worker = await desk.open(agent, model=ScriptedModel(paced(0.3, WORDS)))
    stream = desk.stream(agent, run_config=QUICK)
    events: list[Any] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for event in stream.stream_events():
            events.append(event)
            if deltas(events) == 2 and worker is not None:
                await desk.close(worker)
                worker = None
                await desk.open(agent, model=ScriptedModel(paced(0.02, WORDS)))
    kinds = [one.raw["type"] for one in events if one.type == "raw_response_event"]
    assert kinds.count(RESTARTED) >= 1
    assert heard(events) == [WORDS]
    assert stream.final_output == WORDS


def looking(turns: int) -> Any:
    def reply(request: ModelRequest) -> Any:
        done = len(outputs(request))
        return say(WORDS) if done == turns else [*say(f"{done}."), call_of(done)]

    return reply


def call_of(number: int) -> Any:
    return call("look_up", f"c{number}", number=number)


async def test_texts_and_numbers_go_on_across_histories(desk: Desk):
    turns = 5
    agent = team()
    await desk.open(agent, model=ScriptedModel(always=looking(turns)))
    handle = await desk.start_short(agent, stream=True, events=40)
    live = await read(handle)
    assert len(await desk.all_events(handle)) >= 2
    assert heard(live) == [*(f"{at}." for at in range(turns)), WORDS]
    again = await read(handle)
    assert numbered(again) == numbered(live)
    assert heard(again) == heard(live)
    half = len(numbered(live)) // 2
    assert numbered(await read(handle, half)) == numbered(live)[half:]


async def test_reading_along_adds_nothing_to_the_history(desk: Desk):
    await desk.open(team(), model=ScriptedModel(*script(), *script()))
    quiet = await desk.start(team())
    await desk.result(quiet)
    stream = desk.stream(team(), id=(run_id := desk.new_id()))
    handle = RunHandle(desk.client, run_id)
    events = await read(stream)
    assert deltas(events) > 3
    assert await desk.event_types(handle) == await desk.event_types(quiet)
    setting = len(f'"settings":{{"{SETTING_STREAM}":true}},')
    assert await sizes(desk, handle) - await sizes(desk, quiet) <= setting * 5  # its requests


async def sizes(desk: Desk, handle: RunHandle) -> int:
    """How large the requests and results of a run's model calls are."""
    history = await desk.workflow(handle).fetch_history()
    model = {
        event.event_id
        for event in history.events
        if event.activity_task_scheduled_event_attributes.activity_type.name == ACTIVITY_MODEL
    }
    scheduled = [one.activity_task_scheduled_event_attributes for one in history.events]
    done = [one.activity_task_completed_event_attributes for one in history.events]
    return sum(one.input.ByteSize() for one in scheduled if one.activity_type.name) + sum(
        one.result.ByteSize() for one in done if one.scheduled_event_id in model
    )


async def test_who_stops_reading_does_not_stop_the_run(desk: Desk):
    await desk.open(team(), model=ScriptedModel(*script()))
    stream = desk.stream(team(), id=(run_id := desk.new_id()))
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for event in stream.stream_events():
            if event.type == "run_item_stream_event":
                break
    stream.run_loop_task.cancel()
    await asyncio.gather(stream.run_loop_task, return_exceptions=True)
    assert (await desk.result(RunHandle(desk.client, run_id))).final_output == WORDS


async def test_a_conversation_is_read_along_through_its_questions(desk: Desk):
    agent = Agent[Any](name="A")
    await desk.open(agent, model=ScriptedModel("One.", WORDS))
    handle = await desk.start_short(agent, keep_open=True, stream=True, events=1000)
    reading = asyncio.create_task(read(handle))
    await desk.until_status(handle, "idle")
    await (await handle.send("And now?")).answer()
    await handle.cancel("after_turn")
    events = await reading
    assert heard(events) == ["One.", WORDS]
    assert [one.status for one in events if one.type == "status_stream_event"] == [
        "idle",
        "running",
        "idle",
        "completed",
    ]


@pytest.mark.parametrize("interval", [timedelta(minutes=1)])
async def test_no_text_is_lost_however_rarely_it_is_sent(desk: Desk, interval: timedelta | None):
    await desk.open(team(), model=ScriptedModel(*script()))
    stream = desk.stream(team(), run_config=RunConfig(stream_interval=interval))
    events = await read(stream)
    assert named(events) == NAMES
    assert heard(events) == ["Let me see.", "", WORDS]


class Sent:
    """The windows that the workers of this process send."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.windows: list[Any] = []
        send = activity.heartbeat

        def heartbeat(window: Any) -> None:
            self.windows.append(window)
            send(window)

        monkeypatch.setattr(activity, "heartbeat", heartbeat)

    def cadences(self) -> dict[int, set[int]]:
        """Return the cadences of each attempt, in milliseconds."""
        return {
            attempt: {one["next_ms"] for one in self.windows if one["attempt"] == attempt}
            for attempt in sorted({one["attempt"] for one in self.windows})
        }


async def test_a_cadence_is_that_of_the_run_and_of_each_attempt(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    sent, agent = Sent(monkeypatch), Agent[Any](name="A")
    broken = fail_after(12, model_error(retryable=True), paced(0.05, WORDS))
    await desk.open(agent, model=ScriptedModel(broken, paced(0.05, WORDS)))
    config = RunConfig(stream_interval=timedelta(milliseconds=200))
    events = await read(desk.stream(agent, run_config=config))
    assert heard(events) == [WORDS]
    assert sent.cadences() == {1: {200}, 2: {200}}


@HERE_TOO
async def test_the_server_gets_few_heartbeats(desk: Desk, place: str):
    """Of an answer that takes about a second."""
    metrics = MetricBuffer(10_000)
    runtime = Runtime(telemetry=TelemetryConfig(metrics=metrics))
    client = await Client.connect(desk.client.service_client.config.target_host, runtime=runtime)
    agent = Agent[Any](name="A")
    await desk.open(agent, model=ScriptedModel(paced(0.05, WORDS)), client=client)
    answer = await read(desk.stream(agent))
    assert answer
    heartbeats = sum(
        update.value
        for update in metrics.retrieve_updates()
        if update.metric.name == "temporal_request"
        and update.attributes.get("operation") == "RecordActivityTaskHeartbeat"
    )
    if place == "elsewhere":
        assert 3 <= heartbeats <= 30, "one for 50 ms at most: nobody bills them here"
    else:
        assert heartbeats == 0


async def test_a_streamed_call_that_falls_silent_is_cancelled_in_time(desk: Desk):
    agent, cancelled = Agent[Any](name="A"), asyncio.Event()

    class Silent(ScriptedModel):
        async def stream_response(self, request: ModelRequest) -> AsyncGenerator[JsonObject]:
            async for event in super().stream_response(request):
                yield event
                if event["type"] == "response.output_text.delta":
                    break
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

    await desk.open(agent, model=Silent(WORDS))
    stream = desk.stream(agent, id=(run_id := desk.new_id()), run_config=QUICK)
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for event in stream.stream_events():
            if deltas([event]):
                break
    await RunHandle(desk.client, run_id).cancel()
    timeout = QUICK.heartbeat_timeout
    assert timeout is not None
    async with asyncio.timeout(timeout.total_seconds() / 3 + 2):
        await cancelled.wait()
