"""What time does on a server: requests expire, go to further people, and budgets run out.

The terms are short and real; the tests wait for what follows from them and never for a time.
"""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.approvals.budget import Budget
from outlast.agents.approvals.policy import ApprovalPolicy, Escalation
from outlast.agents.config.run_config import RunConfig
from outlast.agents.tools.function_tool import function_tool
from outlast.client.audit import audit_run
from outlast.client.handle import RunHandle
from outlast.loop import phrases
from outlast.testing import ScriptedModel, after, call
from outlast.views.run import loop_state
from tests.workflow.desk import Desk, waits_for
from tests.workflow.people import (
    ANN,
    EVE,
    LEA,
    by,
    clerk,
    refunds,
    refusal,
    waiting,
)
from tests.workflow.replies import outputs

SOON = timedelta(milliseconds=400)
TIMER_FIRED = "EVENT_TYPE_TIMER_FIRED"


async def audited(desk: Desk, handle: RunHandle) -> list[str]:
    return [one.event for one in (await audit_run(desk.client, handle.id)).records]


# --- Expiry --------------------------------------------------------------------------------------


@pytest.mark.smoke
@pytest.mark.replayed
async def test_a_request_that_nobody_decides_is_rejected_in_time(desk: Desk):
    ran: list[int] = []
    model = ScriptedModel(refunds(50), "Done.")
    handle = await waiting(desk, clerk(ApprovalPolicy(expires_in=SOON), ran), model)
    await desk.result(handle)
    assert ran == []
    assert outputs(model.requests[1]) == {"c50": phrases.EXPIRED}
    [request] = (await handle.state()).approvals
    assert (request.status, request.decision, request.votes) == ("expired", None, ())
    assert request.decided_at_ms is not None
    assert request.decided_at_ms >= request.requested_at_ms + 400
    assert (await desk.event_types(handle)).count(TIMER_FIRED) == 1
    assert await audited(desk, handle) == ["requested", "expired"]


async def test_a_decision_before_the_expiry_counts_and_its_timer_is_gone(desk: Desk):
    ran: list[int] = []
    policy = ApprovalPolicy(expires_in=timedelta(minutes=5))
    handle = await waiting(desk, clerk(policy, ran), ScriptedModel(refunds(50), "Done."))
    await handle.approve("a1", by=ANN)
    await desk.result(handle)
    assert ran == [50]
    events = [event for history in await desk.all_events(handle) for event in history]
    started = [event.timer_started_event_attributes for event in events]
    (expiry,) = [one for one in started if one.start_to_fire_timeout.seconds > 200]
    gone = {event.timer_canceled_event_attributes.timer_id for event in events}
    assert expiry.timer_id in gone


async def test_the_time_of_requests_runs_while_no_worker_does(desk: Desk):
    ran: list[int] = []
    agent = clerk(ApprovalPolicy(expires_in=timedelta(seconds=1)), ran)
    worker = await desk.open(agent, model=ScriptedModel(refunds(50), "Done."))
    handle = await desk.start(agent)
    await desk.ever(handle, waits_for(1))
    await desk.close(worker)
    async with desk.patience(handle):
        while TIMER_FIRED not in await desk.event_types(handle):  # noqa: ASYNC110  the server does it
            await asyncio.sleep(0.05)
    await desk.open(agent, model=ScriptedModel("Done."))
    await desk.result(handle)
    assert ((await handle.state()).approvals[0].status, ran) == ("expired", [])


# --- Escalation ----------------------------------------------------------------------------------


async def test_an_escalation_lets_further_people_decide(desk: Desk):
    ran: list[int] = []

    def policy(wait: timedelta) -> ApprovalPolicy:
        return ApprovalPolicy(
            audience="billing",
            escalate=[Escalation(after=wait, to="leads")],
            unverified="allow",
        )

    @function_tool(needs_approval=policy(SOON))
    async def soon() -> str:
        ran.append(1)
        return "ran"

    @function_tool(needs_approval=policy(timedelta(hours=1)))
    async def later() -> str:
        ran.append(2)
        return "ran"

    agent = Agent(name="Clerk", tools=[soon, later])
    model = ScriptedModel([call("soon", "c1"), call("later", "c2")], "Done.")
    handle = await waiting(desk, agent, model, 2)
    await desk.until(handle, lambda one: [it.escalated for it in one.approvals] == [1, 0])
    said = await refusal(desk, handle, "signal", by(EVE))
    assert said is not None
    assert "It is for the group billing or the group leads" in said
    assert await refusal(desk, handle, "signal", by(LEA)) is None
    said = await refusal(desk, handle, "signal", by(LEA, request_id="a2"))
    assert said == "Approval a2: lea may not do this. It is for the group billing."
    assert await refusal(desk, handle, "signal", by(ANN, request_id="a2")) is None
    await desk.result(handle)
    assert sorted(ran) == [1, 2]
    assert (await audited(desk, handle)).count("escalated") == 1


# --- Budgets -------------------------------------------------------------------------------------

BUDGETS = {"money": Budget(usd=0.00001), "time": Budget(time=timedelta(seconds=1))}
"""The budgets that only a worker (with prices) and a server (with a clock) can count."""


def spender(done: list[str]) -> Agent[Any]:
    @function_tool
    async def look(what: str) -> str:
        done.append(what)
        return what

    return Agent(name="Clerk", model="gpt-4.1", tools=[look])


def looks(count: int, delay: timedelta = timedelta()) -> ScriptedModel:
    """Return a model that looks so many times, each time after a delay."""
    calls = [[call("look", f"c{one}", what=str(one))] for one in range(count)]
    return ScriptedModel(*(after(delay, step) for step in calls), "Done.")


@pytest.mark.parametrize("kind", BUDGETS)
async def test_a_run_asks_before_it_spends_more_than_its_budget(desk: Desk, kind: str):
    done: list[str] = []
    delay = timedelta(seconds=0.6 if kind == "time" else 0)
    agent, model = spender(done), looks(3, delay)
    await desk.open(agent, model=model)
    handle = await desk.start(agent, run_config=RunConfig(budgets=[BUDGETS[kind]]))
    await desk.until(handle, waits_for(1))
    [request] = await handle.approvals()
    assert (request.kind, request.name, request.call_id) == ("budget", "budget", "")
    assert request.reason is not None
    assert request.reason.endswith("is used up.")
    calls = model.calls
    assert calls == len(done) < 3
    # Extended as far as it takes:
    await handle.edit("a1", {"extend_by": 1_000_000}, by=ANN)
    assert (await desk.result(handle)).final_output == "Done."
    assert done == ["0", "1", "2"]
    assert [one.id for one in (await handle.state()).approvals] == ["a1"]


async def test_an_approved_budget_is_as_much_again(desk: Desk):
    done: list[str] = []
    agent, model = spender(done), looks(3)
    await desk.open(agent, model=model)
    policy = ApprovalPolicy(audience="billing", unverified="allow")
    budget = Budget(model_calls=2, ask=policy)
    handle = await desk.start(agent, run_config=RunConfig(budgets=[budget]))
    await desk.until(handle, waits_for(1))
    assert model.calls == 2
    said = await refusal(desk, handle, "update", by(EVE))
    assert said is not None
    assert "eve may not do this" in said
    bad = by(ANN, "edit", edited_arguments={"extend_by": "a lot"})
    assert await refusal(desk, handle, "update", bad) is not None
    assert await refusal(desk, handle, "update", by(ANN, "respond", response="No.")) is not None
    assert await refusal(desk, handle, "update", by(ANN)) is None
    assert (await desk.result(handle)).final_output == "Done."
    assert model.calls == 4
    assert (loop_state(await handle.state())).extended == ((0, 2),)
