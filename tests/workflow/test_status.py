"""What a run waits for, and how it ended, is the same wherever one looks."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowExecutionStatus

from benchmarks.actions import count_actions
from outlast.agents.agent import Agent
from outlast.agents.errors import RunCancelled, RunClosed, RunTerminated
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle
from outlast.contract import names
from outlast.loop.state import LoopState
from outlast.testing import ScriptedModel, call
from outlast.workflows import agent_run
from tests.workflow.desk import Desk

SHOWN = (
    names.ATTRIBUTE_AGENT,
    names.ATTRIBUTE_STATUS,
    names.ATTRIBUTE_APPROVALS,
    names.ATTRIBUTE_WAITS_FOR,
)


@function_tool(needs_approval=True)
async def refund(order: str) -> str:
    return f"refunded {order}"


async def _shown(desk: Desk, handle: RunHandle) -> list[Any]:
    """Return the agent, the status, the approvals and the wait, as the server shows them."""
    described = await desk.workflow(handle).describe()
    shown: dict[str, Any] = dict(described.search_attributes)
    return [*(shown.get(name, [None])[0] for name in SHOWN)]


async def _timers(desk: Desk, handle: RunHandle) -> dict[str, list[str]]:
    """Return the summaries of a run's timer events: the bars of its timeline."""
    found: dict[str, list[str]] = {}
    async for event in desk.workflow(handle).fetch_history_events():
        kind = EventType.Name(event.event_type).removeprefix("EVENT_TYPE_")
        if kind.startswith("TIMER_"):
            data = event.user_metadata.summary.data
            found.setdefault(kind, []).append(json.loads(data) if data else "")
    return found


@pytest.mark.smoke
async def test_the_status_says_what_an_open_run_waits_for(desk: Desk):
    agent = Agent(name="Triage", handoffs=[Agent(name="Billing", tools=[refund])])
    model = ScriptedModel(
        [call("transfer_to_billing", "h1")], [call("refund", "c1", order="A-17")], "It is done."
    )
    handle = await desk.start(agent, keep_open=True)
    assert await _shown(desk, handle) == ["Triage", None, 0, None]
    await desk.open(agent, model=model)
    await desk.until_status(handle, "waiting")
    assert await _shown(desk, handle) == ["Billing", "waiting", 1, "approval of refund"]
    assert await _timers(desk, handle) == {"TIMER_STARTED": ["Waiting for approval: refund"]}
    await handle.approve("a1")
    await desk.until_status(handle, "idle")
    assert await _shown(desk, handle) == ["Billing", "idle", 0, "message"]
    assert await _timers(desk, handle) == {
        "TIMER_STARTED": ["Waiting for approval: refund", ""],
        "TIMER_CANCELED": ["Waiting for approval: refund"],
    }
    await handle.cancel("after_turn")
    await desk.result(handle)
    assert await _shown(desk, handle) == ["Billing", None, 0, None]


async def test_approvals_at_once_share_what_is_billed(desk: Desk):
    """Eight turns with seven approved calls: one write and one bar for all of them."""
    turns = [[call("refund", f"c{number}", order=f"A-{number}")] for number in range(7)]
    agent = Agent(name="Billing", tools=[refund])
    await desk.open(agent, model=ScriptedModel(*turns, "Done."))
    handle = await desk.start(agent)
    for number in range(1, 8):
        await desk.until(handle, lambda state, wanted=f"a{number}": _is_pending(state, wanted))
        await handle.approve(f"a{number}")
    await desk.result(handle)
    events = [event async for event in desk.workflow(handle).fetch_history_events()]
    actions = count_actions(events)
    assert actions["upsert_workflow_search_attributes"] == 2, "the wait, and the end"
    assert actions["start_timer"] == 2, "the bar, and the time until its end would be shown"
    assert actions.total() <= 31, actions
    assert await _shown(desk, handle) == ["Billing", None, 0, None]


def _is_pending(state: LoopState, request_id: str) -> bool:
    return any(one.id == request_id for one in state.pending_approvals)


async def test_a_wait_that_is_over_is_not_listed_after_its_time(
    monkeypatch: pytest.MonkeyPatch, desk: Desk
):
    monkeypatch.setattr(agent_run, "LISTED_FOR_MS", 0)
    working = await _approved_and_working(desk)
    assert await _shown(desk, working.handle) == ["A", None, 0, None]
    working.may_end.set()
    await desk.result(working.handle)
    assert await _shown(desk, working.handle) == ["A", None, 0, None]


async def test_the_end_of_a_brief_wait_is_listed_while_the_run_still_works(
    monkeypatch: pytest.MonkeyPatch, desk: Desk
):
    monkeypatch.setattr(agent_run, "LISTED_FOR_MS", 1_500)
    working = await _approved_and_working(desk)
    async with asyncio.timeout(20):
        while await _shown(desk, working.handle) != ["A", None, 0, None]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert (await working.handle.state()).pending_approvals == ()
    working.may_end.set()
    await desk.result(working.handle)


@dataclass
class _Working:
    handle: RunHandle
    may_end: asyncio.Event


async def _approved_and_working(desk: Desk) -> _Working:
    """Return a run whose approved call has begun, and does not end by itself."""
    began, may_end = asyncio.Event(), asyncio.Event()

    @function_tool(needs_approval=True)
    async def slow() -> str:
        began.set()
        await may_end.wait()
        return "done"

    agent = Agent(name="A", tools=[slow])
    await desk.open(agent, model=ScriptedModel([call("slow", "c1")], "Done."))
    handle = await desk.start(agent)
    await desk.until_status(handle, "waiting")
    await handle.approve("a1")
    await asyncio.wait_for(began.wait(), 20)
    return _Working(handle, may_end)


async def test_a_run_that_never_waits_writes_no_status(desk: Desk):
    agent = Agent(name="A")
    await desk.open(agent, model=ScriptedModel("Hello."))
    handle = await desk.start(agent)
    await desk.result(handle)
    upsert = "EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES"
    assert upsert not in await desk.event_types(handle)


async def _by_signal(desk: Desk, handle: RunHandle) -> None:
    await desk.workflow(handle).signal(names.SIGNAL_CANCEL, {"mode": "immediate"})


async def _by_the_engine(desk: Desk, handle: RunHandle) -> None:
    await desk.workflow(handle).cancel()


@pytest.mark.parametrize(
    ("cancel", "waits_for"), [(_by_signal, "idle"), (_by_the_engine, "waiting")]
)
async def test_a_cancelled_run_is_cancelled_wherever_one_looks(
    desk: Desk, cancel: Any, waits_for: str
):
    agent = Agent(name="A", tools=[refund])
    first = "Hello." if waits_for == "idle" else [call("refund", "c1", order="A-17")]
    await desk.open(agent, model=ScriptedModel(first))
    handle = await desk.start(agent, keep_open=True)
    await desk.until_status(handle, waits_for)
    await cancel(desk, handle)
    with pytest.raises(RunCancelled):
        await desk.result(handle)
    described = await desk.workflow(handle).describe()
    assert described.status is WorkflowExecutionStatus.CANCELED
    assert await _shown(desk, handle) == ["A", None, 0, None]
    assert (await handle.state()).status == "cancelled"
    with pytest.raises(RunClosed, match=r"has ended \(cancelled\)"):
        await handle.send("Still there?")


async def test_a_terminated_run_is_terminated_wherever_one_looks(desk: Desk):
    await desk.open(Agent(name="A"), model=ScriptedModel("Hello."))
    handle = await desk.start(Agent(name="A"), keep_open=True)
    await desk.until_status(handle, "idle")
    await desk.workflow(handle).terminate(reason="it was spam")
    with pytest.raises(RunTerminated, match="it was spam"):
        await desk.result(handle)
    with pytest.raises(RunTerminated, match="it was spam"):
        await handle.wait_for_people()
    events = [event async for event in handle.stream_events()]
    assert (events[-1].type, getattr(events[-1], "status", None)) == (
        "status_stream_event",
        "terminated",
    )
    with pytest.raises(RunClosed, match=r"has ended \(terminated\)"):
        await handle.send("Still there?")
