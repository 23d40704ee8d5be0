"""Decisions on a server: which count, which are refused, and what the call and the model get.

Updates and signals carry the same record, so most rules are tried both ways.
"""

from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.agents.errors import DecisionRefused
from outlast.agents.guardrails.tool_guardrails import (
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailData,
    tool_input_guardrail,
)
from outlast.client.audit import audit_run
from outlast.contract import names, records
from outlast.testing import ScriptedModel
from tests.workflow.desk import Desk
from tests.workflow.people import (
    ANN,
    BOB,
    EVE,
    both_channels,
    by,
    clerk,
    refunds,
    refusal,
    waiting,
)
from tests.workflow.replies import outputs

ORDER = {"order": "A-17", "euros": 40}
RECEIPT = {
    "type": "object",
    "properties": {"paid": {"type": "integer"}},
    "required": ["paid"],
    "additionalProperties": False,
}

# --- Decisions that do not count -----------------------------------------------------------------


@both_channels
async def test_a_decision_that_a_rule_refuses_changes_nothing(desk: Desk, channel: str):
    policy = ApprovalPolicy(audience="billing", unverified="allow")
    ran: list[int] = []
    handle = await waiting(
        desk,
        clerk(policy, ran),
        ScriptedModel(refunds(50), "Done."),
        customer="cara",
    )
    before, events = await handle.approvals(), await desk.event_types(handle)
    said = await refusal(desk, handle, channel, by(EVE))
    assert said is not None
    assert "eve may not do this. It is for the group billing" in said
    assert await handle.approvals() == before
    if channel == "update":
        assert await desk.event_types(handle) == events
    assert ran == []
    assert await refusal(desk, handle, channel, by(ANN, "reject")) is None
    await desk.result(handle)
    assert ran == []


@pytest.mark.smoke
@both_channels
async def test_a_settled_request_takes_no_further_decision(desk: Desk, channel: str):
    ran: list[int] = []
    model = ScriptedModel(refunds(50, 60), "Done.")
    handle = await waiting(desk, clerk(True, ran), model, 2)
    assert await refusal(desk, handle, channel, by(ANN)) is None
    await desk.until(handle, lambda state: [one.status for one in state.calls[:1]] == ["recorded"])
    said = await refusal(desk, handle, channel, by(BOB, "reject"))
    assert said == "Approval a1 is already approved by ann."
    assert await refusal(desk, handle, channel, by(BOB, "reject", "a2")) is None
    await desk.result(handle)
    assert ran == [50]


@both_channels
async def test_a_decision_with_one_key_is_the_same_decision(desk: Desk, channel: str):
    ran: list[int] = []
    policy = ApprovalPolicy(audience="billing", unverified="allow", quorum=2)
    handle = await waiting(desk, clerk(policy, ran), ScriptedModel(refunds(50), "Done."))
    once = by(ANN, idempotency_key="k1")
    assert await refusal(desk, handle, channel, once) is None
    if channel == "update":
        assert (await handle.decide(once)).votes == 1
    else:
        await desk.workflow(handle).signal("decide", records.write(once))
        await desk.settled(handle)
    state = await handle.state()
    assert (len(state.approvals[0].votes), state.ignored) == (1, ())
    assert await refusal(desk, handle, channel, by(BOB)) is None
    await desk.result(handle)
    assert ran == [50]


async def test_a_claim_keeps_a_request_for_one_person(desk: Desk):
    ran: list[int] = []
    agent = clerk(ApprovalPolicy(audience="billing", unverified="allow"), ran)
    handle = await waiting(desk, agent, ScriptedModel(refunds(50), "Done."))
    payload = {"request_id": "a1", "by": "ann", "groups": ["billing"], "minutes": 5}
    await desk.workflow(handle).signal("claim", payload)
    await desk.until(handle, lambda state: any(one.claim for one in state.approvals))
    said = await refusal(desk, handle, "update", by(BOB))
    assert said == "Approval a1: ann is working on it. Claim it with force to take it over."
    assert await refusal(desk, handle, "update", by(ANN)) is None
    await desk.result(handle)
    assert ran == [50]


async def test_a_name_without_proof_counts_only_where_the_policy_says_so(desk: Desk):
    ran: list[int] = []
    careful = ApprovalPolicy(audience="billing", unverified="refuse")
    handle = await waiting(desk, clerk(careful, ran), ScriptedModel(refunds(50), "Done."))
    said = await refusal(desk, handle, "signal", by(ANN))
    assert said is not None
    assert "needs proof of who decides" in said
    named = by(ANN, method=names.METHOD_NAMED)  # an update of a caller that only repeats a name
    said = await refusal(desk, handle, "update", named)
    assert said is not None
    assert "needs proof of who decides" in said
    assert ran == []
    assert await refusal(desk, handle, "update", by(ANN)) is None
    await desk.result(handle)
    assert ran == [50]
    [vote] = (await handle.state()).approvals[0].votes
    assert vote.verified


async def test_a_name_without_proof_that_counts_is_marked_in_the_audit(desk: Desk):
    ran: list[int] = []
    trusting = ApprovalPolicy(audience="billing", risk="high", unverified="allow")
    handle = await waiting(desk, clerk(trusting, ran), ScriptedModel(refunds(50), "Done."))
    assert await refusal(desk, handle, "signal", by(ANN)) is None
    await desk.result(handle)
    assert ran == [50]
    made = [
        (one.event, one.by, one.verified)
        for one in (await audit_run(desk.client, handle.id)).records
    ]
    assert made == [("requested", "", None), ("vote", "ann", False), ("decided", "ann", False)]


async def test_a_signal_decides_nothing_that_changes_the_world_unless_the_policy_says_so(
    desk: Desk,
):
    ran: list[int] = []
    agent = clerk(ApprovalPolicy(), ran, effect="irreversible")
    handle = await waiting(desk, agent, ScriptedModel(refunds(50), "Done."))
    said = await refusal(desk, handle, "signal", by(ANN))
    assert said is not None
    assert "needs proof of who decides" in said
    assert await refusal(desk, handle, "update", by(ANN)) is None
    await desk.result(handle)
    assert ran == [50]


# --- What a decision does ------------------------------------------------------------------------


async def test_an_approved_call_runs_as_it_is(desk: Desk):
    ran: list[int] = []
    model = ScriptedModel(refunds(50), "Done.")
    handle = await waiting(desk, clerk(True, ran), model)
    [request] = await handle.approvals()
    decision = by(ANN, args_digest=request.args_digest)
    assert await refusal(desk, handle, "update", decision) is None
    await desk.result(handle)
    assert ran == [50]
    assert outputs(model.requests[1]) == {"c50": "refunded 50 for A-17"}


async def test_an_edited_call_runs_with_the_persons_arguments(desk: Desk):
    ran: list[int] = []
    model = ScriptedModel(refunds(50), "Done.")
    handle = await waiting(desk, clerk(True, ran), model)
    assert await refusal(desk, handle, "signal", by(ANN, "edit", edited_arguments=ORDER)) is None
    await desk.result(handle)
    assert ran == [40]
    read = outputs(model.requests[1])["c50"]
    assert read.startswith("A person changed the arguments of this call to")
    assert read.endswith("refunded 40 for A-17")
    assert (await handle.state()).approvals[0].status == "edited"


async def test_an_edit_that_trips_the_tools_guardrail_does_not_run(desk: Desk):
    @tool_input_guardrail
    def at_most_hundred(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        if '"euros": 4000' in data.context.tool_arguments:
            return ToolGuardrailFunctionOutput.reject_content("Too much for one refund.")
        return ToolGuardrailFunctionOutput.allow()

    ran: list[int] = []
    model = ScriptedModel(refunds(50), "Done.")
    agent = clerk(True, ran, tool_input_guardrails=[at_most_hundred])
    handle = await waiting(desk, agent, model)
    edit = by(ANN, "edit", edited_arguments={"order": "A-17", "euros": 4000})
    assert await refusal(desk, handle, "update", edit) is None
    await desk.result(handle)
    assert ran == []
    assert outputs(model.requests[1])["c50"].endswith("Too much for one refund.")


async def test_a_persons_answer_stands_for_the_output_of_the_call(desk: Desk):
    ran: list[int] = []
    model = ScriptedModel(refunds(50), "Done.")
    policy = ApprovalPolicy(response_schema=RECEIPT)
    handle = await waiting(desk, clerk(policy, ran), model)
    response = by(ANN, "respond", response={"paid": 50})
    assert await refusal(desk, handle, "signal", response) is None
    await desk.result(handle)
    assert ran == []
    assert outputs(model.requests[1]) == {"c50": '{"paid": 50}'}


async def test_an_answer_waits_for_its_approval(desk: Desk):
    agent = Agent[Any](
        name="Clerk", output_approval=ApprovalPolicy(audience="billing", unverified="allow")
    )
    model = ScriptedModel("Forty euros.", "Forty euros, tomorrow.")
    handle = await waiting(desk, agent, model)
    [request] = await handle.approvals()
    assert (request.kind, request.arguments) == ("output", '{"answer": "Forty euros."}')
    assert (await handle.state()).final_output is None
    assert await refusal(desk, handle, "signal", by(ANN, "reject", message="Say when.")) is None
    await desk.until(handle, lambda state: [one.id for one in state.pending_approvals] == ["a2"])
    assert "Say when." in str(model.requests[1].input)
    assert await refusal(desk, handle, "update", by(ANN, request_id="a2")) is None
    assert (await desk.result(handle)).final_output == "Forty euros, tomorrow."


# --- Claims and reminders, whose shortest time is a minute ---------------------------------------


@pytest.mark.smoke
@both_channels
async def test_a_withdrawn_vote_may_be_cast_again(desk: Desk, channel: str):
    ran: list[int] = []
    policy = ApprovalPolicy(audience="billing", quorum=2, unverified="allow")
    handle = await waiting(desk, clerk(policy, ran), ScriptedModel(refunds(50), "Done."))
    assert await refusal(desk, handle, channel, by(ANN)) is None
    assert await refusal(desk, handle, channel, by(ANN, "withdraw")) is None
    state = await desk.until(handle, lambda one: [len(it.votes) for it in one.approvals] == [2])
    assert state.approvals[0].standing_votes == ()
    said = await refusal(desk, handle, channel, by(ANN, "withdraw"))
    assert said == "Approval a1: ann has no vote to withdraw."
    assert await refusal(desk, handle, channel, by(BOB)) is None
    await desk.settled(handle)
    assert ran == [], "one vote stands"
    assert await refusal(desk, handle, channel, by(ANN)) is None, "it is said anew"
    await desk.result(handle)
    assert ran == [50]


async def test_a_person_asks_back_and_the_agent_asks_again(desk: Desk):
    ran: list[int] = []
    model = ScriptedModel(refunds(50), "For A-17. Again:", refunds(40), "Done.")
    handle = await waiting(desk, clerk(True, ran), model, keep_open=True)
    [request] = await handle.approvals()
    receipt = await handle.ask_back(request, "Which invoice?", by=ANN)
    assert (receipt.status, receipt.by) == ("rejected", "ann")
    await desk.until(handle, lambda one: one.status == "idle")
    output = model.requests[1].input[-1]["output"]
    assert "ann of the team has not decided about this yet, and asks: Which invoice?" in output
    await handle.send("Invoice 7.")
    await desk.until(handle, lambda one: one.status == "waiting")
    await handle.approve("a2", by=ANN)
    await desk.until(handle, lambda one: one.status == "idle")
    assert ran == [40]


async def test_a_claim_is_handed_over(desk: Desk):
    policy = ApprovalPolicy(audience="billing")
    handle = await waiting(desk, clerk(policy), ScriptedModel(refunds(50), "Done."))
    [request] = await handle.approvals()
    await handle.claim(request, by=ANN)
    with pytest.raises(DecisionRefused, match="ann is working on it"):
        await handle.claim(request, by=BOB, to="bob")
    receipt = await handle.claim(request, by=ANN, to=BOB)
    assert receipt.by == "bob"
    with pytest.raises(DecisionRefused, match="bob is working on it"):
        await handle.approve(request, by=ANN)
    await handle.approve(request, by=BOB)
    await desk.result(handle)
