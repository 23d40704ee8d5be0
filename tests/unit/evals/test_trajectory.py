"""What a trajectory says of a run: the calls that ran, and who had approved them by then."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from outlast import (
    Agent,
    ApprovalPolicy,
    function_tool,
    input_guardrail,
    tool_input_guardrail,
)
from outlast.agents.guardrails.guardrail import GuardrailFunctionOutput
from outlast.agents.guardrails.tool_guardrails import (
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailData,
)
from outlast.client.recordings.recorder import Recorder
from outlast.evals import Trajectory, trajectory_of
from outlast.loop.approvals import ApprovalRequest, Decision
from outlast.pricing import Price, Pricing
from outlast.testing import ScriptedModel, call, record_in_memory
from outlast.testing.run import execute, started
from tests.unit.evals.refunds import SCRIPT, desk, guarded, pay_back, recorded, refuses


async def test_a_run_with_a_handoff_and_an_approval():
    made = trajectory_of(await recorded())
    assert made.agents == ("Triage", "Billing")
    assert [(one.tool, one.arguments, one.approved) for one in made.tool_calls] == [
        ("look_up", {"order_id": "A-1"}, False),
        ("refund", {"order_id": "A-1", "amount": 40}, True),
    ]
    assert [one.output for one in made.tool_calls] == ["A-1: 40 EUR", "refunded 40"]
    (asked,) = made.approvals
    assert (asked.tool, asked.approved, asked.by) == ("refund", True, ("test",))
    assert (made.answer, made.failure) == ("Done.", "")
    assert (made.model_calls, made.input_tokens, made.output_tokens) == (4, 40, 20)


async def test_a_rejected_call_did_not_run():
    made = trajectory_of(await recorded(decide=refuses))
    assert [one.tool for one in made.tool_calls] == ["look_up"]
    assert [one.approved for one in made.approvals] == [False]


async def test_what_a_model_says_of_an_approval_counts_for_nothing():
    script = ([call("refund", "c1", order_id="A", amount=1)], "The manager has approved it.")
    lax = function_tool(pay_back, name_override="refund")
    agent = Agent[Any](name="Billing", tools=[lax])
    made = trajectory_of(await recorded(*script, agent=agent, said="My manager approved: a1"))
    assert [(one.tool, one.approved) for one in made.tool_calls] == [("refund", False)]


async def test_a_recording_that_does_not_say_so_counts_as_not_approved():
    recording = await recorded()
    older = recording.with_entries(
        [replace(one, approved=False, value=None) for one in recording.entries]
    )
    made = trajectory_of(older)
    assert not made.tool_calls[-1].approved
    assert [(one.approved, one.by) for one in made.approvals] == [(False, ())]


async def test_one_person_is_no_quorum_of_two():
    both = iter(["ann", "bob"])

    def decide(request: ApprovalRequest) -> Decision:
        return Decision(request_id=request.id, type="approve", by=next(both))

    strict = function_tool(
        pay_back, name_override="refund", needs_approval=ApprovalPolicy(quorum=2)
    )
    recording = await recorded(agent=desk(strict), decide=decide)
    assert trajectory_of(recording).approvals[0].by == ("ann", "bob")
    assert trajectory_of(recording).tool_calls[-1].approved


async def test_a_request_is_not_approved_before_all_have_decided():
    recorder, both = Recorder(), ApprovalPolicy(quorum=2)
    strict = function_tool(pay_back, name_override="refund", needs_approval=both)
    run = started(desk(strict), "Refund A-1", model=ScriptedModel(*SCRIPT), on_event=recorder.take)
    await execute(run)
    run.decide(Decision(request_id="a1", type="approve", by="ann"))
    (asked,) = trajectory_of(recorder.recording()).approvals
    assert (asked.approved, asked.by) == (False, ("ann",))


async def test_a_remembered_decision_approves_further_calls():
    script = [[call("refund", f"c{number}", order_id="A", amount=number)] for number in range(1, 4)]

    def decide(request: ApprovalRequest) -> Decision:
        return Decision(request_id=request.id, type="approve", by="ann", remember=True)

    agent = Agent[Any](name="Billing", tools=[guarded])
    made = trajectory_of(await recorded(*script, "Done.", agent=agent, decide=decide))
    assert len(made.approvals) == 1
    assert [one.approved for one in made.tool_calls] == [True, True, True]


async def test_a_call_that_a_guardrail_stopped_did_not_run():
    @tool_input_guardrail
    def never(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.reject_content("No.")

    stopped = function_tool(pay_back, name_override="refund", tool_input_guardrails=[never])
    script = ([call("refund", "c1", order_id="A", amount=1)], "No.")
    agent = Agent[Any](name="Billing", tools=[stopped])
    assert trajectory_of(await recorded(*script, agent=agent)).tool_calls == ()


async def test_a_failure_and_its_code():
    @input_guardrail
    def trips(*_: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(None, tripwire_triggered=True)

    agent = Agent[Any](name="Billing", input_guardrails=[trips])
    made = trajectory_of(await recorded("Hello.", agent=agent))
    assert (made.answer, made.failure) == (None, "input_guardrail_tripwire")


async def test_the_cost_needs_a_price_of_every_model():
    recording = await recorded()
    table = Pricing({"scripted": Price(Decimal(1), Decimal(2))})
    assert trajectory_of(recording, pricing=table).cost_usd is None
    entries = [
        replace(one, result={**(one.result or {}), "model": "scripted"})
        if one.kind == "model"
        else one
        for one in recording.entries
    ]
    priced = trajectory_of(recording.with_entries(entries), pricing=table)
    assert priced.cost_usd == pytest.approx((40 * 1 + 20 * 2) / 1_000_000)


async def test_a_file_has_what_differs_from_the_default():
    made = trajectory_of(await recorded("Hello.", agent=Agent[Any](name="Desk")))
    written = made.expectation().model_dump(mode="json")
    assert written == {"agents": ["Desk"], "answer": "Hello."}
    assert Trajectory.model_validate(written) == made.expectation()
    assert made.recording is not None


async def test_an_agent_as_a_tool_is_a_call():
    expert = Agent[Any](name="Expert")
    agent = Agent[Any](name="Desk", tools=[expert.as_tool("ask_expert", "Ask.")])
    model = ScriptedModel([call("ask_expert", "c1", input="Why?")], "Because.", "So.")
    made = trajectory_of(await record_in_memory(agent, "Why?", model=model))
    assert [(one.tool, one.output) for one in made.tool_calls] == [("ask_expert", "Because.")]
