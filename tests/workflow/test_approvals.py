"""Approvals: a person decides, by update or by signal, and only once."""

import asyncio
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle
from outlast.testing import ScriptedModel, call
from tests.workflow.desk import Desk, waits_for
from tests.workflow.replies import outputs


def _clerk(ran: list[str]) -> Agent[Any]:
    async def above_ten(_ctx: RunContextWrapper[Any], arguments: Any, _call_id: str) -> bool:
        return arguments["euros"] > 10

    @function_tool(needs_approval=above_ten)
    async def refund(order: str, euros: int) -> str:
        ran.append(order)
        return f"refunded {order}"

    @function_tool
    async def look_up(order: str) -> str:
        ran.append(f"look {order}")
        return f"{order} is there"

    return Agent(name="Clerk", tools=[refund, look_up])


async def _waiting(
    desk: Desk, model: ScriptedModel, ran: list[str], count: int = 1, **options: Any
) -> RunHandle:
    agent = _clerk(ran)
    await desk.open(agent, model=model)
    handle = await desk.start(agent, **options)
    await desk.until(handle, waits_for(count))
    return handle


def _refund(call_id: str, order: str, euros: int = 50) -> Any:
    return call("refund", call_id, order=order, euros=euros)


@pytest.mark.smoke
async def test_an_approved_call_runs_and_a_rejected_one_does_not(desk: Desk):
    ran: list[str] = []
    model = ScriptedModel([_refund("c1", "A"), _refund("c2", "B"), _refund("c3", "C")], "Done.")
    handle = await _waiting(desk, model, ran, 3)
    state = await desk.until_status(handle, "waiting")
    first = state.pending_approvals[0]
    assert (first.id, first.name, first.agent, first.call_id) == ("a1", "refund", "Clerk", "c1")
    assert await handle.approvals() == state.pending_approvals
    await handle.approve("a1", by="ann")
    await handle.reject("a2", message="Not this one.", by="bob")
    await handle.reject("a3")
    assert (await desk.result(handle)).final_output == "Done."
    assert ran == ["A"]
    told = outputs(model.requests[1])
    assert told["c1"] == "refunded A"
    assert told["c2"] == "Not this one."
    assert told["c3"] == "A person decided that this call must not run."
    decided = [
        (one.status, one.decision and one.decision.by) for one in (await handle.state()).approvals
    ]
    assert decided == [("approved", "ann"), ("rejected", "bob"), ("rejected", None)]


async def test_a_rule_that_fails_asks_a_person(desk: Desk):
    def rule(_ctx: RunContextWrapper[Any], _arguments: Any, _call_id: str) -> bool:
        raise OSError("no database")

    @function_tool(needs_approval=rule)
    async def pay() -> str:
        return "paid"

    agent = Agent(name="Clerk", tools=[pay])
    await desk.open(agent, model=ScriptedModel([call("pay", "c1")], "Done."))
    handle = await desk.start(agent)
    state = await desk.until_status(handle, "waiting")
    assert state.approvals[0].reason == "The approval rule failed (OSError), so a person decides."
    await handle.approve("a1")
    assert (await desk.result(handle)).final_output == "Done."


async def test_decided_calls_run_while_others_still_wait(desk: Desk):
    ran: list[str] = []
    model = ScriptedModel([_refund("c1", "A"), _refund("c2", "B")], "Done.")
    handle = await _waiting(desk, model, ran, 2)
    await handle.approve("a2")
    state = await desk.until(
        handle, lambda state: state.calls[1:2] != () and state.calls[1].status == "recorded"
    )
    assert (ran, state.status, waits_for(1)(state)) == (["B"], "waiting", True)
    await handle.approve("a1")
    await desk.result(handle)
    assert ran == ["B", "A"]


async def test_two_people_who_decide_at_once_are_told_whose_decision_counts(desk: Desk):
    ran: list[str] = []
    handle = await _waiting(desk, ScriptedModel([_refund("c1", "A")], "Done."), ran)
    outcomes = await asyncio.gather(
        handle.approve("a1", by="ann"),
        handle.reject("a1", by="bob"),
        handle.approve("a1", by="eve"),
        return_exceptions=True,
    )
    refused = [one for one in outcomes if isinstance(one, Exception)]
    assert len(refused) == 2
    # The run may end before a refusal is delivered; then that is what is said.
    assert all("already" in str(one) or "has ended" in str(one) for one in refused)
    await desk.result(handle)


async def test_a_handoff_waits_for_the_decisions_of_its_reply(desk: Desk):
    ran: list[str] = []
    agent = _clerk(ran)
    agent.handoffs.append(Agent(name="Billing"))
    model = ScriptedModel([call("transfer_to_billing", "h1"), _refund("c1", "A")], "Done.")
    await desk.open(agent, model=model)
    handle = await desk.start(agent)
    state = await desk.until_status(handle, "waiting")
    assert state.agent == "Clerk"
    await handle.approve("a1")
    result = await desk.result(handle)
    assert (result.last_agent.name, ran) == ("Billing", ["A"])
