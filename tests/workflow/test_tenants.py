"""Tenants: where their key is written, and that they take turns on the embedded server."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from temporalio import activity
from temporalio.api.common.v1 import Priority
from temporalio.common import WorkflowIDReusePolicy

from outlast import Tenant
from outlast.agents.agent import Agent
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle
from outlast.client.start.options import run_input
from outlast.client.start.runner import NewRun, start_workflow
from outlast.realtime import RealtimeAgent, RealtimeModelConfig, RealtimeRunner
from outlast.testing import ScriptedModel, ScriptedRealtimeServer, call
from tests.servers import NAMED_ADDRESS
from tests.workflow.desk import Desk

HELPER = Agent[Any](name="Helper")
ACME = Priority(fairness_key="acme", fairness_weight=2.5)


async def priority_of(desk: Desk, run_id: str) -> Priority:
    """Return the priority of the newest history of a run, as the server has it."""
    described = await desk.client.get_workflow_handle(run_id).describe()
    return described.raw_description.workflow_execution_info.priority


@pytest.mark.smoke
async def test_a_run_its_activities_and_its_nested_runs_belong_to_the_tenant(desk: Desk) -> None:
    seen: list[tuple[str | None, float | None]] = []

    @function_tool
    async def look() -> str:
        """Look at what this activity was dispatched with."""
        priority = activity.info().priority
        seen.append((priority.fairness_key, priority.fairness_weight))
        return "seen"

    judge = Agent[Any](name="Judge", tools=[look])
    agent = Agent[Any](name="Desk", tools=[look, judge.as_tool("ask_judge", "Ask the judge.")])
    steps = [
        [call("look", "c1")],
        [call("ask_judge", "c2", input="Good?")],
        [call("look", "c3")],
        "Yes.",
        "Done.",
    ]
    # The server does not repeat the key for activities that it hands out with a workflow task.
    await desk.open(agent, model=ScriptedModel(*steps), disable_eager_activity_execution=True)

    result = await desk.run(agent, tenant=Tenant("acme", weight=2.5))

    assert result.final_output == "Done."
    (run_id,) = desk.ids
    (nested,) = await desk.nested(RunHandle(desk.client, run_id))
    assert [await priority_of(desk, one) for one in (run_id, nested.id)] == [ACME] * 2
    assert seen == [("acme", 2.5)] * 2, "one activity of the run, one of the nested run"


async def test_a_conversation_that_goes_on_in_a_new_history_keeps_its_tenant(desk: Desk) -> None:
    await desk.open(HELPER, model=ScriptedModel(always="Yes."))
    record = run_input(HELPER, "Hello", keep_open=True)
    record = replace(record, settings={**(record.settings or {}), "roll_over_events": 20})
    new = NewRun(
        id=desk.new_id(), record=record, queue=desk.queue, tenant=Tenant("acme", weight=2.5)
    )
    first = await start_workflow(desk.client, new, WorkflowIDReusePolicy.REJECT_DUPLICATE)
    handle = RunHandle(desk.client, new.id)

    for number in range(6):
        await (await handle.send(f"question {number}")).answer()

    described = await desk.client.get_workflow_handle(new.id).describe()
    assert described.run_id != first.first_execution_run_id
    assert await priority_of(desk, new.id) == ACME


@pytest.mark.skipif(
    NAMED_ADDRESS is not None,
    reason="in the four partitions of a cluster's queue, turns are fair on average only",
)
async def test_a_tenant_with_one_run_does_not_wait_for_one_with_many(desk: Desk) -> None:
    model = ScriptedModel(always="Yes.")
    many = [await desk.start(HELPER, f"large {n}", tenant="large") for n in range(30)]
    one = await desk.start(HELPER, "small", tenant="small")

    # One model call at a time, handed out by the server: the order of the queue.
    await desk.open(
        HELPER,
        model=model,
        max_concurrent_workflow_tasks=2,
        max_cached_workflows=100,
        max_concurrent_activities=1,
        disable_eager_activity_execution=True,
    )
    await asyncio.gather(*(desk.result(handle) for handle in (*many, one)))

    order = [request.input[0]["content"] for request in model.requests]
    assert len(order) == 31
    assert order.index("small") < 5, "it would be the last one without turns"


async def test_a_call_belongs_to_the_tenant_of_its_runner(desk: Desk) -> None:
    agent = RealtimeAgent[Any](name="Phone", instructions="Answer.")
    await desk.open(agent)
    bound = RealtimeRunner.using(
        client=desk.client, task_queue=desk.queue, tenant=Tenant("acme", weight=2.5)
    )
    async with ScriptedRealtimeServer("Hello.") as server:
        config = RealtimeModelConfig(url=server.url, api_key="none")
        async with await bound(agent).run(id=desk.new_id(), model_config=config):
            pass
    handle = await bound.attach(desk.ids[0])
    assert await priority_of(desk, handle.id) == ACME
