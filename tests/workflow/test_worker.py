"""Workers: what they bring along, how they start, share and stop."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

from outlast.agents.agent import Agent
from outlast.agents.errors import UserError
from outlast.agents.tool import function_tool
from outlast.client.runner import Runner
from outlast.testing import ScriptedModel, call
from outlast.worker import AgentWorker, OutlastPlugin
from tests.workflow.desk import Desk
from tests.workflow.replies import outputs

AGENT = Agent[Any](name="Helper")


@activity.defn
async def greet(name: str) -> str:
    return f"Hello {name}"


@workflow.defn(sandboxed=False)
class Greeting:
    """A user's own workflow, beside the runs."""

    @workflow.run
    async def run(self, name: str) -> str:
        return await workflow.execute_activity(
            greet, name, start_to_close_timeout=timedelta(seconds=10)
        )


async def test_the_plugin_adds_runs_to_a_worker_of_somebodys_own(desk: Desk):
    model = ScriptedModel("Yes.")
    plugin = OutlastPlugin([AGENT], model_provider=model)
    worker = Worker(
        desk.client,
        task_queue=desk.queue,
        workflows=[Greeting],
        activities=[greet],
        plugins=[plugin],
        **desk.worker_options(),
    )
    async with worker:
        greeting = await desk.client.execute_workflow(
            Greeting.run, "Ann", id=f"greeting-{desk.queue}", task_queue=desk.queue
        )
        assert greeting == "Hello Ann"
        assert (await desk.run(AGENT)).final_output == "Yes."
    assert model.closed == 0, "a provider that was handed in is not closed"


async def test_a_worker_brings_the_agents_that_its_agents_hand_over_to(desk: Desk):
    billing = Agent(name="Billing")
    triage = Agent(name="Triage", handoffs=[billing])
    worker = await desk.open(triage, model=ScriptedModel("Yes."))
    assert worker.registry.names == ["Billing", "Triage"]
    assert (await desk.run("Billing")).last_agent == "Billing"


async def test_a_worker_without_agents_or_with_two_of_one_name_is_refused(desk: Desk):
    with pytest.raises(UserError, match="at least one agent"):
        AgentWorker(desk.client, agents=[])
    with pytest.raises(UserError, match="Two agents are named 'Helper'"):
        AgentWorker(desk.client, agents=[AGENT, Agent(name="Helper")])


async def test_a_worker_that_is_told_to_stop_lets_its_work_end(desk: Desk):
    running, release = asyncio.Event(), asyncio.Event()

    @function_tool
    async def work() -> str:
        running.set()
        await release.wait()
        return "done"

    agent = Agent(name="Helper", tools=[work])
    model = ScriptedModel([call("work", "c1")], "Yes.")
    worker = await desk.open(agent, model=model, graceful_shutdown_timeout=timedelta(seconds=20))
    handle = await desk.start(agent)
    await running.wait()
    stopping = asyncio.ensure_future(desk.close(worker))
    await asyncio.sleep(0)
    release.set()
    await stopping
    await desk.open(agent, model=model)
    assert (await desk.result(handle)).final_output == "Yes."
    history = await desk.workflow(handle).fetch_history()
    attempts = [
        event.activity_task_started_event_attributes.attempt
        for event in history.events
        if event.HasField("activity_task_started_event_attributes")
    ]
    assert attempts == [1, 1, 1]


async def test_work_that_a_stopping_worker_cuts_off_is_done_by_the_next(desk: Desk):
    running: list[int] = []
    started = asyncio.Event()

    @function_tool
    async def work() -> str:
        running.append(1)
        started.set()
        if len(running) == 1:
            await asyncio.Event().wait()
        return "done"

    agent = Agent(name="Helper", tools=[work])
    model = ScriptedModel([call("work", "c1")], "Yes.")
    cut_off = timedelta(milliseconds=1)
    worker = await desk.open(agent, model=model, graceful_shutdown_timeout=cut_off)
    handle = await desk.start(agent)
    await started.wait()
    await desk.close(worker)
    await desk.open(agent, model=model)
    assert (await desk.result(handle)).final_output == "Yes."
    assert len(running) == 2


async def test_several_workers_share_a_queue_and_no_run_is_carried_twice(desk: Desk):
    model = ScriptedModel(always="Yes.")
    for _ in range(3):
        # As from three processes: a client serves one worker of a queue.
        client = await Client.connect(desk.client.service_client.config.target_host)
        await desk.open(AGENT, model=model, client=client)
    results = await asyncio.gather(*(desk.run(AGENT, f"question {n}") for n in range(12)))
    assert [result.final_output for result in results] == ["Yes."] * 12
    assert model.calls == 12


async def test_a_tool_that_this_worker_lacks_waits_for_one_that_has_it(desk: Desk):
    started = asyncio.Event()

    @function_tool(retry=10)
    async def new_tool() -> str:
        if not started.is_set():
            started.set()
            await asyncio.Event().wait()
        return "from the new worker"

    old, new = Agent(name="Helper"), Agent(name="Helper", tools=[new_tool])
    model = ScriptedModel([call("new_tool", "c1")], "Yes.")
    cut_off = timedelta(milliseconds=1)
    first = await desk.open(new, model=model, graceful_shutdown_timeout=cut_off)
    handle = await desk.start("Helper")
    await started.wait()
    await desk.close(first)
    second = await desk.open(old, model=model)
    refused = await desk.pending_activity(
        handle, lambda one: "has no tool 'new_tool' on this worker" in one.last_failure.message
    )
    assert refused.activity_type.name == "tool:new_tool"
    await desk.close(second)
    await desk.open(new, model=model)
    assert (await desk.result(handle)).final_output == "Yes."
    assert outputs(model.requests[1])["c1"] == "from the new worker"


async def test_a_run_without_a_worker_waits_and_can_be_read(desk: Desk):
    handle = await desk.start(AGENT)
    await handle.check()
    state = await handle.state()
    assert (state.phase, state.status) == ("new", "running")
    attached = await Runner.attach(handle.id, client=desk.client)
    await desk.open(AGENT, model=ScriptedModel("Here I am."))
    assert (await desk.result(attached)).final_output == "Here I am."
