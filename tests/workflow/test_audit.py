"""The audit of runs on a server, read from their histories."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy, Audience
from outlast.agents.errors import DecisionRefused
from outlast.agents.tools.function_tool import function_tool
from outlast.client.audit import AuditLog, audit_run, audit_since
from outlast.client.handle import RunHandle
from outlast.client.identity import decided_by, person
from outlast.loop.approvals import Decision
from outlast.testing import ScriptedModel, call
from tests.workflow.desk import PATIENCE_SECONDS, Desk, waits_for


@function_tool(needs_approval=True)
async def refund(order: str, euros: int) -> str:
    """Refund an order."""
    return f"refunded {order}: {euros}"


def clerk() -> Agent[Any]:
    return Agent(name="Clerk", tools=[refund])


def made(log: AuditLog) -> list[tuple[str, str, str, bool | None]]:
    return [(one.event, one.request_id, one.by, one.verified) for one in log.records]


@pytest.mark.smoke
async def test_the_audit_has_what_was_decided_and_what_was_tried(desk: Desk):
    model = ScriptedModel([call("refund", "c1", order="A", euros=50)], "Done.")
    agent = clerk()
    await desk.open(agent, model=model)
    handle = await desk.start(agent)
    await desk.until(handle, waits_for(1))
    (request,) = await handle.approvals()
    workflow = desk.client.get_workflow_handle(handle.id)
    forged = {"request_id": "a9", "type": "approve", "by": "=mallory\u202e"}
    await workflow.signal("decide", forged)
    await workflow.signal("decide", {"type": 7})
    await desk.until(handle, lambda state: len(state.ignored) == 2)
    with pytest.raises(DecisionRefused):  # a refused update leaves nothing behind
        await handle.approve("a1", by="eve", args_digest="of something else")
    ann = person("ann", display="Ann", groups=["billing"], method="session")
    decision = Decision(
        request_id="a1", type="approve", args_digest=request.args_digest, channel="desk"
    )
    await handle.decide(decided_by(decision, ann))
    await desk.result(handle)

    log = await audit_run(desk.client, handle.id)
    assert made(log) == [
        ("requested", "a1", "", None),
        ("ignored", "a9", "=mallory\u202e", False),
        ("ignored", "", "", None),
        ("vote", "a1", "ann", True),
        ("decided", "a1", "ann", True),
    ]
    *_, vote, end = log.records
    assert (vote.groups, vote.method, vote.channel) == (("billing",), "session", "desk")
    assert (end.status, end.tool, end.agent) == ("approved", "refund", "Clerk")
    assert vote.args_digest == request.args_digest
    assert end.seconds_to_decide is not None
    assert end.seconds_to_decide >= 0
    json.dumps([one.record() for one in log.records])


async def test_the_audit_has_who_was_asked_what_was_edited_and_said_without_what_is_redacted(
    desk: Desk,
):
    iban, other = "DE02120300000000202051", "GB33BUKB20201555555555"

    @function_tool(
        needs_approval=ApprovalPolicy(
            audience=Audience(groups=["billing"]),
            quorum=2,
            redact=["iban"],
            expires_in=timedelta(hours=8),
        )
    )
    def pay(iban: str, euros: int) -> str:
        """Pay."""
        return f"paid {euros} to {iban}"

    agent = Agent[Any](name="Clerk", tools=[pay])
    model = ScriptedModel([call("pay", "c1", iban=iban, euros=50)], "Done.")
    await desk.open(agent, model=model)
    handle = await desk.start(agent, f"Pay {iban}")
    await desk.until(handle, waits_for(1))
    (request,) = await handle.approvals()
    ann = person("ann", groups=["billing"])
    await handle.edit(request, {"iban": other, "euros": 40}, by=ann)
    (request,) = await handle.approvals()
    await handle.approve(request, by=person("bob", groups=["billing"]))
    await desk.result(handle)

    log = await audit_run(desk.client, handle.id)
    asked, edited, agreed, decided = log.records
    assert asked.audience == Audience(groups=["billing"]).record
    assert asked.quorum == 2
    assert asked.due_at_ms == asked.at_ms + 8 * 3_600_000
    assert json.loads(asked.arguments) == {"iban": "[redacted]", "euros": 50}
    for one in (edited, agreed, decided):
        assert json.loads(one.arguments) == {"iban": "[redacted]", "euros": 40}
        assert one.made_at_ms is not None
        assert one.arrived_at_ms is not None
    assert agreed.seen == request.seen
    printed = json.dumps([one.record() for one in log.records])
    assert iban not in printed
    assert other not in printed


async def test_what_arrived_while_no_worker_ran_has_its_own_time(desk: Desk):
    agent = clerk()
    model = ScriptedModel([call("refund", "c1", order="A", euros=50)], "Done.")
    await desk.open(agent, model=model)
    handle = await desk.start(agent)
    await desk.until(handle, waits_for(1))
    await desk.close_all()
    workflow = desk.client.get_workflow_handle(handle.id)
    payload = {"request_id": "a1", "type": "reject", "by": "bob"}
    await workflow.signal("decide", payload)
    signalled = [
        event.event_time.ToMilliseconds()
        for event in (await workflow.fetch_history()).events
        if event.HasField("workflow_execution_signaled_event_attributes")
    ]
    await desk.open(agent, model=model)
    await desk.result(handle)
    vote, _ = (await audit_run(desk.client, handle.id)).records[1:]
    assert [vote.arrived_at_ms] == signalled
    assert vote.at_ms > signalled[0]
    assert vote.made_at_ms is None


async def test_a_nested_runs_requests_are_in_the_audit_of_the_root_and_once_in_that_of_all(
    desk: Desk,
):
    lead = Agent[Any](name="Lead", tools=[clerk().as_tool("ask_clerk", "Ask.")])
    model = ScriptedModel(
        [call("ask_clerk", "c0", input="Refund A")],
        [call("refund", "c1", order="A", euros=50)],
        "Refunded.",
        "Done.",
    )
    begun = datetime.now(UTC) - timedelta(minutes=1)  # noqa: TID251  the server's clock is this one
    await desk.open(lead, model=model)
    handle = await desk.start(lead)
    await desk.until(handle, waits_for(1))
    (request,) = await handle.approvals()
    await handle.approve(request.id, by="ann")
    await desk.result(handle)

    log = await audit_run(desk.client, handle.id)
    assert [one.event for one in log.records] == ["requested", "vote", "decided"]
    assert {one.run_id for one in log.records} == {request.run_id}
    assert {one.root_run_id for one in log.records} == {handle.id}
    async with asyncio.timeout(PATIENCE_SECONDS):  # visibility is a moment behind
        while not (found := await _of_root(desk, handle, begun)):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    assert found == list(log.records)


async def _of_root(desk: Desk, handle: RunHandle, since: datetime) -> list[Any]:
    log = await audit_since(desk.client, since)
    return [one for one in log.records if one.root_run_id == handle.id]


async def test_a_conversation_that_goes_on_keeps_its_decisions(desk: Desk):
    agent = clerk()
    model = ScriptedModel([call("refund", "c1", order="A", euros=50)], "Done.", "Bye.")
    await desk.open(agent, model=model)
    handle = await desk.start(agent, keep_open=True)
    await desk.until(handle, waits_for(1))
    await handle.approve("a1", by="ann")
    await desk.until_status(handle, "idle")
    sent = await handle.send("Thanks")
    await sent.answer()
    assert [one.event for one in (await audit_run(desk.client, handle.id)).records] == [
        "requested",
        "vote",
        "decided",
    ]
