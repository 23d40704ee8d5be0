"""What the `on_stream` of a tool that is an agent is told, and how long is waited for it."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from openai.types.responses import ResponseFunctionToolCall

from outlast.activities import nested_stream
from outlast.activities.invocation import Invocation
from outlast.activities.nested_stream import NestedStream
from outlast.agents.agent import Agent
from outlast.agents.items.stream_events import AgentToolStreamEvent
from outlast.agents.tools.function_tool import function_tool
from outlast.contract.streams.delta_reader import RESTARTED
from outlast.loop.calls import ModelReply, PlannedCall
from outlast.loop.checks import RequiredStep
from outlast.loop.effects import CallModel
from outlast.loop.items import Item, ItemKind
from outlast.loop.phrases import handed_over
from outlast.loop.values import JsonObject
from outlast.testing import call, say
from tests.unit.activities.desk import (
    HELLO,
    answering,
    handoff_request,
    model_request,
    raising,
    worker_of,
)

DELTA: JsonObject = {"type": "response.output_text.delta", "delta": "Hi"}


@function_tool
def add(left: int) -> int:
    """Add numbers."""
    return left


INNER = Agent[Any](name="Inner", tools=[add])
CLOSER = Agent[Any](name="Closer")


class Told:
    """An `on_stream` that notes what it is told, in a few words."""

    def __init__(self) -> None:
        self.events: list[AgentToolStreamEvent] = []

    async def __call__(self, told: AgentToolStreamEvent) -> None:
        self.events.append(told)

    @property
    def words(self) -> list[str]:
        return [_words(one) for one in self.events]


def _words(told: AgentToolStreamEvent) -> str:
    event = told["event"]
    match event.type:
        case "raw_response_event":
            return event.data.type
        case "agent_updated_stream_event":
            return f"agent {event.new_agent.name}"
        case _:
            return event.name


def scene_for(on_stream: Any, agent: str = "Inner", **options: Any) -> Invocation:
    tool = INNER.as_tool("ask", "Ask.", on_stream=on_stream, **options)
    worker = worker_of(Agent[Any](name="A", tools=[tool]), CLOSER)
    return Invocation.of(worker, model_request(agent, settings=answering("ask")).effect)


def turn(**fields: Any) -> CallModel:
    return model_request("Inner", **fields).effect


def entry(kind: ItemKind, call_id: str, agent: str = "Inner") -> Item:
    if kind == "tool_call":
        return Item(kind, call("add", call_id, left=1), agent, 1)
    output: JsonObject = {"type": "function_call_output", "call_id": call_id, "output": "1"}
    return Item(kind, output, agent, 1)


def transferred(target: str) -> Item:
    output = {"type": "function_call_output", "call_id": "h0", "output": handed_over(target)}
    return Item("handoff_output", output, "Inner")


WORKED = (HELLO, entry("tool_call", "n1"), entry("tool_output", "n1"))


# --- What is told -----------------------------------------------------------------------------------------


async def test_a_run_that_nobody_is_told_of_tells_nothing() -> None:
    invocation = scene_for(None)
    async with NestedStream(invocation, turn()) as told:
        assert not told.has_callback
        await told.turn(turn(starts=True), WORKED, attempt=2)
        await told.raw(DELTA)
        await told.reply(turn(), ModelReply(items=tuple(say("Hi"))))
        await told.handoff(WORKED, transferred("Closer"))
        await told.outputs(WORKED)


async def test_the_callback_knows_the_agent_and_the_call_that_is_answered() -> None:
    heard = Told()
    async with NestedStream(scene_for(heard), turn()) as told:
        await told.raw(DELTA)
    (one,) = heard.events
    assert one["agent"] is INNER
    asked = one["tool_call"]
    assert isinstance(asked, ResponseFunctionToolCall)
    assert (asked.name, asked.call_id, asked.arguments) == ("ask", "c1", '{"input": "Hi"}')
    assert set(one) == {"event", "agent", "tool_call"}


async def test_a_turn_tells_who_begins_and_what_the_last_calls_came_to() -> None:
    heard = Told()
    async with NestedStream(scene_for(heard), turn()) as told:
        await told.turn(turn(starts=True), WORKED, attempt=1)
        await told.turn(turn(), WORKED, attempt=1)
        await told.turn(turn(), [*WORKED, HELLO], attempt=1)
        await told.turn(turn(), [HELLO], attempt=1)
    assert heard.words == ["agent Inner", *["tool_output"] * 3]
    assert all(one["event"].id == 0 for one in heard.events), "only events of the run are counted"
    event: Any = heard.events[1]["event"]
    assert (event.item.output, event.item.agent, event.id) == ("1", INNER, 0)
    assert event.item.tool_origin.type == "function"


@pytest.mark.parametrize(
    "items",
    [
        [*WORKED, entry("handoff_output", "h1")],
        [HELLO, entry("tool_call", "n1", "Closer"), entry("tool_output", "n1", "Closer")],
    ],
)
async def test_what_a_handoff_has_told_is_not_told_again(items: list[Item]) -> None:
    heard = Told()
    async with NestedStream(scene_for(heard), turn()) as told:
        await told.turn(turn(starts=True), items, attempt=1)
    assert heard.words == ["agent Inner"]


async def test_a_repeated_attempt_says_first_that_it_is_one() -> None:
    heard = Told()
    async with NestedStream(scene_for(heard), turn()) as told:
        await told.turn(turn(starts=True), WORKED, attempt=2)
    assert heard.words == [RESTARTED, "agent Inner", "tool_output"]
    event: Any = heard.events[0]["event"]
    assert event.raw["attempt"] == 2


async def test_a_reply_is_told_item_by_item_as_it_was_planned() -> None:
    heard = Told()
    items: tuple[JsonObject, ...] = (
        {"type": "reasoning", "id": "r1", "summary": []},
        *say("Wait."),
        call("add", "n1", left=1),
        call("transfer_to_closer", "h1"),
        {"type": "file_search_call", "id": "f1"},
        {"type": "something_new"},
    )
    calls = (
        PlannedCall(item=2, kind="tool"),
        PlannedCall(item=3, kind="handoff", target="Closer"),
    )
    async with NestedStream(scene_for(heard), turn()) as told:
        await told.reply(turn(), ModelReply(items=items, calls=calls))
    assert heard.words == [
        "reasoning_item_created",
        "message_output_created",
        "tool_called",
        "handoff_requested",
        "tool_called",
    ]
    event: Any = heard.events[2]["event"]
    assert (event.item.description, event.item.tool_name) == ("Add numbers.", "add")


@pytest.mark.parametrize(
    ("steps", "calls", "words"),
    [
        ((), (), ["reasoning_item_created", "message_output_created"]),
        (("check_output",), (), ["reasoning_item_created"]),
        (
            ("check_output",),
            (PlannedCall(item=2, kind="tool"),),
            ["reasoning_item_created", "message_output_created", "tool_called"],
        ),
    ],
)
async def test_an_answer_that_guardrails_check_is_not_told_before(
    steps: tuple[RequiredStep, ...], calls: tuple[PlannedCall, ...], words: list[str]
) -> None:
    heard = Told()
    thought: JsonObject = {"type": "reasoning", "id": "r1", "summary": []}
    items = (thought, *say("Hi"), *[call("add", "n1", left=1)][: len(calls)])
    async with NestedStream(scene_for(heard), turn()) as told:
        reply = ModelReply(items=items, calls=calls, required_steps=steps)
        await told.reply(turn(), reply)
    assert heard.words == words


async def test_after_an_effect_nothing_calls_back() -> None:
    before = asyncio.all_tasks()  # other tests may have left some on this event loop
    async with NestedStream(scene_for(Told()), turn()) as told:
        await told.raw(DELTA)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() <= before


async def test_a_handoff_is_told_after_what_was_done_besides() -> None:
    heard = Told()
    asked = handoff_request("transfer_to_closer", agent="Inner").effect
    items = [*WORKED, entry("handoff_output", "h0")]
    async with NestedStream(scene_for(heard), asked) as told:
        await told.handoff(items, transferred("Closer"))
    assert heard.words == ["tool_output", "tool_output", "handoff_occured"]
    event: Any = heard.events[-1]["event"]
    assert (event.item.source_agent, event.item.target_agent) == (INNER, CLOSER)


async def test_outputs_that_are_the_answer_are_told() -> None:
    heard = Told()
    async with NestedStream(scene_for(heard), turn()) as told:
        await told.outputs(WORKED)
    assert heard.words == ["tool_output"]


async def test_the_answer_that_passed_is_that_of_the_newest_turn() -> None:
    heard = Told()
    first, second = (
        Item("message", say(text)[0], "Inner", at) for at, text in ((1, "earlier"), (2, "newest"))
    )
    async with NestedStream(scene_for(heard), turn()) as told:
        await told.checked_answer(())
        await told.checked_answer((HELLO, first, second))
        await told.checked_answer((HELLO, Item("reasoning", {}, "Inner", 1), first))
    assert heard.words == ["message_output_created"] * 2
    assert ["earlier" in str(one) for one in heard.events] == [False, True]


async def test_a_stream_is_told_while_it_passes_and_closed_early() -> None:
    heard, closed = Told(), list[bool]()

    async def speak() -> AsyncGenerator[JsonObject]:
        try:
            for _ in range(9):
                yield DELTA
        finally:
            closed.append(True)

    async with NestedStream(scene_for(heard), turn()) as told:
        passing = told.forward(speak())
        assert [await anext(passing), await anext(passing)] == [DELTA, DELTA]
        await passing.aclose()
        assert closed == [True]
    assert heard.words == ["response.output_text.delta"] * 2


# --- Whoever is told --------------------------------------------------------------------------------------


async def test_a_callback_that_is_not_async_is_told_too() -> None:
    heard: list[Any] = []
    async with NestedStream(scene_for(heard.append), turn()) as told:
        await told.raw(DELTA)
    assert [_words(one) for one in heard] == ["response.output_text.delta"]


async def test_what_a_callback_does_to_an_event_does_not_change_the_reply() -> None:
    raw: JsonObject = {"type": "response.completed", "response": {"output": []}}

    def spoil(told: Any) -> None:
        told["event"].raw["response"]["output"].append("junk")

    async with NestedStream(scene_for(spoil), turn()) as told:
        await told.raw(raw)
    assert raw["response"]["output"] == []


async def test_what_a_callback_raises_is_logged_and_the_next_event_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked: list[Any] = []

    def fail(told: Any) -> None:
        asked.append(told)
        raise ValueError("no screen")

    with caplog.at_level(logging.WARNING):
        async with NestedStream(scene_for(fail), turn()) as told:
            await told.raw(DELTA)
            await told.raw(DELTA)
    assert len(asked) == 2
    said = "on_stream of the tool 'ask' raised ValueError: no screen"
    assert all(one.getMessage().startswith(said) for one in caplog.records)
    assert [one.getMessage()[-9:] for one in caplog.records] == [" in fail)"] * 2


async def test_an_effect_that_fails_has_told_what_came_before() -> None:
    heard = Told()

    async def work() -> None:
        async with NestedStream(scene_for(heard), turn()) as told:
            await told.raw(DELTA)
            raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        await work()
    assert heard.words == ["response.output_text.delta"]


async def test_events_of_agents_that_nobody_knows_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard = Told()
    async with NestedStream(scene_for(heard), turn()) as told:
        await told.handoff([], transferred("Nobody"))
        await told.raw(DELTA)
    assert heard.words == ["response.output_text.delta"]
    assert "has no agent 'Nobody'" in caplog.text


# --- Waiting ----------------------------------------------------------------------------------------------


class ApprovalRule(Told):
    """An `on_stream` that waits until it is let through."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = asyncio.Event()

    async def __call__(self, told: AgentToolStreamEvent) -> None:
        await self.opened.wait()
        await super().__call__(told)


async def test_the_effect_waits_for_the_callback_only_where_the_backlog_is_full() -> None:
    gate = ApprovalRule()
    async with NestedStream(scene_for(gate, on_stream_max_pending_events=2), turn()) as told:
        await told.raw(DELTA)
        await told.raw(DELTA)
        third = asyncio.create_task(_three_more(told))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not third.done()
        assert gate.words == []
        gate.opened.set()
        await third
    assert len(gate.events) == 5


async def _three_more(told: nested_stream.NestedStream) -> None:
    for _ in range(3):
        await told.raw(DELTA)


async def test_without_a_bound_nothing_waits_before_the_end() -> None:
    gate = ApprovalRule()
    async with NestedStream(scene_for(gate, on_stream_max_pending_events=None), turn()) as told:
        for _ in range(3_000):
            await told.raw(DELTA)
        assert gate.events == []
        gate.opened.set()
    assert len(gate.events) == 3_000


@pytest.mark.parametrize("backlog", [1, None])
async def test_a_callback_that_hangs_is_given_up(
    backlog: int | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(nested_stream, "LONGEST_WAIT_SECONDS", 0.05)
    gate = ApprovalRule()
    async with NestedStream(scene_for(gate, on_stream_max_pending_events=backlog), turn()) as told:
        for _ in range(4):
            await told.raw(DELTA)
        assert told.has_callback is (backlog is None)
    assert not told.has_callback
    assert gate.events == []
    assert caplog.text.count("on_stream of the tool 'ask' is too slow") == 1


async def test_the_waits_for_a_slow_callback_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow(_told: AgentToolStreamEvent) -> None:
        await asyncio.sleep(0.03)

    monkeypatch.setattr(nested_stream, "LONGEST_WAIT_SECONDS", 0.1)
    async with NestedStream(scene_for(slow, on_stream_max_pending_events=1), turn()) as told:
        for _ in range(9):
            await told.raw(DELTA)
        assert not told.has_callback


async def test_nothing_waits_longer_than_the_effect_may_take(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A model call that outlives its bound would be paid again."""
    monkeypatch.setattr(nested_stream, "SPARE_SECONDS", 599.95)
    async with asyncio.timeout(20), NestedStream(scene_for(ApprovalRule()), turn()) as told:
        await told.raw(DELTA)
    assert "on_stream of the tool 'ask' is too slow" in caplog.text


async def test_a_cancelled_effect_does_not_wait() -> None:
    gate, told_one = ApprovalRule(), asyncio.Event()

    async def work() -> None:
        async with NestedStream(scene_for(gate), turn()) as told:
            await told.raw(DELTA)
            told_one.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await told_one.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gate.events == []


async def test_a_definition_that_cannot_be_told_is_no_failure_of_the_effect() -> None:
    async with NestedStream(scene_for(raising(RuntimeError("x"))), turn()) as told:
        await told.reply(turn(), ModelReply(items=tuple(say("Hi"))))
