"""Runs that are read along: rows 12 and 51 to 53 of the table."""

import asyncio
import copy
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import outlast
from outlast import Agent, RunConfig, function_tool, handoff
from outlast.testing import ScriptedModel, call, say
from tests.conformance.executors import PATIENCE_SECONDS, Executor, also_on_server, row, soon
from tests.conformance.views import kinds, saved, shapes, tool_outputs


@function_tool
async def look_up() -> str:
    return "found"


def named(events: Iterable[Any]) -> list[str]:
    """Name the events of items and of agents; tokens are left out."""
    return [
        event.name if event.type == "run_item_stream_event" else f"agent {event.new_agent.name}"
        for event in events
        if event.type != "raw_response_event"
    ]


async def read(stream: Any, seen: list[Any] | None = None) -> list[Any]:
    """Read a stream to its end; what came before an error is in `seen`."""
    events: list[Any] = [] if seen is None else seen
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for event in stream.stream_events():
            events.append(event)  # noqa: PERF401  a comprehension would lose them with the error
    return events


@pytest.mark.smoke
@row(12, 51)
async def test_events_come_in_the_order_in_which_things_happen(executor: Executor) -> None:
    triage = Agent(name="Triage", tools=[look_up], handoffs=[Agent(name="Billing")])
    model = ScriptedModel(
        [*say("Let me see."), call("look_up", "c1")],
        [call("look_up", "c2"), call("transfer_to_billing", "h1")],
        "Paid.",
    )
    stream = await executor.stream(triage, model=model)
    events = await read(stream)
    assert named(events) == [
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
    items = [event.item for event in events if event.type == "run_item_stream_event"]
    assert [item.type for item in items] == kinds(stream)
    assert (stream.final_output, stream.last_agent.name) == ("Paid.", "Billing")
    assert stream.is_complete
    assert stream.current_turn == 3


@row(51)
async def test_a_filter_that_copies_items_doubles_no_event(executor: Executor) -> None:
    def copying(data: Any) -> Any:
        return data.clone(
            pre_handoff_items=tuple(copy.copy(item) for item in data.pre_handoff_items),
            new_items=tuple(copy.copy(item) for item in data.new_items),
        )

    entry = handoff(Agent(name="Billing"), input_filter=copying)
    triage = Agent(name="Triage", tools=[look_up], handoffs=[entry])
    model = ScriptedModel(
        [call("look_up", "c1")], [call("look_up", "c2"), call("transfer_to_billing", "h1")], "Paid."
    )
    stream = await executor.stream(triage, model=model)
    assert named(await read(stream)) == [
        "agent Triage",
        "tool_called",
        "tool_output",
        "tool_called",
        "handoff_requested",
        "tool_output",
        "handoff_occured",
        "agent Billing",
        "message_output_created",
    ]
    assert shapes(model.requests[2].input) == [
        "Hello",
        "function_call",
        "function_call_output",
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
    ]


@pytest.mark.smoke
@row(52)
async def test_a_soft_cancel_lets_the_turn_end_and_saves_it(
    executor: Executor, tmp_path: Path
) -> None:
    started, release = asyncio.Event(), asyncio.Event()

    @function_tool
    async def slow() -> str:
        started.set()
        await soon(release)
        return "finished"

    session = outlast.SQLiteSession("s", tmp_path / "sessions.db")
    model = ScriptedModel([call("slow", "c1")], "never")
    stream = await executor.stream(Agent(name="A", tools=[slow]), model=model, session=session)
    reading = asyncio.create_task(read(stream))
    await soon(started)
    stream.cancel(mode="after_turn")
    await executor.until_cancel_is_known()
    release.set()
    assert named(await reading)[-1] == "tool_output"
    assert (model.calls, stream.final_output) == (1, None)
    assert tool_outputs(stream) == ["finished"]
    assert stream.is_complete
    assert await saved(session) == ["Hello", "function_call", "function_call_output"]


@also_on_server
@row(52)
async def test_a_cancel_at_once_stops_the_tool_and_ends_the_stream(executor: Executor) -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    @function_tool
    async def endless() -> str:
        started.set()
        try:
            return await asyncio.Future[str]()
        finally:
            stopped.set()

    model = ScriptedModel([call("endless", "c1")], "never")
    stream = await executor.stream(
        Agent(name="A", tools=[endless]),
        model=model,
        run_config=RunConfig(heartbeat_timeout=timedelta(seconds=2)),
    )
    reading = asyncio.create_task(read(stream))
    await soon(started)
    stream.cancel()
    assert "tool_output" not in named(await reading)
    await soon(stopped)
    assert (model.calls, stream.final_output) == (1, None)
    assert stream.is_complete


def _script() -> ScriptedModel:
    return ScriptedModel(
        [*say("Let me see."), call("look_up", "c1")],
        [call("transfer_to_billing", "h1")],
        "Paid.",
    )


@row(53)
async def test_read_along_or_not_it_is_the_same_run(executor: Executor, tmp_path: Path) -> None:
    triage = Agent(name="Triage", tools=[look_up], handoffs=[Agent(name="Billing")])
    plain, streamed = (
        outlast.SQLiteSession(name, tmp_path / "sessions.db") for name in ("plain", "streamed")
    )
    models = _script(), _script()
    result = await executor.execute(triage, model=models[0], session=plain)
    stream = await executor.stream(triage, model=models[1], session=streamed)
    await read(stream)
    assert (stream.final_output, stream.last_agent.name) == ("Paid.", "Billing")
    assert result.final_output == stream.final_output
    assert kinds(result) == kinds(stream)
    assert result.to_input_list() == stream.to_input_list()
    assert [one.response_id for one in result.raw_responses] == [
        one.response_id for one in stream.raw_responses
    ]
    assert await plain.get_items() == await streamed.get_items()
    assert [request.input for request in models[0].requests] == [
        request.input for request in models[1].requests
    ]


def _refusing() -> Agent[Any]:
    @outlast.input_guardrail(run_in_parallel=False)
    async def refuse(_context: Any, _agent: Any, _input: Any) -> Any:
        return outlast.GuardrailFunctionOutput(output_info="no", tripwire_triggered=True)

    return Agent(name="A", input_guardrails=[refuse])


def _looking() -> Agent[Any]:
    return Agent(name="A", tools=[look_up])


@also_on_server
@row(53)
@pytest.mark.parametrize(
    ("make_agent", "kind", "events"),
    [
        (_looking, "MaxTurnsExceeded", ["message_output_created", "tool_called", "tool_output"]),
        (lambda: Agent(name="A"), "ModelBehaviorError", None),
        (_refusing, "InputGuardrailTripwireTriggered", []),
    ],
    ids=["turns", "behavior", "guardrail"],
)
async def test_read_along_or_not_it_is_the_same_error(
    executor: Executor, make_agent: Callable[[], Agent[Any]], kind: str, events: list[str] | None
) -> None:
    """What came before a call of an unknown tool is told, as far as it is kept."""
    agent = make_agent()
    expected: Any = getattr(outlast, kind)
    config = RunConfig(tool_not_found_behavior="raise_error")
    with pytest.raises(expected) as plain:
        await executor.execute(agent, model=_script(), max_turns=1, run_config=config)
    stream = await executor.stream(agent, model=_script(), max_turns=1, run_config=config)
    seen: list[Any] = []
    with pytest.raises(expected) as streamed:
        await read(stream, seen)
    assert str(plain.value) == str(streamed.value)
    assert type(plain.value) is type(streamed.value)
    if events is not None:
        assert named(seen) == ["agent A", *events]
    assert kinds(plain.value.run_data) == kinds(streamed.value.run_data)
