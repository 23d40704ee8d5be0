"""Workers of one queue: they share runs, differ in what they know, and come and go."""

import asyncio
import logging
from typing import Any, cast

import pytest
from temporalio.client import Client

from outlast.agents.agent import Agent
from outlast.agents.errors import ModelCallFailed
from outlast.agents.tools.function_tool import function_tool
from outlast.client.inbox import Inbox, InboxEntry
from outlast.client.start.runner import Runner
from outlast.contract import names
from outlast.models.multi_provider import MultiProvider
from outlast.testing import ScriptedModel, call
from outlast.views.run import loop_state
from tests.workflow.desk import Desk
from tests.workflow.laws import check_run
from tests.workflow.replies import outputs

AGENT = Agent[Any](name="Helper")


@pytest.mark.smoke
async def test_a_worker_brings_the_agents_that_its_agents_hand_over_to(desk: Desk):
    billing = Agent(name="Billing")
    triage = Agent(name="Triage", handoffs=[billing])
    worker = await desk.open(triage, model=ScriptedModel("Yes."))
    assert worker.registry.names == ["Billing", "Triage"]
    assert (await desk.run("Billing")).last_agent.name == "Billing"


async def test_several_workers_share_a_queue_and_no_run_is_carried_twice(client: Client):
    # With a cache only: without one, the SDK drops a run's first task for another run's, and the
    # server takes ten seconds to offer it again.
    desk = Desk(client, cached=True)
    model = ScriptedModel(always="Yes.")
    for _ in range(3):
        # As from three processes: a client serves one worker of a queue.
        other = await Client.connect(client.service_client.config.target_host)
        await desk.open(AGENT, model=model, client=other)
    results = await asyncio.gather(*(desk.run(AGENT, f"question {n}") for n in range(12)))
    assert [result.final_output for result in results] == ["Yes."] * 12
    assert model.calls == 12
    for run_id in desk.ids:
        await check_run(client, run_id)
    await desk.close_all()


@pytest.mark.smoke
async def test_a_run_without_a_worker_waits_and_can_be_read(desk: Desk):
    handle = await desk.start(AGENT)
    await handle.check()
    state = await handle.state()
    assert (loop_state(state).phase, state.status) == ("new", "running")
    attached = await Runner.attach(handle.id, client=desk.client)
    await desk.open(AGENT, model=ScriptedModel("Here I am."))
    assert (await desk.result(attached)).final_output == "Here I am."


async def test_a_missing_key_is_one_line_in_the_log_of_any_worker(
    desk: Desk, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    await desk.open(AGENT, model=cast("ScriptedModel", MultiProvider()))
    handle = await desk.start("Helper")
    with caplog.at_level(logging.INFO), pytest.raises(ModelCallFailed, match="OPENAI_API_KEY"):
        await handle.result()
    shown = [caplog.handler.format(record) for record in caplog.records]
    failed = [line for line in shown if "failed in" in line]
    assert len(failed) == 1, shown
    assert "\n" not in failed[0]
    assert f"outlast: call_model failed in {handle.id} (attempt 1, not retried): " in failed[0]
    assert "OPENAI_API_KEY" in failed[0]


# --- Deploys under open runs -----------------------------------------------------------------------


@function_tool
async def old_tool() -> str:
    return "done by the old one"


@function_tool
async def new_tool() -> str:
    return "done by the new one"


@function_tool(name_override="new_tool", needs_approval=True)
async def gated_tool() -> str:
    return "done by the new one"


async def test_a_call_whose_tool_no_worker_has_waits_for_one_that_has_it(desk: Desk):
    """A plan of the new version may reach a worker of the old one, which answers nothing."""
    planning = ScriptedModel([call("new_tool", "c1")])
    worker = await desk.open(Agent(name="A", tools=[gated_tool]), model=planning)
    handle = await desk.start("A", keep_open=True)
    await desk.until_status(handle, "waiting")
    await desk.close(worker)
    worker = await desk.open(Agent(name="A", tools=[old_tool]), model=ScriptedModel("never"))
    await handle.approve("a1")
    await desk.until_status(handle, "blocked")
    (block,) = (loop_state(await handle.state())).blocked
    assert "new_tool" in block.lacks
    view = await desk.workflow(handle).query(names.QUERY_STATE)
    assert (view["status"], view["blocked"][0]["lacks"]) == ("blocked", block.lacks)
    await desk.close(worker)
    await desk.open(Agent(name="A", tools=[new_tool]), model=ScriptedModel("Fine."))
    result = await handle.wait_for_people()
    assert result.final_output == "Fine."
    assert "done by the new one" in str((await handle.state()).items)


async def test_people_see_a_call_whose_tool_is_gone_and_reject_it(desk: Desk):
    planning = ScriptedModel([call("new_tool", "c1")])
    worker = await desk.open(Agent(name="A", tools=[gated_tool]), model=planning)
    handle = await desk.start("A")
    await desk.until_status(handle, "waiting")
    await desk.close(worker)
    model = ScriptedModel("Done by hand.")
    await desk.open(Agent(name="A", tools=[old_tool]), model=model)
    await handle.approve("a1")
    await desk.until_status(handle, "blocked")
    (request,) = await handle.approvals()
    assert (request.kind, request.name, request.terms.allow) == ("worker", "new_tool", ("reject",))
    assert "has no tool 'new_tool'" in (request.reason or "")

    async def listed() -> InboxEntry:
        inbox = Inbox(desk.client)
        while True:  # visibility is a moment behind
            for entry in await inbox.list():
                if entry.run_id == handle.id and entry.status == "blocked":
                    return entry
            await asyncio.sleep(0.05)

    entry = await asyncio.wait_for(listed(), 30)
    assert (entry.pending, [one.id for one in await entry.requests()]) == (1, [request.id])
    await handle.reject(request, message="The tool is gone. Ann does it.", by="bob")
    assert (await desk.result(handle)).final_output == "Done by hand."
    assert outputs(model.requests[0])["c1"] == "The tool is gone. Ann does it."


async def test_an_agent_as_a_tool_whose_agent_is_gone_is_given_up_in_its_own_run(desk: Desk):
    judge = Agent(name="Judge", tools=[gated_tool])
    asks = judge.as_tool("ask_judge", "Asks a judge")
    planning = ScriptedModel([call("ask_judge", "c1", input="?")], [call("new_tool", "c2")])
    worker = await desk.open(Agent(name="A", tools=[asks]), model=planning)
    handle = await desk.start("A")
    await desk.until(handle, lambda state: len(state.pending_approvals) == 1)
    await desk.close(worker)
    model = ScriptedModel("Without the judge.")
    await desk.open(Agent(name="A", tools=[old_tool]), model=model)
    (request,) = await handle.approvals()
    await handle.approve(request)
    for step in ("new_tool", "Judge"):  # its call, and then its next model call
        wanted = ("worker", step)
        state = await desk.until(
            handle,
            lambda state, wanted=wanted: (
                [(one.kind, one.name) for one in state.pending_approvals] == [wanted]
            ),
        )
        assert state.status == "running", "no person has to decide"
        (request,) = await handle.approvals()
        assert (request.kind, bool(request.run_id)) == ("worker", True)
        await handle.reject(request, message="The judge is retired.", by="bob")
    assert (await desk.result(handle)).final_output == "Without the judge."
    assert "ask_judge failed" in str(outputs(model.requests[0])["c1"])


async def test_a_conversation_whose_agent_no_worker_knows_waits_and_says_so(desk: Desk):
    worker = await desk.open(Agent(name="A"), model=ScriptedModel("Hello."))
    handle = await desk.start("A", keep_open=True)
    await handle.wait_for_people()
    await desk.close(worker)
    worker = await desk.open(Agent(name="B"), model=ScriptedModel("never"))
    await handle.send("And?")
    await desk.until_status(handle, "blocked")
    assert "'A'" in (loop_state(await handle.state())).blocked[0].lacks
    await desk.close(worker)
    await desk.open(Agent(name="A"), model=ScriptedModel("There you are."))
    assert (await handle.wait_for_people()).final_output == "There you are."


async def test_what_fails_after_a_worker_was_found_has_all_of_its_attempts(desk: Desk):
    worker = await desk.open(Agent(name="A"), model=ScriptedModel("Hello."))
    handle = await desk.start("A", keep_open=True)
    await handle.wait_for_people()
    await desk.close(worker)
    worker = await desk.open(Agent(name="B"), model=ScriptedModel("never"))
    await handle.send("And?")
    await desk.until_status(handle, "blocked")
    await desk.close(worker)
    down = [ConnectionError("down")] * 2
    await desk.open(Agent(name="A"), model=ScriptedModel(*down, "There you are."))
    assert (await handle.wait_for_people()).final_output == "There you are."
