"""Decisions on a server: which count, which are refused, and what the call and the model get.

Updates and signals carry the same record, so most rules are tried both ways.
"""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy, Audience
from outlast.agents.config.run_config import RunConfig
from outlast.agents.errors import DecisionRefused
from outlast.agents.guardrails.tool_guardrails import (
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailData,
    tool_input_guardrail,
)
from outlast.agents.handoffs.handoff import handoff
from outlast.client.audit import audit_run
from outlast.contract import names, records
from outlast.loop.approvals import Decision, Person
from outlast.testing import ScriptedModel, call
from tests.workflow.desk import PATIENCE_SECONDS, Desk
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

REFUSALS: dict[str, tuple[ApprovalPolicy | bool, Decision, str]] = {
    "unknown id": (True, by(ANN, request_id="a9"), "The run has no approval 'a9'. Pending: a1."),
    "wrong digest": (True, by(ANN, args_digest="0" * 64), "made for other arguments"),
    "type not allowed": (
        ApprovalPolicy(allow=["approve", "reject"]),
        by(ANN, "edit", edited_arguments=ORDER),
        "cannot be decided with 'edit', only with approve, reject",
    ),
    "outside the audience": (
        ApprovalPolicy(audience="billing", unverified="allow"),
        by(EVE),
        "eve may not do this. It is for the group billing",
    ),
    "nobody, where there is an audience": (
        ApprovalPolicy(audience="billing", unverified="allow"),
        by(Person()),
        "needs the name of the person who decides",
    ),
    "the requester": (
        ApprovalPolicy(audience=Audience(exclude_requester=True), unverified="allow"),
        by(Person(subject="cara")),
        "cara asked for this, so somebody else has to decide",
    ),
    "an edit that does not fit": (
        True,
        by(ANN, "edit", edited_arguments={"order": "A-17", "euros": "many"}),
        "the edited arguments do not fit",
    ),
    "an edit without arguments": (True, by(ANN, "edit"), "an edit needs edited_arguments"),
    "a response that does not fit": (
        ApprovalPolicy(response_schema=RECEIPT),
        by(ANN, "respond", response={"paid": "in cash"}),
        "the response does not fit",
    ),
    "a text where a response has a schema": (
        ApprovalPolicy(response_schema=RECEIPT),
        by(ANN, "respond", response="paid"),
        "the response does not fit",
    ),
    "no response": (True, by(ANN, "respond"), "the response does not fit"),
    "an edit to be remembered": (
        True,
        by(ANN, "edit", edited_arguments=ORDER, remember=True),
        "cannot be remembered for further calls",
    ),
    "a vote of several to be remembered": (
        ApprovalPolicy(audience="billing", unverified="allow", quorum=2),
        by(ANN, remember=True),
        "cannot be remembered where several people have to agree",
    ),
    "a message without end": (
        True,
        by(ANN, "reject", message="no " * 40_000),
        "the decision has 120,000 characters",
    ),
}
"""By rule: the policy, a decision that it refuses, and the reason."""


@both_channels
@pytest.mark.parametrize("rule", REFUSALS)
async def test_a_decision_that_a_rule_refuses_changes_nothing(desk: Desk, channel: str, rule: str):
    policy, decision, why = REFUSALS[rule]
    ran: list[int] = []
    handle = await waiting(
        desk,
        clerk(policy, ran),
        ScriptedModel(refunds(50), "Done."),
        run_config=RunConfig(requester="cara"),
    )
    before, events = await handle.approvals(), await desk.event_types(handle)
    said = await refusal(desk, handle, channel, decision)
    assert said is not None
    assert why in said
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
async def test_one_person_is_one_vote_and_two_people_are_two(desk: Desk, channel: str):
    ran: list[int] = []
    policy = ApprovalPolicy(audience="billing", unverified="allow", quorum=2)
    handle = await waiting(desk, clerk(policy, ran), ScriptedModel(refunds(50), "Done."))
    assert await refusal(desk, handle, channel, by(ANN)) is None
    state = await desk.until(handle, lambda one: [len(it.votes) for it in one.approvals] == [1])
    assert (state.approvals[0].status, ran) == ("pending", [])
    again = by(ANN, idempotency_key="another vote")
    said = await refusal(desk, handle, channel, again)
    assert said == "Approval a1: ann has decided already; a different person has to agree."
    assert await refusal(desk, handle, channel, by(BOB)) is None
    await desk.result(handle)
    request = (await handle.state()).approvals[0]
    assert [vote.decision.by for vote in request.votes] == ["ann", "bob"]
    assert (request.status, ran) == ("approved", [50])


@both_channels
async def test_one_person_is_enough_to_reject_what_needs_two(desk: Desk, channel: str):
    ran: list[int] = []
    policy = ApprovalPolicy(audience="billing", unverified="allow", quorum=2)
    handle = await waiting(desk, clerk(policy, ran), ScriptedModel(refunds(50), "Done."))
    assert await refusal(desk, handle, channel, by(ANN)) is None
    assert await refusal(desk, handle, channel, by(BOB, "reject")) is None
    await desk.result(handle)
    assert ((await handle.state()).approvals[0].status, ran) == ("rejected", [])


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


@both_channels
@pytest.mark.parametrize("claimed", ["update", "signal"])
async def test_a_claim_keeps_a_request_for_one_person(desk: Desk, channel: str, claimed: str):
    ran: list[int] = []
    agent = clerk(ApprovalPolicy(audience="billing", unverified="allow"), ran)
    handle = await waiting(desk, agent, ScriptedModel(refunds(50), "Done."))
    if claimed == "update":
        await handle.claim("a1", by=ANN, minutes=5)
    else:
        payload = {"request_id": "a1", "by": "ann", "groups": ["billing"], "minutes": 5}
        await desk.workflow(handle).signal("claim", payload)
        await desk.until(handle, lambda state: any(one.claim for one in state.approvals))
    said = await refusal(desk, handle, channel, by(BOB))
    assert said == "Approval a1: ann is working on it. Claim it with force to take it over."
    assert await refusal(desk, handle, channel, by(ANN)) is None
    await desk.result(handle)
    assert ran == [50]


async def test_a_refused_claim_by_signal_is_in_the_audit(desk: Desk):
    agent = clerk(ApprovalPolicy(audience="billing", unverified="allow"))
    handle = await waiting(desk, agent, ScriptedModel(refunds(50), "Done."))
    payload = {"request_id": "a1", "by": "eve", "groups": ["sales"], "minutes": 5}
    await desk.workflow(handle).signal("claim", payload)
    state = await desk.until(handle, lambda one: one.ignored != ())
    assert state.approvals[0].claim is None
    *_, tried = (await audit_run(desk.client, handle.id)).records
    assert (tried.event, tried.request_id, tried.by, tried.verified) == (
        "ignored",
        "a1",
        "eve",
        False,
    )
    assert "eve may not do this" in tried.note
    await handle.reject("a1", by=ANN)
    await desk.result(handle)


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


@pytest.mark.parametrize("effect", ["external_reversible", "irreversible"])
async def test_a_signal_decides_nothing_that_changes_the_world_unless_the_policy_says_so(
    desk: Desk, effect: Any
):
    ran: list[int] = []
    agent = clerk(ApprovalPolicy(), ran, effect=effect)
    handle = await waiting(desk, agent, ScriptedModel(refunds(50), "Done."))
    said = await refusal(desk, handle, "signal", by(ANN))
    assert said is not None
    assert "needs proof of who decides" in said
    assert await refusal(desk, handle, "update", by(ANN)) is None
    await desk.result(handle)
    assert ran == [50]


# --- What a decision does ------------------------------------------------------------------------


@both_channels
async def test_an_approved_call_runs_as_it_is(desk: Desk, channel: str):
    ran: list[int] = []
    model = ScriptedModel(refunds(50), "Done.")
    handle = await waiting(desk, clerk(True, ran), model)
    [request] = await handle.approvals()
    decision = by(ANN, args_digest=request.args_digest)
    assert await refusal(desk, handle, channel, decision) is None
    await desk.result(handle)
    assert ran == [50]
    assert outputs(model.requests[1]) == {"c50": "refunded 50 for A-17"}


@both_channels
async def test_an_edited_call_runs_with_the_persons_arguments(desk: Desk, channel: str):
    ran: list[int] = []
    model = ScriptedModel(refunds(50), "Done.")
    handle = await waiting(desk, clerk(True, ran), model)
    assert await refusal(desk, handle, channel, by(ANN, "edit", edited_arguments=ORDER)) is None
    await desk.result(handle)
    assert ran == [40]
    read = outputs(model.requests[1])["c50"]
    assert read.startswith("A person changed the arguments of this call to")
    assert read.endswith("refunded 40 for A-17")
    assert (await handle.state()).approvals[0].status == "edited"


@both_channels
async def test_an_edit_that_trips_the_tools_guardrail_does_not_run(desk: Desk, channel: str):
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
    assert await refusal(desk, handle, channel, edit) is None
    await desk.result(handle)
    assert ran == []
    assert outputs(model.requests[1])["c50"].endswith("Too much for one refund.")


@both_channels
async def test_the_model_reads_the_words_of_who_rejected_its_call(desk: Desk, channel: str):
    ran: list[int] = []
    model = ScriptedModel(refunds(50), "Done.")
    handle = await waiting(desk, clerk(True, ran), model)
    words = "Not before the machine is back."
    assert await refusal(desk, handle, channel, by(ANN, "reject", message=words)) is None
    await desk.result(handle)
    assert ran == []
    assert outputs(model.requests[1]) == {"c50": words}


@both_channels
@pytest.mark.parametrize("structured", [False, True])
async def test_a_persons_answer_stands_for_the_output_of_the_call(
    desk: Desk, channel: str, structured: bool
):
    ran: list[int] = []
    model = ScriptedModel(refunds(50), "Done.")
    policy = ApprovalPolicy(response_schema=RECEIPT if structured else None)
    handle = await waiting(desk, clerk(policy, ran), model)
    response: Any = {"paid": 50} if structured else "Paid in cash."
    assert await refusal(desk, handle, channel, by(ANN, "respond", response=response)) is None
    await desk.result(handle)
    assert ran == []
    read = '{"paid": 50}' if structured else "Paid in cash."
    assert outputs(model.requests[1]) == {"c50": read}


@both_channels
async def test_a_handoff_waits_for_its_approval(desk: Desk, channel: str):
    billing = Agent[Any](name="Billing")
    triage = Agent[Any](
        name="Triage",
        handoffs=[
            handoff(billing, needs_approval=ApprovalPolicy(audience="billing", unverified="allow"))
        ],
    )
    model = ScriptedModel([call("transfer_to_billing", "h1")], "Billing here.")
    handle = await waiting(desk, triage, model)
    [request] = await handle.approvals()
    assert (request.kind, request.name, request.agent) == (
        "handoff",
        "transfer_to_billing",
        "Triage",
    )
    assert await refusal(desk, handle, channel, by(EVE)) is not None
    assert (await handle.state()).agent == "Triage"
    assert await refusal(desk, handle, channel, by(ANN)) is None
    assert (await desk.result(handle)).last_agent.name == "Billing"


@both_channels
async def test_a_rejected_handoff_stays_and_the_model_reads_why(desk: Desk, channel: str):
    billing = Agent[Any](name="Billing")
    triage = Agent[Any](name="Triage", handoffs=[handoff(billing, needs_approval=True)])
    model = ScriptedModel([call("transfer_to_billing", "h1")], "I do it myself.")
    handle = await waiting(desk, triage, model)
    assert await refusal(desk, handle, channel, by(ANN, "reject", message="Stay.")) is None
    result = await desk.result(handle)
    assert (result.last_agent.name, result.final_output) == ("Triage", "I do it myself.")
    assert outputs(model.requests[1]) == {"h1": "Stay."}


@both_channels
@pytest.mark.parametrize(
    ("decision", "answers"),
    [
        (by(ANN), ["Forty euros."]),
        (by(ANN, "reject", message="Say when."), ["Forty euros, tomorrow."]),
        (by(ANN, "respond", response="We call you."), ["We call you."]),
    ],
    ids=["approve", "reject", "respond"],
)
async def test_an_answer_waits_for_its_approval(
    desk: Desk, channel: str, decision: Decision, answers: list[str]
):
    agent = Agent[Any](
        name="Clerk", output_approval=ApprovalPolicy(audience="billing", unverified="allow")
    )
    model = ScriptedModel("Forty euros.", "Forty euros, tomorrow.")
    handle = await waiting(desk, agent, model)
    [request] = await handle.approvals()
    assert (request.kind, request.arguments) == ("output", '{"answer": "Forty euros."}')
    assert (await handle.state()).final_output is None
    assert await refusal(desk, handle, channel, by(EVE)) is not None
    assert await refusal(desk, handle, channel, decision) is None
    if decision.type == "reject":
        await desk.until(
            handle, lambda state: [one.id for one in state.pending_approvals] == ["a2"]
        )
        assert "Say when." in str(model.requests[1].input)
        assert await refusal(desk, handle, channel, by(ANN, request_id="a2")) is None
    assert [(await desk.result(handle)).final_output] == answers


# --- Remembered decisions ------------------------------------------------------------------------

REMEMBERED = {
    ("tool", "conversation"): ["c50"],
    ("tool", "run"): ["c50", "c52"],
    ("tool_with_args", "conversation"): ["c50", "c70"],
    ("tool_with_args", "run"): ["c50", "c70", "c52"],
}
"""For each scope and duration: the calls that a person has to decide."""


@both_channels
@pytest.mark.parametrize(("scope", "until"), REMEMBERED)
async def test_a_remembered_decision_holds_for_its_scope_and_its_time(
    desk: Desk, channel: str, scope: Any, until: Any
):
    ran: list[int] = []

    def refund(call_id: str, euros: int) -> list[Any]:
        return [call("refund", call_id, order="A-17", euros=euros)]

    model = ScriptedModel(
        refund("c50", 50), refund("c51", 50), refund("c70", 70), "One.", refund("c52", 50), "Two."
    )
    handle = await waiting(desk, clerk(True, ran), model, keep_open=True)
    first = by(ANN, remember=True, remember_scope=scope, remember_until=until)
    assert await refusal(desk, handle, channel, first) is None

    async def decide_the_rest(answers: int) -> None:
        while len((state := await desk.settled(handle)).answers) < answers:
            for request in state.pending_approvals:
                assert await refusal(desk, handle, channel, by(BOB, request_id=request.id)) is None

    await decide_the_rest(1)
    await handle.send("And again?")
    await decide_the_rest(2)
    state = await handle.state()
    assert [one.call_id for one in state.approvals] == REMEMBERED[scope, until]
    assert ran == [50, 50, 70, 50]
    assert {one.decision.by for one in state.approvals[1:] if one.decision} <= {"bob"}
    await handle.cancel("after_turn")


@both_channels
async def test_a_remembered_rejection_is_read_by_the_model_each_time(desk: Desk, channel: str):
    ran: list[int] = []
    model = ScriptedModel(refunds(50), refunds(60), "Done.")
    handle = await waiting(desk, clerk(True, ran), model)
    never = by(ANN, "reject", message="Never.", remember=True)
    assert await refusal(desk, handle, channel, never) is None
    await desk.result(handle)
    assert ran == []
    assert outputs(model.requests[2]) == {"c50": "Never.", "c60": "Never."}


# --- Claims and reminders, whose shortest time is a minute ---------------------------------------


@pytest.mark.full
async def test_after_a_minute_a_claim_ends_and_people_are_reminded(desk: Desk):
    ran: list[int] = []
    policy = ApprovalPolicy(
        audience="billing", unverified="allow", remind_every=timedelta(seconds=1)
    )
    handle = await waiting(desk, clerk(policy, ran), ScriptedModel(refunds(50), "Done."))
    claim = await handle.claim("a1", by=ANN, minutes=1)
    assert claim.until is not None
    with pytest.raises(DecisionRefused, match="ann is working on it"):
        await handle.approve("a1", by=BOB)
    async with asyncio.timeout(2 * PATIENCE_SECONDS):
        state = await handle.wait(lambda one: [it.reminders for it in one.approvals] == [1])
        asked = state.snapshot.approvals[0].requested_at_ms
        assert state.snapshot.approvals[0].remind_at_ms == asked + 120_000
        while (why := await refusal(desk, handle, "signal", by(BOB))) is not None:
            assert "ann is working on it" in why
            await asyncio.sleep(0.5)
    await desk.result(handle)
    assert ran == [50]
    events = [one.event for one in (await audit_run(desk.client, handle.id)).records]
    assert [one for one in events if one != "ignored"] == [
        "requested",
        "claimed",
        "reminded",
        "vote",
        "decided",
    ]


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
