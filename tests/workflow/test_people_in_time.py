"""What time does on a server: requests expire, go to further people, and budgets run out.

The terms are short and real; the tests wait for what follows from them and never for a time.
"""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.approvals.budget import Budget
from outlast.agents.approvals.policy import ApprovalPolicy, Audience, Escalation
from outlast.agents.config.run_config import RunConfig
from outlast.agents.errors import AgentsException, DecisionRefused
from outlast.agents.tools.function_tool import function_tool
from outlast.client.audit import audit_run
from outlast.client.handle import RunHandle
from outlast.loop import phrases
from outlast.testing import ScriptedModel, after, call
from tests.workflow.desk import Desk, waits_for
from tests.workflow.people import (
    ANN,
    BOB,
    EVE,
    LEA,
    both_channels,
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


async def test_a_request_may_be_approved_by_its_expiry(desk: Desk):
    ran: list[int] = []
    policy = ApprovalPolicy(expires_in=SOON, on_expiry="approve")
    handle = await waiting(desk, clerk(policy, ran), ScriptedModel(refunds(50), "Done."))
    await desk.result(handle)
    assert ran == [50]
    assert (await handle.state()).approvals[0].status == "approved"
    assert await audited(desk, handle) == ["requested", "expired"]


async def test_an_expiry_may_fail_the_question(desk: Desk):
    ran: list[int] = []
    policy = ApprovalPolicy(expires_in=SOON, on_expiry="fail")
    agent = clerk(policy, ran)
    handle = await waiting(desk, agent, ScriptedModel(refunds(50), "Hello."), keep_open=True)
    state = await desk.until_status(handle, "idle")
    assert state.failure is not None
    assert state.failure.code == "approval_expired"
    assert state.failure.message == "Nobody decided the approval a1 of refund in time."
    assert ran == []
    assert (await (await handle.send("Hi")).answer()).final_output == "Hello."
    await handle.cancel("after_turn")


async def test_an_expiry_may_ask_further_people_and_is_a_rejection_after_the_last(desk: Desk):
    ran: list[int] = []
    policy = ApprovalPolicy(
        audience="billing",
        expires_in=SOON,
        on_expiry="escalate",
        escalate=[Escalation(after=timedelta(hours=1), to="leads")],
    )
    model = ScriptedModel(refunds(50), "Done.")
    handle = await waiting(desk, clerk(policy, ran), model)
    await desk.result(handle)
    assert ran == []
    assert outputs(model.requests[1]) == {"c50": phrases.EXPIRED}
    [request] = (await handle.state()).approvals
    assert (request.status, request.escalated) == ("expired", 1)
    assert await audited(desk, handle) == ["requested", "escalated", "expired"]


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


@both_channels
async def test_a_decision_after_the_expiry_is_refused(desk: Desk, channel: str):
    ran: list[int] = []

    @function_tool(needs_approval=ApprovalPolicy(expires_in=SOON))
    async def soon() -> str:
        ran.append(1)
        return "ran"

    @function_tool(needs_approval=True)
    async def whenever() -> str:
        ran.append(2)
        return "ran"

    agent = Agent(name="Clerk", tools=[soon, whenever])
    model = ScriptedModel([call("soon", "c1"), call("whenever", "c2")], "Done.")
    handle = await waiting(desk, agent, model, 2)
    await desk.until(handle, lambda one: [it.status for it in one.approvals[:1]] == ["expired"])
    assert await refusal(desk, handle, channel, by(ANN)) == "Approval a1 is already expired."
    assert await refusal(desk, handle, channel, by(ANN, request_id="a2")) is None
    await desk.result(handle)
    assert ran == [2]


async def test_a_vote_does_not_stop_the_time(desk: Desk):
    ran: list[int] = []
    policy = ApprovalPolicy(audience="billing", quorum=2, expires_in=timedelta(seconds=2))
    handle = await waiting(desk, clerk(policy, ran), ScriptedModel(refunds(50), "Done."))
    assert (await handle.approve("a1", by=ANN)).status == "pending"
    await desk.result(handle)
    [request] = (await handle.state()).approvals
    assert (request.status, len(request.votes), ran) == ("expired", 1, [])


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


@both_channels
async def test_an_escalation_lets_further_people_decide(desk: Desk, channel: str):
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
    said = await refusal(desk, handle, channel, by(EVE))
    assert said is not None
    assert "It is for the group billing or the group leads" in said
    assert await refusal(desk, handle, channel, by(LEA)) is None
    said = await refusal(desk, handle, channel, by(LEA, request_id="a2"))
    assert said == "Approval a2: lea may not do this. It is for the group billing."
    assert await refusal(desk, handle, channel, by(ANN, request_id="a2")) is None
    await desk.result(handle)
    assert sorted(ran) == [1, 2]
    assert (await audited(desk, handle)).count("escalated") == 1


async def test_an_escalation_keeps_the_requester_out(desk: Desk):
    ran: list[int] = []
    policy = ApprovalPolicy(
        audience=Audience(groups=["billing"], exclude_requester=True),
        escalate=[Escalation(after=SOON, to=Audience(subjects=["cara", "lea"]))],
    )
    handle = await waiting(
        desk,
        clerk(policy, ran),
        ScriptedModel(refunds(50), "Done."),
        run_config=RunConfig(requester="cara"),
    )
    await desk.until(handle, lambda one: [it.escalated for it in one.approvals] == [1])
    with pytest.raises(DecisionRefused, match="cara asked for this"):
        await handle.approve("a1", by="cara")
    await handle.approve("a1", by="lea")
    await desk.result(handle)
    assert ran == [50]


# --- Budgets -------------------------------------------------------------------------------------

BUDGETS = {
    "tokens": Budget(tokens=20),
    "tool calls": Budget(tool_calls=1),
    "money": Budget(usd=0.00001),
    "time": Budget(time=timedelta(seconds=1)),
    "model calls": Budget(model_calls=1),
}
"""Budgets that a model call with one tool call uses up, or two calls."""


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


@both_channels
async def test_an_approved_budget_is_as_much_again(desk: Desk, channel: str):
    done: list[str] = []
    agent, model = spender(done), looks(3)
    await desk.open(agent, model=model)
    policy = ApprovalPolicy(audience="billing", unverified="allow")
    budget = Budget(model_calls=2, ask=policy)
    handle = await desk.start(agent, run_config=RunConfig(budgets=[budget]))
    await desk.until(handle, waits_for(1))
    assert model.calls == 2
    said = await refusal(desk, handle, channel, by(EVE))
    assert said is not None
    assert "eve may not do this" in said
    bad = by(ANN, "edit", edited_arguments={"extend_by": "a lot"})
    assert await refusal(desk, handle, channel, bad) is not None
    assert await refusal(desk, handle, channel, by(ANN, "respond", response="No.")) is not None
    assert await refusal(desk, handle, channel, by(ANN)) is None
    assert (await desk.result(handle)).final_output == "Done."
    assert model.calls == 4
    assert (await handle.state()).extended == ((0, 2),)


@both_channels
async def test_a_rejected_budget_stops_the_question_and_no_call_more(desk: Desk, channel: str):
    done: list[str] = []
    agent, model = spender(done), looks(3)
    await desk.open(agent, model=model)
    handle = await desk.start(agent, run_config=RunConfig(budgets=[Budget(tool_calls=1)]))
    await desk.until(handle, waits_for(1))
    assert await refusal(desk, handle, channel, by(BOB, "reject", message="Enough.")) is None
    with pytest.raises(AgentsException, match=r"used up, and nobody extended it\. Enough\."):
        await desk.result(handle)
    assert (model.calls, done) == (1, ["0"])


async def test_a_budget_that_nobody_extends_in_time_stops_the_question(desk: Desk):
    agent, model = spender([]), looks(3)
    await desk.open(agent, model=model)
    budget = Budget(tool_calls=1, ask=ApprovalPolicy(expires_in=SOON))
    handle = await desk.start(agent, run_config=RunConfig(budgets=[budget]))
    with pytest.raises(AgentsException, match="nobody extended it"):
        await desk.result(handle)
    assert model.calls == 1


async def test_a_budget_of_questions_begins_anew_with_each(desk: Desk):
    done: list[str] = []
    agent = spender(done)
    model = ScriptedModel(
        [call("look", "c0", what="0")], "One.", [call("look", "c1", what="1")], "Two."
    )
    await desk.open(agent, model=model)
    budget = Budget(model_calls=2, per="question", ask=False)
    config = RunConfig(budgets=[budget])
    handle = await desk.start(agent, keep_open=True, run_config=config)
    await desk.until_status(handle, "idle")
    assert (await (await handle.send("And?")).answer()).final_output == "Two."
    assert (await handle.state()).approvals == ()
    await handle.cancel("after_turn")


async def test_the_tokens_of_a_nested_run_count_in_the_budget_of_its_root(desk: Desk):
    helper = Agent[Any](name="Helper")
    lead = Agent[Any](name="Lead", tools=[helper.as_tool("ask_helper", "Ask.")])
    model = ScriptedModel([call("ask_helper", "c0", input="Help")], "Helped.", "Done.")
    await desk.open(lead, model=model)
    handle = await desk.start(lead, run_config=RunConfig(budgets=[Budget(tokens=30)]))
    await desk.until(handle, waits_for(1))
    [request] = await handle.approvals()
    assert '"spent": 30' in request.arguments
    assert model.calls == 2
    await handle.approve(request, by=ANN)
    assert (await desk.result(handle)).final_output == "Done."
