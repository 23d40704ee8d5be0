"""A reset by an operator: what is read of the run is what it does, and people can decide again."""

import secrets
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest

from outlast.agents.agent import Agent
from outlast.agents.context.wrapper import ToolContext
from outlast.agents.errors import DecisionRefused, DeliveryRefused
from outlast.agents.tools.function_tool import function_tool
from outlast.client.deliveries import finish
from outlast.client.handle import RunHandle
from outlast.loop.state import LoopState
from outlast.ports.model import ModelRequest
from outlast.sessions.sqlite import SQLiteSession
from outlast.testing import ScriptedModel, call, say
from outlast.views.run import loop_state
from tests.workflow.desk import Desk
from tests.workflow.laws import check_run, snapshot_of, timeless
from tests.workflow.replies import outputs
from tests.workflow.test_waits import parked


async def task_ends(desk: Desk, handle: RunHandle) -> tuple[str, list[int]]:
    """Return the newest history of a run, and the numbers of its completed workflow tasks."""
    execution = (await desk.workflow(handle).describe()).run_id
    history = await desk.client.get_workflow_handle(handle.id, run_id=execution).fetch_history()
    completed = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    return execution, [one.event_id for one in history.events if one.event_type == completed]


async def reset(desk: Desk, handle: RunHandle, execution: str, point: int) -> None:
    """Let a run begin anew after a workflow task of one of its histories."""
    request = ResetWorkflowExecutionRequest(
        namespace=desk.client.namespace,
        workflow_execution=WorkflowExecution(workflow_id=handle.id, run_id=execution),
        reason="a test",
        workflow_task_finish_event_id=point,
        request_id=secrets.token_hex(8),
    )
    await desk.client.workflow_service.reset_workflow_execution(request)


def clerk(ran: list[str]) -> Agent[Any]:
    @function_tool(needs_approval=True)
    async def refund(order: str) -> str:
        ran.append(order)
        return f"refunded {order}"

    return Agent(name="Clerk", tools=[refund])


def refunds_once(request: ModelRequest) -> Any:
    if "c1" in outputs(request):
        return say("Done.")
    return [call("refund", "c1", order="A")]


def _is(whole: LoopState, state: LoopState) -> bool:
    return timeless(state) == whole


async def until_idle(desk: Desk, handle: RunHandle) -> LoopState:
    """Decide what has to be decided, and return the state when all is answered."""
    while True:
        state = await desk.settled(handle)
        if state.status == "idle":
            return state
        for request in state.pending_approvals:
            with suppress(DecisionRefused):  # the reset has applied it again meanwhile
                await handle.approve(request.id, by="ann")
        await desk.until(handle, lambda one: not one.pending_approvals)


async def test_a_reset_to_any_task_leaves_a_run_that_reads_as_it_is_and_can_be_decided(desk: Desk):
    ran: list[str] = []
    agent = clerk(ran)
    await desk.open(agent, model=ScriptedModel(*[refunds_once] * 99))
    handle = await desk.start(agent, keep_open=True)
    await desk.until_status(handle, "waiting")
    await handle.approve("a1", by="ann")
    await (await handle.send("And B?", message_id="m2")).answer()
    execution, points = await task_ends(desk, handle)
    assert len(points) >= 5
    for point in points:
        await reset(desk, handle, execution, point)
        state = await until_idle(desk, handle)
        whole = timeless(state)
        assert {message for answer in state.answers for message in answer.to} == {"start", "m2"}
        assert [(one.status, one.decision and one.decision.by) for one in state.approvals] == [
            ("approved", "ann")
        ]
        await desk.until(handle, partial(_is, whole))
        await check_run(desk.client, handle.id)
    assert 2 <= len(ran) <= len(points)


@pytest.mark.smoke
async def test_a_request_is_decided_again_after_a_reset_to_the_task_that_made_it(desk: Desk):
    ran: list[str] = []
    agent = clerk(ran)
    await desk.open(agent, model=ScriptedModel(*[refunds_once] * 9))
    handle = await desk.start(agent, keep_open=True)
    await desk.until_status(handle, "waiting")
    execution, points = await task_ends(desk, handle)
    decision = {"request_id": "a1", "type": "approve", "by": "ann"}
    await desk.workflow(handle).signal("decide", decision)
    await desk.until_status(handle, "idle")
    await reset(desk, handle, execution, points[-1])
    state = await until_idle(desk, handle)
    assert state.approvals[0].status == "approved"
    assert ran == ["A", "A"]
    assert timeless(await snapshot_of(desk.workflow(handle))) == timeless(state)


async def test_a_conversation_is_read_across_the_history_that_was_reset(desk: Desk):
    agent = Agent[Any](name="Helper")
    await desk.open(agent, model=ScriptedModel(*["Yes."] * 30))
    handle = await desk.start_short(agent, keep_open=True, events=12)
    for number in range(4):
        await (await handle.send(f"{number}?", message_id=f"m{number}")).answer()
    assert len(await desk.all_events(handle)) > 1
    await desk.settled(handle)
    execution, points = await task_ends(desk, handle)
    await reset(desk, handle, execution, points[-1])
    await (await handle.send("Still there?", message_id="m9")).answer()
    state = await desk.until(
        handle, lambda one: "m9" in one.answers[-1].to if one.answers else False
    )
    asked = [message for answer in state.answers for message in answer.to]
    assert asked == ["start", "m0", "m1", "m2", "m3", "m9"]


async def test_a_reset_of_a_run_with_a_nested_run_asks_the_nested_agent_again(desk: Desk):
    ran: list[str] = []
    nested = clerk(ran)
    outer = Agent[Any](name="Desk", tools=[nested.as_tool("ask_clerk", "Ask about refunds.")])

    def outer_or_nested(request: ModelRequest) -> Any:
        if request.tools and request.tools[0].name == "refund":
            return refunds_once(request)
        return say("Done.") if "o1" in outputs(request) else [call("ask_clerk", "o1", input="A?")]

    await desk.open(outer, nested, model=ScriptedModel(*[outer_or_nested] * 40))
    handle = await desk.start(outer, keep_open=True)
    state = await desk.until_status(handle, "waiting")
    execution, points = await task_ends(desk, handle)
    await reset(desk, handle, execution, points[0])
    state = await desk.until(handle, lambda one: bool(one.pending_approvals or one.answers))
    await handle.approve(state.pending_approvals[0].id, by="ann")
    state = await desk.until_status(handle, "idle")
    assert state.answers[-1].failure is None
    assert ran == ["A"]


async def test_a_reset_puts_a_question_into_the_session_once(desk: Desk, tmp_path: Path):
    session = SQLiteSession("s", tmp_path / "s.db")
    agent = Agent[Any](name="A")
    await desk.open(agent, model=ScriptedModel("First.", "Second."))
    handle = await desk.start(agent, "Hello", session=session, keep_open=True)
    await desk.until_status(handle, "idle")
    execution, points = await task_ends(desk, handle)
    await reset(desk, handle, execution, points[0])
    await desk.until(handle, lambda state: state.final_output == "Second.")
    await desk.until_status(handle, "idle")
    said = [str(item.get("content")) for item in await session.get_items()]
    assert [sum(text in one for one in said) for text in ("Hello", "First.", "Second.")] == [
        1,
        1,
        1,
    ]


# --- Waits -----------------------------------------------------------------------------------------


def courier(began: list[str]) -> tuple[Agent[Any], ScriptedModel]:
    @function_tool
    async def book(ctx: ToolContext[Any]) -> str:
        await ctx.once("booking", began.append, "A")
        return f"picked up at {await ctx.wait_for('courier', timeout=timedelta(days=2))}"

    def reply(request: ModelRequest) -> Any:
        return say(outputs(request)["c1"]) if outputs(request) else [call("book", "c1")]

    return Agent(name="Courier", tools=[book]), ScriptedModel(always=reply)


async def test_a_parked_run_that_is_reset_to_any_task_waits_on_and_takes_its_value_once(
    desk: Desk,
):
    began: list[str] = []
    agent, model = courier(began)
    await desk.open(agent, model=model)
    handle = await desk.start(agent)
    wait = await parked(handle)
    execution, points = await task_ends(desk, handle)
    for point in points:
        await reset(desk, handle, execution, point)
        again = await parked(handle)
        assert (again.token, again.name) == (wait.token, "courier")
    # The tool begins again where its attempt came after the point, and not at the last one.
    assert 1 < len(began) <= len(points)
    for value, delivery_id in (("noon", "d1"), ("noon", "d1")):
        await finish(wait.token, value, client=desk.client, delivery_id=delivery_id)
    assert (await handle.result()).final_output == "picked up at noon"
    assert len((loop_state(await handle.state())).receipts) == 1
    await check_run(desk.client, handle.id)


async def test_a_value_that_came_before_a_reset_counts_in_the_new_history_too(desk: Desk):
    agent, model = courier([])
    await desk.open(agent, model=model)
    handle = await desk.start(agent, keep_open=True)
    wait = await parked(handle)
    execution, points = await task_ends(desk, handle)
    first = await finish(wait.token, "noon", client=desk.client, delivery_id="d1")
    await desk.until_status(handle, "idle")
    await reset(desk, handle, execution, points[-1])
    state = await desk.until_status(handle, "idle")
    assert (await desk.workflow(handle).describe()).run_id != execution
    assert [one.delivery_id for one in state.receipts] == ["d1"]
    second = await finish(wait.token, "noon", client=desk.client, delivery_id="d1")
    assert (second.run_id, second.name) == (first.run_id, "courier")
    with pytest.raises(DeliveryRefused, match="Another delivery came first"):
        await finish(wait.token, "midnight", client=desk.client, delivery_id="d2")
    await check_run(desk.client, handle.id)
