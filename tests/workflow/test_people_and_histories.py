"""Requests and takeovers outlive histories, resets and nesting, and many people at once.

Whatever happens to the history of a run, its requests keep their ids, votes and times.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy, Audience
from outlast.agents.config.run_config import RunConfig
from outlast.agents.errors import AgentsException, DecisionRefused
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle
from outlast.client.people.actions import DecisionReceipt
from outlast.contract import records
from outlast.loop.approvals import Person
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, say
from tests.workflow.desk import PATIENCE_SECONDS, Desk, waits_for
from tests.workflow.laws import snapshot_of
from tests.workflow.people import ANN, BOB, by, clerk, refunds, refusal, waiting
from tests.workflow.replies import outputs
from tests.workflow.test_resets import reset, task_ends

CLIENTS = 50


async def continued(desk: Desk, handle: RunHandle, histories: int = 2) -> None:
    """Send messages until a run goes on in a further history."""
    number = 0
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(await desk.all_events(handle)) < histories:
            await handle.send(f"message {number}", mode="queue")
            number += 1


async def timers_of_the_newest_history(desk: Desk, handle: RunHandle) -> list[int]:
    """Return how long the timers last that a run has started in its newest history."""
    return [
        event.timer_started_event_attributes.start_to_fire_timeout.ToMilliseconds()
        for event in (await desk.all_events(handle))[-1]
        if event.HasField("timer_started_event_attributes")
    ]


# --- A new history -------------------------------------------------------------------------------


@pytest.mark.smoke
async def test_a_new_history_has_the_same_requests_votes_claims_and_times(desk: Desk):
    ran: list[int] = []
    policy = ApprovalPolicy(
        audience="billing",
        quorum=2,
        unverified="allow",
        expires_in=timedelta(hours=2),
        remind_every=timedelta(minutes=30),
    )
    agent, model = clerk(policy, ran), ScriptedModel(refunds(50, 60), "Done.", always="Yes.")
    await desk.open(agent, model=model)
    handle = await desk.start_short(agent, keep_open=True, events=40)
    await desk.until_status(handle, "waiting")
    assert await refusal(desk, handle, "update", by(ANN)) is None
    await handle.claim("a2", by=BOB)
    before = (await desk.settled(handle)).approvals
    await continued(desk, handle)
    state = await handle.state()
    assert state.approvals == before
    assert [one.remind_at_ms for one in state.approvals] == [
        one.requested_at_ms + 30 * 60_000 for one in before
    ]
    async with desk.patience(handle):  # its first task sets them
        while not (timers := await timers_of_the_newest_history(desk, handle)):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert all(29 * 60_000 < one <= 30 * 60_000 for one in timers), "due as before"

    said = await refusal(desk, handle, "update", by(ANN, idempotency_key="again"))
    assert said is not None
    assert "ann has decided already" in said
    assert await refusal(desk, handle, "update", by(BOB)) is None
    assert await refusal(desk, handle, "update", by(BOB, "reject", "a2")) is None
    await desk.until(handle, lambda one: one.status == "idle" and not one.inbox)
    assert ran == [50]
    assert (await handle.state()).approvals[0].votes[0] == before[0].votes[0]
    await handle.cancel("after_turn")


async def test_a_request_expires_in_a_later_history_when_it_was_due(desk: Desk):
    ran: list[int] = []
    policy = ApprovalPolicy(expires_in=timedelta(seconds=5))
    agent, model = clerk(policy, ran), ScriptedModel(refunds(50), always="Done.")
    await desk.open(agent, model=model)
    handle = await desk.start_short(agent, keep_open=True, events=40)
    await desk.until_status(handle, "waiting")
    [due] = [one.expires_at_ms for one in await handle.approvals()]
    await continued(desk, handle)
    state = await desk.until(handle, lambda one: [it.status for it in one.approvals] == ["expired"])
    [request] = state.approvals
    assert request.expires_at_ms == due == request.requested_at_ms + 5_000
    assert due is not None
    assert request.decided_at_ms is not None
    assert due <= request.decided_at_ms
    assert ran == []
    await desk.until(handle, lambda one: one.status == "idle" and not one.inbox)
    await handle.cancel("after_turn")


async def test_a_new_history_is_held_by_the_same_person(desk: Desk):
    anybody = RunConfig(takeover=ApprovalPolicy(unverified="allow"))
    agent, model = Agent[Any](name="Front"), ScriptedModel("Hello.", "Back again.")
    await desk.open(agent, model=model)
    handle = await desk.start_short(agent, keep_open=True, events=40, run_config=anybody)
    await desk.until_status(handle, "idle")
    await desk.workflow(handle).signal("hold", {"by": "ann"})
    held = (await desk.until_status(handle, "held")).hold
    await handle.say("I am Ann.", by=ANN, message_id="p1")
    await continued(desk, handle)
    state = await desk.settled(handle)
    assert state.hold is not None
    assert held is not None
    assert (state.hold.by, state.hold.at_ms, state.hold.said) == ("ann", held.at_ms, ("p1",))
    assert model.calls == 1
    await handle.say("I am Ann.", by=ANN, message_id="p1")
    assert str([item.raw for item in (await handle.state()).items]).count("I am Ann.") == 1
    await handle.release(by=ANN)
    state = await desk.settled(handle)
    assert (state.status, state.final_output, model.calls) == ("idle", "Back again.", 2)
    await handle.cancel("after_turn")


# --- Resets --------------------------------------------------------------------------------------


def once(request: ModelRequest) -> Any:
    return say("Done.") if "c50" in outputs(request) else refunds(50)


async def test_a_reset_leaves_a_pending_request_as_it_was(desk: Desk):
    ran: list[int] = []
    policy = ApprovalPolicy(
        audience="billing", quorum=2, unverified="allow", expires_in=timedelta(hours=1)
    )
    handle = await waiting(desk, clerk(policy, ran), ScriptedModel(always=once))
    [seen] = await handle.approvals()
    await desk.workflow(handle).signal("noise")
    await desk.until(handle, lambda one: one.ignored != ())
    execution, points = await task_ends(desk, handle)
    assert await refusal(desk, handle, "update", by(ANN)) is None
    await desk.settled(handle)
    await reset(desk, handle, execution, points[-1])
    await desk.until(handle, lambda one: [len(it.votes) for it in one.approvals] == [1])
    [request] = (await desk.settled(handle)).approvals
    assert (request.id, request.args_digest, request.status) == ("a1", seen.args_digest, "pending")
    assert request.expires_at_ms == seen.expires_at_ms
    said = await refusal(desk, handle, "update", by(ANN, idempotency_key="again"))
    assert said is not None
    assert "ann has decided already" in said
    decision = by(BOB, args_digest=seen.args_digest)
    assert await refusal(desk, handle, "update", decision) is None
    await desk.result(handle)
    assert ran == [50]


async def test_a_reset_to_before_a_request_asks_again_and_runs_nothing_by_itself(desk: Desk):
    """The server applies decisions again before the reply that leads to the request, so none count."""
    ran: list[int] = []
    agent, model = clerk(True, ran), ScriptedModel(always=once)
    handle = await waiting(desk, agent, model, keep_open=True)
    execution, points = await task_ends(desk, handle)
    assert await refusal(desk, handle, "signal", by(ANN)) is None
    await desk.until_status(handle, "idle")
    await reset(desk, handle, execution, points[-1])
    await desk.until_status(handle, "waiting")
    [request] = (await desk.settled(handle)).approvals
    assert (request.status, request.votes, ran) == ("pending", (), [50])
    assert await refusal(desk, handle, "signal", by(ANN)) is None
    await desk.until_status(handle, "idle")
    await handle.cancel("after_turn")


async def test_decisions_that_a_reset_applies_again_are_the_same_in_every_replay(desk: Desk):
    """The server applies an update and a signal again in their order, and replays signals first."""
    ran: list[int] = []
    agent, model = clerk(True, ran), ScriptedModel(always=once)
    handle = await waiting(desk, agent, model, keep_open=True)
    await desk.workflow(handle).signal("noise")
    await desk.until(handle, lambda one: one.ignored != ())
    execution, points = await task_ends(desk, handle)
    await handle.approve("a1", by=ANN)
    late = {"request_id": "a1", "type": "reject", "by": "bob"}
    await desk.workflow(handle).signal("decide", late)
    await desk.until_status(handle, "idle")
    await reset(desk, handle, execution, points[-1])
    state = await desk.settled(handle)
    await desk.close_all()
    await desk.open(agent, model=model)
    assert await snapshot_of(desk.workflow(handle)) == state
    assert (await (await handle.send("Still there?")).answer()).final_output == "Done."
    await handle.cancel("after_turn")


async def test_a_question_that_failed_by_expiry_is_asked_again_by_a_retry(desk: Desk):
    ran: list[int] = []
    policy = ApprovalPolicy(expires_in=timedelta(seconds=2), on_expiry="fail")
    agent = clerk(policy, ran)
    await desk.open(agent, model=ScriptedModel(always=once))
    handle = await desk.start(agent)
    with pytest.raises(AgentsException, match="Nobody decided the approval a1"):
        await desk.result(handle)
    await handle.retry()
    await desk.until(handle, waits_for(1))
    await handle.approve("a1", by=ANN)
    assert (await desk.result(handle)).final_output == "Done."
    assert ran == [50]


# --- Nested agents -------------------------------------------------------------------------------


def three_deep(policy: ApprovalPolicy, ran: list[int]) -> tuple[Agent[Any], ScriptedModel]:
    """Return an agent whose clerk is three agents below it, and their model."""
    agent = clerk(policy, ran)
    for name in ("Second", "First", "Root"):
        agent = Agent[Any](name=name, tools=[agent.as_tool(f"below_{name}".lower(), "Ask.")])
    steps = [
        [call(f"below_{one}", f"{one}1", input="Refund")] for one in ("root", "first", "second")
    ]
    return agent, ScriptedModel(*steps, refunds(50), "Refunded.", "Yes.", "It is.", "Done.")


async def test_a_request_three_agents_down_is_listed_at_the_root_and_decided_there(
    desk: Desk,
):
    ran: list[int] = []
    audience = Audience(groups=["billing"], exclude_requester=True)
    agent, model = three_deep(ApprovalPolicy(audience=audience, unverified="allow"), ran)
    await desk.open(agent, model=model)
    handle = await desk.start(agent, customer="ann")
    await desk.until_status(handle, "waiting")
    [request] = await handle.approvals()
    assert (request.id, request.agent) == ("e3.e3.e3.a1", "Clerk")
    assert request.run_id.startswith(handle.id)
    assert request.run_id.count("/") == 3

    async def decided(person: Person) -> str | None:
        decision = by(person, request_id=request.id)
        try:
            receipt = await handle.decide(decision, nested_id=request.run_id)
        except DecisionRefused as error:
            return str(error)
        assert (receipt.run_id, receipt.request_id) == (request.run_id, request.id)
        return None

    said = await decided(ANN)
    assert said is not None
    assert "ann asked for this, so somebody else has to decide" in said
    assert [one.status for one in await handle.approvals()] == ["pending"]
    assert await decided(BOB) is None
    assert (await desk.result(handle)).final_output == "Done."
    assert ran == [50]


async def test_a_vote_in_a_nested_run_is_seen_at_the_root(desk: Desk):
    ran: list[int] = []
    agent, model = three_deep(ApprovalPolicy(audience="billing", quorum=2, unverified="allow"), ran)
    await desk.open(agent, model=model)
    handle = await desk.start(agent)
    await desk.until_status(handle, "waiting")
    [request] = await handle.approvals()
    receipt = await handle.approve(request, by=ANN)
    assert (receipt.status, receipt.votes) == ("pending", 1)
    await desk.until(handle, lambda one: [len(it.votes) for it in one.pending_approvals] == [1])
    with pytest.raises(DecisionRefused, match="ann has decided already"):
        await handle.approve(request, by=ANN, idempotency_key="again")
    await handle.approve(request.id, by=BOB)
    await desk.result(handle)
    assert ran == [50]


# --- Many at once --------------------------------------------------------------------------------


async def all_at_once(
    desk: Desk, handle: RunHandle, act: Callable[[RunHandle, int], Awaitable[DecisionReceipt]]
) -> tuple[list[DecisionReceipt], list[DecisionRefused]]:
    """Let 50 clients act at once, and return the receipts and the refusals."""
    clients = [RunHandle(desk.client, handle.id) for _ in range(CLIENTS)]
    async with asyncio.timeout(2 * PATIENCE_SECONDS):
        outcomes = await asyncio.gather(
            *(act(client, number) for number, client in enumerate(clients)), return_exceptions=True
        )
    receipts = [one for one in outcomes if isinstance(one, DecisionReceipt)]
    refused = [one for one in outcomes if isinstance(one, DecisionRefused)]
    assert len(receipts) + len(refused) == CLIENTS, outcomes
    return receipts, refused


async def test_of_fifty_decisions_about_one_request_one_counts(desk: Desk):
    ran: list[int] = []
    model = ScriptedModel(refunds(50), "Done.")
    handle = await waiting(desk, clerk(True, ran), model, keep_open=True)

    async def act(client: RunHandle, number: int) -> DecisionReceipt:
        if number % 2:
            return await client.approve("a1", by=f"p{number}")
        return await client.reject("a1", by=f"p{number}")

    [receipt], refused = await all_at_once(desk, handle, act)
    [request] = (await desk.settled(handle)).approvals
    [vote] = request.votes
    assert (receipt.status, receipt.by) == (request.status, vote.decision.by)
    whose = f"Approval a1 is already {request.status} by {receipt.by}."
    assert {str(one) for one in refused} == {whose}
    assert ran == ([50] if request.status == "approved" else [])
    await handle.cancel("after_turn")


async def test_fifty_clients_decide_fifty_requests_each_its_own(desk: Desk):
    ran: list[int] = []

    @function_tool(needs_approval=True)
    async def pay(number: int) -> str:
        ran.append(number)
        return f"paid {number}"

    calls = [call("pay", f"c{one}", number=one) for one in range(CLIENTS)]
    model = ScriptedModel(calls, "Done.")
    agent = Agent(name="Clerk", tools=[pay])
    handle = await waiting(desk, agent, model, CLIENTS, keep_open=True)

    async def act(client: RunHandle, number: int) -> DecisionReceipt:
        if number % 5:
            return await client.approve(f"a{number + 1}", by=f"p{number}")
        return await client.reject(f"a{number + 1}", message=f"not {number}", by=f"p{number}")

    receipts, refused = await all_at_once(desk, handle, act)
    assert refused == []
    state = await desk.until_status(handle, "idle")
    assert {one.request_id: (one.status, one.by) for one in receipts} == {
        one.id: (one.status, one.decision and one.decision.by) for one in state.approvals
    }
    assert [one.decision and one.decision.by for one in state.approvals] == [
        f"p{number}" for number in range(CLIENTS)
    ]
    assert sorted(ran) == [number for number in range(CLIENTS) if number % 5]
    read = outputs(model.requests[1])
    assert {call_id: read[call_id] for call_id in sorted(read)} == {
        f"c{number}": f"paid {number}" if number % 5 else f"not {number}"
        for number in sorted(range(CLIENTS), key=str)
    }
    await handle.cancel("after_turn")


async def test_fifty_signals_about_one_request_leave_one_decision_and_forty_nine_attempts(
    desk: Desk,
):
    ran: list[int] = []
    model = ScriptedModel(refunds(50), "Done.")
    handle = await waiting(desk, clerk(True, ran), model, keep_open=True)
    workflow = desk.workflow(handle)
    decisions = [replace(by(ANN), by=f"p{number}") for number in range(CLIENTS)]
    await asyncio.gather(*(workflow.signal("decide", records.write(one)) for one in decisions))
    state = await desk.until(handle, lambda one: one.status == "idle")
    state = await desk.settled(handle)
    [request] = state.approvals
    [vote] = request.votes
    assert {one.why for one in state.ignored} == {
        f"Approval a1 is already approved by {vote.decision.by}."
    }
    assert ran == [50]
    await handle.cancel("after_turn")
