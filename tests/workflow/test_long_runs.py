"""A run goes on in a new history, again and again: nothing is lost, done twice, or told otherwise."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from outlast.agents.agent import Agent
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import DecisionRefused, RunBusy, RunCancelled
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle, progress_of
from outlast.client.read.events import NumberedEvent
from outlast.contract import policies, records
from outlast.contract.policies import ROLL_OVER_BYTES
from outlast.loop.state import LoopState
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, say
from outlast.views.run import loop_state
from tests.workflow.desk import PATIENCE_SECONDS, Desk
from tests.workflow.replies import last_user_text, outputs

SHORT = {"roll_over_events": 20}
"""The shortest history there is: two turns."""

LONGER = {"roll_over_events": 40}
"""Four turns. The server lets a second pass between two new histories, so tests have few."""


@function_tool
async def count(ctx: RunContextWrapper[Any], number: int) -> str:
    ctx.context = {"sum": (ctx.context or {"sum": 0})["sum"] + number}
    return f"counted {number}"


@function_tool(needs_approval=True)
async def refund(order: str) -> str:
    return f"refunded {order}"


def counting(turns: int) -> Callable[[ModelRequest], Any]:
    """A model that counts up to a number, one call in each turn."""

    def reply(request: ModelRequest) -> Any:
        counted = len(outputs(request))
        if counted == turns:
            return say(f"Counted to {turns}.")
        return [call("count", f"c{counted}", number=counted)]

    return reply


COUNTER = Agent[Any](name="Counter", tools=[count])
CLERK = Agent[Any](name="Clerk", tools=[count, refund])


async def in_later_history(desk: Desk, handle: RunHandle) -> bool:
    """Whether the run has continued as new at least once."""
    info = (await desk.workflow(handle).describe()).raw_info
    return info.first_run_id != info.execution.run_id


async def true_in_the_end(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something that nobody tells has come true."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await condition():  # noqa: ASYNC110  the server tells nobody
            await asyncio.sleep(0.02)


async def read(handle: RunHandle, from_event: int = 0) -> list[NumberedEvent]:
    """Return the events of a run from one on to the last."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        events = handle.stream_events(from_event)
        return [event async for event in events if event.type != "raw_response_event"]


# --- Tools and turns -----------------------------------------------------------------------------


@pytest.mark.smoke
async def test_many_turns_make_one_run_however_many_histories_hold_it(desk: Desk):
    turns = 8
    await desk.open(COUNTER, model=ScriptedModel(always=counting(turns)))
    handle = await desk.start_record(agent="Counter", input="Go", settings=LONGER)
    result = await desk.result(handle)
    assert result.final_output == f"Counted to {turns}."
    assert result.context == {"sum": sum(range(turns))}
    assert result.turns == turns + 1
    assert result.usage.requests == turns + 1
    texts = [item.raw.get("output") for item in result.items if item.kind == "tool_output"]
    assert texts == [f"counted {number}" for number in range(turns)]
    assert len(result.items) == 1 + 2 * turns + 1
    found = await desk.all_events(handle)
    assert len(found) >= 3
    numbers = [
        int(event.activity_task_scheduled_event_attributes.activity_id)
        for events in found
        for event in events
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
    ]
    assert numbers == list(range(2, 2 + turns + 1 + turns)), "each once; 1 is the preparation"


async def test_every_reader_sees_the_same_events_under_the_same_numbers(desk: Desk):
    await desk.open(COUNTER, model=ScriptedModel(always=counting(5)))
    handle = await desk.start_record(agent="Counter", input="Go", settings=LONGER)
    live, progress = await asyncio.gather(read(handle), desk.progress(handle))
    assert [event.id for event in live] == list(range(len(live)))
    assert await read(handle) == live
    for start in (1, len(live) // 2, len(live) - 1, len(live) + 5):
        assert await read(handle, start) == live[start:]
    state = loop_state(await handle.state())
    assert progress[-1].state == state
    newest = [one async for one in progress_of(handle, from_start=False)]
    assert newest[-1].state == state
    assert newest[0].event is None
    assert newest[0].state.turns > 1, "the newest history begins in the middle of the run"
    tail = [one.event for one in newest if one.event is not None]
    assert tail == [one.event for one in progress if one.event is not None][-len(tail) :]
    states = [one.state.turns for one in progress]
    assert states == sorted(states)


# --- People --------------------------------------------------------------------------------------


@pytest.mark.smoke
async def test_an_approval_waits_across_histories(desk: Desk):
    first = [call("count", f"c{number}", number=number) for number in range(4)]
    refused = asyncio.Event()

    async def last_reply(_request: ModelRequest) -> Any:
        await refused.wait()  # the run cannot end before
        return say("Done.")

    model = ScriptedModel([*first, call("refund", "r1", order="A-17")], last_reply)
    await desk.open(CLERK, model=model)
    handle = await desk.start_record(agent="Clerk", input="Go", settings=SHORT)
    await true_in_the_end(lambda: in_later_history(desk, handle))
    state = await desk.until_status(handle, "waiting")
    assert [request.id for request in state.pending_approvals] == ["a1"]
    assert state.calls[-1].status == "waiting"
    await handle.approve("a1", by="ann")
    with pytest.raises(DecisionRefused, match="already approved by ann"):
        await handle.reject("a1", by="bob")
    refused.set()
    result = await desk.result(handle)
    assert result.final_output == "Done."
    assert outputs(model.requests[-1])["r1"] == "refunded A-17"
    assert outputs(model.requests[-1])["c3"] == "counted 3"
    decided = (await handle.state()).approvals[0].decision
    assert decided is not None
    assert decided.by == "ann"


def serve_customers(request: ModelRequest) -> Any:
    """Ask for a refund for each question, and then answer it."""
    if request.input[-1].get("type") == "function_call_output":
        return say(f"Refunded up to {last_user_text(request)}.")
    return [call("refund", f"r{len(request.input)}", order=last_user_text(request))]


@pytest.mark.replayed
async def test_messages_and_decisions_that_arrive_all_around_are_each_taken_once(desk: Desk):
    await desk.open(CLERK, model=ScriptedModel(always=serve_customers))
    handle = await desk.start_record(
        agent="Clerk", input="q0", message_id="q0", keep_open=True, settings=SHORT, max_turns=None
    )
    questions = [f"q{number}" for number in range(1, 8)]
    noises = [f"noise{number}" for number in range(15)]

    async def send_all() -> None:
        for question in questions:
            await handle.send(question, message_id=question)
            await handle.send(question, message_id=question)  # not sure that it arrived

    async def disturb() -> None:
        for noise in noises:
            await desk.workflow(handle).signal(noise)

    def all_answered(state: LoopState) -> bool:
        said = [one for answer in state.answers for one in answer.to]
        return len(said) == len(questions) + 1 and state.status == "idle"

    async def decide_all() -> LoopState:
        decided: set[str] = set()
        async for progress in progress_of(handle):
            for request in progress.state.pending_approvals:
                if request.id not in decided:
                    decided.add(request.id)
                    decision = {"request_id": request.id, "type": "approve", "by": request.id}
                    await desk.workflow(handle).signal("decide", decision)
            if all_answered(progress.state) and len(progress.state.ignored) == len(noises):
                return progress.state
        raise AssertionError("the conversation ended")

    async with asyncio.timeout(2 * PATIENCE_SECONDS):
        state, *_ = await asyncio.gather(decide_all(), send_all(), disturb())
    assert [one for answer in state.answers for one in answer.to] == ["q0", *questions]
    assert all(answer.failure is None for answer in state.answers)
    assert all(request.status == "approved" for request in state.approvals)
    assert {one.what for one in state.ignored} == {f"signal {noise}" for noise in noises}
    asked = [item.raw["content"] for item in state.items if item.kind == "input"]
    assert asked == ["q0", *questions]
    assert await in_later_history(desk, handle)
    assert loop_state(await handle.state()) == state


async def test_a_conversation_goes_on_over_several_histories(desk: Desk):
    answered = ScriptedModel(always=lambda request: say(f"To {last_user_text(request)}."))
    await desk.open(CLERK, model=answered)
    handle = await desk.start_record(
        agent="Clerk", input="q0", message_id="q0", keep_open=True, settings=SHORT
    )
    await desk.until_status(handle, "idle")
    for number in range(1, 8):
        sent = await handle.send(f"q{number}", message_id=f"q{number}")
        assert (await sent.answer()).final_output == f"To q{number}."
    again = await handle.send("q3", message_id="q3")  # said in a history that has ended
    assert (await again.answer()).final_output == "To q3."
    assert answered.calls == 8
    await handle.cancel(mode="after_turn")
    result = await desk.result(handle)
    assert result.status == "completed"
    assert len(result.items) == 16
    assert len(await desk.all_events(handle)) >= 3


async def test_a_run_is_cancelled_in_any_of_its_histories(desk: Desk):
    open_door = asyncio.Event()

    @function_tool
    async def wait(number: int) -> str:
        await open_door.wait()
        return "through"

    def reply(request: ModelRequest) -> Any:
        done = len(outputs(request))
        return [call("wait" if done == 5 else "count", f"c{done}", number=done)]

    agent = Agent[Any](name="Waiter", tools=[count, wait])
    await desk.open(agent, model=ScriptedModel(always=reply))
    handle = await desk.start_record(agent="Waiter", input="Go", settings=LONGER)
    await desk.until(handle, lambda state: any(one.name == "wait" for one in state.calls))
    assert await in_later_history(desk, handle)
    await handle.cancel()
    with pytest.raises(RunCancelled) as raised:
        await desk.result(handle)
    open_door.set()
    assert len(raised.value.run_data.items) == 1 + 2 * 6


# --- Size ----------------------------------------------------------------------------------------

ROWS = 300_000


@function_tool
async def rows(number: int) -> str:
    return f"row {number}; " * (ROWS // 7)


async def test_a_state_larger_than_a_payload_travels_compressed(desk: Desk):
    calls, turns = 3, 4

    def reply(request: ModelRequest) -> Any:
        done = len(outputs(request))
        if done == calls * turns:
            return say(f"{sum(len(text) for text in outputs(request).values())}")
        return [call("rows", f"c{number}", number=number) for number in range(done, done + calls)]

    agent = Agent[Any](name="Reader", tools=[rows])
    await desk.open(agent, model=ScriptedModel(always=reply))
    handle = await desk.start_record(agent="Reader", input="Go")
    result = await desk.result(handle)
    size = int(str(result.final_output))
    assert size > ROLL_OVER_BYTES
    found = [item.raw["output"] for item in result.items if item.kind == "tool_output"]
    assert sum(map(len, found)) == size
    *_, newest = await desk.all_events(handle)
    started = newest[0].workflow_execution_started_event_attributes
    [payload] = await desk.client.data_converter.decode(started.input.payloads)
    assert list(payload["carried"]) == ["zlib"]
    carried = records.read_state(payload["carried"])
    assert len(records.dump(carried)) > ROLL_OVER_BYTES > started.input.ByteSize()


@function_tool
async def noise(number: int) -> str:
    """Text that no compression makes much smaller."""
    return random.Random(number).randbytes(220_000).hex()


async def test_a_state_too_large_for_any_payload_stays_where_it_is(client: Client):
    """Without a cache, each step of such a run would take the time of all before it."""
    turns = 8

    def reply(request: ModelRequest) -> Any:
        done = len(outputs(request))
        return say("Done.") if done == turns else [call("noise", f"c{done}", number=done)]

    desk = Desk(client, cached=True)
    agent = Agent[Any](name="Noisy", tools=[noise])
    await desk.open(agent, model=ScriptedModel(always=reply))
    handle = await desk.start_record(agent="Noisy", input="Go")
    result = await desk.result(handle)
    assert result.final_output == "Done."
    assert len(records.write_state(loop_state(await handle.state()))["zlib"]) > ROLL_OVER_BYTES
    await desk.close_all()


# --- While people are waited for -------------------------------------------------------------------


async def test_a_run_that_waits_for_people_continues_as_new_however_much_is_said(desk: Desk):
    """Anybody who may send messages could fill a history, and then nobody could decide."""
    model = ScriptedModel([call("refund", "c1", order="A-17")], always="Done.")
    await desk.open(CLERK, model=model)
    handle = await desk.start_short(CLERK, keep_open=True, events=40)
    await desk.until_status(handle, "waiting")
    for number in range(30):
        await handle.send(f"message {number}")
    await true_in_the_end(lambda: in_later_history(desk, handle))
    state = await handle.state()
    assert [message.id for message in state.unread] != []
    assert len(state.unread) == 30
    await handle.approve("a1")
    result = await handle.wait_for_people()
    assert result.final_output == "Done."
    said = [item.raw["content"] for item in (await handle.state()).items if item.kind == "input"]
    assert said == ["Hello", *(f"message {number}" for number in range(30))]


async def test_a_cancel_that_comes_while_a_waiting_run_continues_as_new_counts(desk: Desk):
    await desk.open(CLERK, model=ScriptedModel([call("refund", "c1", order="A-17")], always="no"))
    handle = await desk.start_short(CLERK, keep_open=True, events=40)
    await desk.until_status(handle, "waiting")
    sending = [handle.send(f"message {number}") for number in range(12)]
    await asyncio.gather(*sending, handle.cancel(), return_exceptions=True)
    with pytest.raises(RunCancelled):
        await desk.result(handle)


async def test_a_run_takes_no_more_messages_than_it_can_keep(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(policies, "LONGEST_INBOX", 3)
    await desk.open(
        CLERK, model=ScriptedModel([call("refund", "c1", order="A-17")], always="Done.")
    )
    handle = await desk.start(CLERK, keep_open=True)
    await desk.until_status(handle, "waiting")
    for number in range(3):
        await handle.send(f"message {number}")
    with pytest.raises(RunBusy, match="3 unanswered messages"):
        await handle.send("one more")
    await handle.approve("a1")
    await handle.wait_for_people()
    await handle.send("one more")
