"""What an operator finds and reads in the Temporal UI."""

import asyncio
import json
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import Client
from temporalio.service import RPCError

from outlast.agents.agent import Agent
from outlast.agents.handoffs.handoff import handoff
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle
from outlast.client.start.runner import Runner
from outlast.contract import names
from outlast.testing import ScriptedModel, call, say
from outlast.worker import AgentWorker
from tests.servers import TemporalServer, server_for_tests
from tests.workflow.desk import PATIENCE_SECONDS, Desk


@function_tool(needs_approval=True)
async def refund(order: str) -> str:
    return f"refunded {order}"


@function_tool
async def look_up(order: str) -> str:
    return f"{order} is on its way"


@function_tool(fast=True)
async def glance(order: str) -> str:
    return f"{order} exists"


def noted(context: Any) -> None:
    """Do what a callback of a handoff does."""


BILLING = Agent[Any](name="Billing", model="gpt-billing", tools=[refund])
TRIAGE = Agent[Any](
    name="Triage",
    model="gpt-triage",
    tools=[look_up, glance],
    handoffs=[handoff(BILLING, on_handoff=noted)],
)


async def waiting_desk(desk: Desk) -> RunHandle:
    """Return a run that went from triage to billing and waits for a person."""
    model = ScriptedModel(
        [call("look_up", "c1", order="A-17"), call("glance", "c2", order="A-17")],
        [call("transfer_to_billing", "c3")],
        [call("refund", "c4", order="A-17")],
        say("Refunded."),
    )
    await desk.open(TRIAGE, model=model)
    handle = await desk.start(TRIAGE, "Where is my money?")
    await desk.until_status(handle, "waiting")
    return handle


async def metadata_of(desk: Desk, handle: RunHandle) -> WorkflowMetadata:
    """Return what the UI shows of a run beside its history."""
    return await desk.workflow(handle).query(
        "__temporal_workflow_metadata", result_type=WorkflowMetadata
    )


async def found(client: Client, query: str, run_id: str) -> None:
    """Wait until a query of the visibility store finds exactly this run."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            ids = [one.id async for one in client.list_workflows(query)]
            if ids == [run_id]:
                return
            await asyncio.sleep(0.02)  # the store follows the runs, and tells nobody


@pytest.mark.smoke
async def test_runs_are_found_by_status_agent_and_pending_approvals(desk: Desk):
    handle = await waiting_desk(desk)
    here = f"TaskQueue = '{desk.queue}' AND "
    await found(desk.client, here + "OutlastStatus = 'waiting'", handle.id)
    await found(desk.client, here + "OutlastAgent = 'Billing'", handle.id)
    await found(desk.client, here + "OutlastPendingApprovals > 0", handle.id)
    await handle.approve("a1")
    await desk.result(handle)
    closed = "ExecutionStatus = 'Completed' AND OutlastPendingApprovals = 0"
    await found(desk.client, here + closed, handle.id)


@pytest.fixture(scope="module")
async def bare_server() -> Any:
    """A server as it comes, without our search attributes."""
    async with server_for_tests({}, shared=False) as server:
        yield server


async def test_a_server_without_the_attributes_gets_them_with_the_first_run(
    bare_server: TemporalServer,
):
    client = await bare_server.connect()
    with pytest.raises(RPCError, match="OutlastStatus"):
        [one async for one in client.list_workflows("OutlastStatus = 'waiting'")]
    agent = Agent[Any](name="Helper")
    async with AgentWorker(client, agents=[agent], model_provider=ScriptedModel("Hello.")):
        async with asyncio.timeout(PATIENCE_SECONDS):
            result = await Runner.run(agent, "Hi", client=client)
    assert result.final_output == "Hello."
    await found(client, "OutlastAgent = 'Helper' AND OutlastStatus IS NULL", result.run_id)


async def test_a_server_that_refuses_the_attributes_carries_runs_all_the_same(
    bare_server: TemporalServer, monkeypatch: pytest.MonkeyPatch
):
    async def refused(client: Client) -> bool:
        return False

    monkeypatch.setattr("outlast.client.transport.connection.add_search_attributes", refused)
    monkeypatch.setattr("outlast.client.start.runner.names.ATTRIBUTE_AGENT", "NobodyMadeThis")
    client = await bare_server.connect()
    agent = Agent[Any](name="Helper")
    async with AgentWorker(client, agents=[agent], model_provider=ScriptedModel("Hello.")):
        async with asyncio.timeout(PATIENCE_SECONDS):
            result = await Runner.run(agent, "Hi", client=client)
    assert result.final_output == "Hello."
    description = await client.get_workflow_handle(result.run_id).describe()
    indexed = description.raw_info.search_attributes.indexed_fields
    assert not indexed.keys() & names.SEARCH_ATTRIBUTES.keys()


@pytest.mark.smoke
async def test_the_timeline_says_what_each_activity_does(desk: Desk):
    handle = await waiting_desk(desk)
    await handle.approve("a1")
    await desk.result(handle)
    history = await desk.workflow(handle).fetch_history()
    lines: list[tuple[str, str]] = []
    for event in history.events:
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            summary = await desk.client.data_converter.decode([event.user_metadata.summary])
            kind = event.activity_task_scheduled_event_attributes.activity_type.name
            lines.append((kind, summary[0]))
    assert lines == [
        ("call_model", "Triage · gpt-triage · turn 1"),
        ("tool:look_up", 'look_up(order="A-17")'),
        ("call_model", "Triage · gpt-triage · turn 2"),
        ("handoff:transfer_to_billing", "Triage → Billing"),
        ("call_model", "Billing · gpt-billing · turn 3 · handoff from Triage"),
        ("tool:refund", 'refund(order="A-17")'),
        ("call_model", "Billing · gpt-billing · turn 4"),
    ]


async def test_the_summary_of_a_run_is_its_agent_and_question(desk: Desk):
    await desk.open(TRIAGE, model=ScriptedModel("Hello."))
    handle = await desk.start(TRIAGE, "Where is my money? " * 20)
    description = await desk.workflow(handle).describe()
    summary = await description.static_summary()
    assert summary is not None
    assert summary.startswith("Triage: Where is my money? Where")
    assert len(summary) < 120


@pytest.mark.smoke
async def test_the_metadata_say_where_the_run_is_and_what_a_person_can_do(desk: Desk):
    handle = await waiting_desk(desk)
    metadata = await metadata_of(desk, handle)
    assert "**waiting** · Triage → Billing · turn 3 of 10" in metadata.current_details
    asked = (
        'Waiting for approval: `refund` with the arguments `{"order": "A-17"}`, called by Billing'
    )
    assert asked in metadata.current_details
    [request] = await handle.approvals()
    seen = request.digest
    assert f"· risk low. Run `outlast approve {handle.id} a1 --digest {seen[:16]}`" in (
        metadata.current_details
    )
    await desk.workflow(handle).signal("decide", {"request_id": "a9", "type": "approve"})
    later = await metadata_of(desk, handle)
    assert "`decision approve for a9`, because `The run has no approval 'a9'." in (
        later.current_details
    )
    definition = metadata.definition
    queries = {one.name: one.description for one in definition.query_definitions}
    signals = {one.name: one.description for one in definition.signal_definitions}
    updates = {one.name: one.description for one in definition.update_definitions}
    assert {"state", "transcript", "approvals"} <= queries.keys()
    assert {"decide", "cancel"} <= signals.keys()
    assert {"decide", "send"} <= updates.keys()
    described = [*queries.items(), *signals.items(), *updates.items()]
    assert all(text for name, text in described if name and not name.startswith("__"))
    assert '"approve"' in signals["decide"]


@pytest.mark.smoke
async def test_queries_answer_in_short_what_an_operator_asks(desk: Desk):
    handle = await waiting_desk(desk)
    workflow = desk.workflow(handle)
    state: dict[str, Any] = await workflow.query(names.QUERY_STATE)
    assert state["status"] == "waiting"
    assert state["agent"] == "Billing"
    assert state["model"] == "gpt-billing"
    assert state["handoff_path"] == ["Triage", "Billing"]
    assert state["pending_approvals"] == ["a1"]
    assert state["running"] == []
    assert state["usage"]["total_tokens"] == 45
    [approval] = await workflow.query(names.QUERY_APPROVALS)
    assert approval["id"] == "a1"
    assert approval["run_id"] == handle.id
    assert approval["name"] == "refund"
    assert json.loads(approval["arguments"]) == {"order": "A-17"}
    assert approval["allowed_decisions"] == ["approve", "edit", "reject", "respond"]
    transcript: list[dict[str, Any]] = await workflow.query(names.QUERY_TRANSCRIPT)
    assert [(one["kind"], one["text"]) for one in transcript] == [
        ("input", "Where is my money?"),
        ("tool_call", 'look_up(order="A-17")'),
        ("tool_call", 'glance(order="A-17")'),
        ("tool_output", "A-17 is on its way"),
        ("tool_output", "A-17 exists"),
        ("handoff_call", "transfer_to_billing()"),
        ("handoff_output", transcript[6]["text"]),
        ("tool_call", 'refund(order="A-17")'),
    ]
    assert "Billing" in transcript[6]["text"]
    assert len(json.dumps([state, approval])) < 4_000


async def test_the_state_query_stays_small_when_the_run_is_large(desk: Desk):
    await desk.open(TRIAGE, model=ScriptedModel("Read."))
    handle = await desk.start(TRIAGE, "A very long story. " * 20_000)
    await desk.result(handle)
    state = await desk.workflow(handle).query(names.QUERY_STATE)
    assert len(json.dumps(state)) < 1_000
    assert len((await metadata_of(desk, handle)).current_details) < 3_000


async def test_a_long_transcript_can_be_asked_for_all_the_same(desk: Desk):
    """An answer to a query larger than 2 MB would be refused by the server."""
    stories: list[dict[str, Any]] = [
        {"role": "user", "content": f"{number} " * 2_000} for number in range(100, 300)
    ]
    await desk.open(TRIAGE, model=ScriptedModel("Read.", "Read again."))
    handle = await desk.start(TRIAGE, stories, keep_open=True)
    await desk.until_status(handle, "idle")
    sent = await handle.send(stories)
    await sent.answer()
    transcript: list[dict[str, Any]] = await desk.workflow(handle).query(names.QUERY_TRANSCRIPT)
    assert transcript[-1]["text"] == "Read again."
    assert len((await metadata_of(desk, handle)).current_details) < 3_000
