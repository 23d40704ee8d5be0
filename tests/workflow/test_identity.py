"""Decisions where workers have an identity key: signed ones count as verified, forged ones not."""

import time
from dataclasses import replace
from typing import Any

import pytest
from temporalio.client import WorkflowUpdateFailedError

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy, Audience
from outlast.agents.errors import DecisionRefused, UserError
from outlast.agents.tools.function_tool import function_tool
from outlast.client.audit import audit_run
from outlast.contract import records
from outlast.contract.identity import Place, read_keys, signed
from outlast.loop.approvals import ApprovalRequest, Decision
from outlast.testing import ScriptedModel, call
from outlast.worker import AgentWorker
from tests.workflow.desk import Desk, waits_for

KEY = "".join(map(chr, range(48, 48 + 70)))


PROVEN = ApprovalPolicy(audience=Audience(subjects=["ann"]))


@function_tool(needs_approval=PROVEN)
async def refund(order: str) -> str:
    """Refund an order."""
    return f"refunded {order}"


def clerk() -> Agent[Any]:
    return Agent(name="Clerk", tools=[refund])


@pytest.mark.smoke
async def test_only_a_signed_decision_counts(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OUTLAST_IDENTITY_KEY", KEY)
    (key,) = read_keys(KEY)
    (other,) = read_keys(KEY[::-1])
    agent = clerk()
    await desk.open(agent, model=ScriptedModel([call("refund", "c1", order="A")], "Done."))
    handle = await desk.start(agent)
    await desk.until(handle, waits_for(1))
    (request,) = await handle.approvals()
    assert isinstance(request, ApprovalRequest)
    workflow: Any = desk.client.get_workflow_handle(handle.id)
    chain_id = (await workflow.describe()).run_id
    here = Place(namespace=desk.client.namespace, chain_id=chain_id, run_id=handle.id)
    approve = Decision(request_id="a1", type="approve", by="ann", seen=request.seen)
    now_ms = time.time_ns() // 1_000_000
    for forged, why in (
        (approve, "needs proof of who decides"),
        (signed(approve, replace(here, run_id="another"), key, at_ms=now_ms), "something else"),
        (signed(approve, replace(here, chain_id="earlier"), key, at_ms=now_ms), "something else"),
        (signed(approve, here, other, at_ms=now_ms), "which this worker does not trust"),
        (signed(approve, here, key, at_ms=now_ms - 3_600_000), "its signature is too old"),
        (signed(approve, here, key, at_ms=now_ms + 3_600_000), "signed in the future"),
    ):
        with pytest.raises(WorkflowUpdateFailedError) as raised:
            await workflow.execute_update("decide", records.write(forged))
        assert why in str(raised.value.cause)
    assert (await handle.state()).approvals[0].votes == ()

    await handle.approve("a1", by="ann")

    assert (await desk.result(handle)).final_output == "Done."
    (vote,) = (await handle.state()).approvals[0].votes
    assert (vote.verified, vote.decision.by) == (True, "ann")
    assert KEY not in str(vote)
    events = [one.event for one in (await audit_run(desk.client, handle.id)).records]
    assert events == ["requested", "vote", "decided"], "refused updates leave nothing"


async def test_a_client_without_a_key_is_refused_where_proof_is_needed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    agent = clerk()
    await desk.open(agent, model=ScriptedModel([call("refund", "c1", order="A")], "Done."))
    handle = await desk.start(agent)
    await desk.until(handle, waits_for(1))

    async def unsigned(_client: object, decision: Decision, *_: object, **_action: str) -> Decision:
        return decision

    monkeypatch.setattr("outlast.client.people.actions.sign", unsigned)
    with pytest.raises(DecisionRefused, match="a program with an identity key"):
        await handle.approve("a1", by="ann")


async def test_a_nested_runs_decision_is_signed_for_the_nested_run(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OUTLAST_IDENTITY_KEY", KEY)
    lead = Agent[Any](name="Lead", tools=[clerk().as_tool("ask_clerk", "Ask.")])
    model = ScriptedModel(
        [call("ask_clerk", "c0", input="Refund A")],
        [call("refund", "c1", order="A")],
        "Refunded.",
        "Done.",
    )
    await desk.open(lead, model=model)
    handle = await desk.start(lead)
    await desk.until(handle, waits_for(1))
    (request,) = await handle.approvals()
    assert isinstance(request, ApprovalRequest)
    await handle.approve(request.id, by="ann")
    assert (await desk.result(handle)).final_output == "Done."


async def test_a_worker_with_a_weak_key_does_not_start(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OUTLAST_IDENTITY_KEY", "hunter2")
    with pytest.raises(UserError, match="OUTLAST_IDENTITY_KEY has 7 bytes, but needs 32"):
        AgentWorker(desk.client, agents=[clerk()])
