"""Tenants: where their key is written, and that they take turns on the embedded server."""

import asyncio
from dataclasses import replace
from html import unescape
from typing import Any, cast

import httpx2
import pytest
from temporalio import activity
from temporalio.api.common.v1 import Priority
from temporalio.client import Client
from temporalio.common import WorkflowIDReusePolicy

from outlast import Tenant
from outlast.agents.agent import Agent
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle
from outlast.client.runs import RunFilter, find_runs, with_tenants
from outlast.client.start.options import run_input
from outlast.client.start.runner import NewRun, start_workflow
from outlast.realtime import RealtimeAgent, RealtimeModelConfig, RealtimeRunner
from outlast.serve.app import desk as web_desk
from outlast.serve.login import ThisMachine
from outlast.testing import ScriptedModel, ScriptedRealtimeServer, SpanCollector, call
from outlast.tracing.receivers import REGISTRATION
from tests.servers import NAMED_ADDRESS
from tests.workflow.desk import PATIENCE_SECONDS, Desk
from tests.workflow.people import ANN

HELPER = Agent[Any](name="Helper")
ACME = Priority(fairness_key="acme", fairness_weight=2.5)


async def priority_of(desk: Desk, run_id: str) -> Priority:
    """Return the priority of the newest history of a run, as the server has it."""
    described = await desk.client.get_workflow_handle(run_id).describe()
    return described.raw_description.workflow_execution_info.priority


async def listed(desk: Desk, tenant: str, *ids: str, **criteria: Any) -> None:
    """Wait until exactly these runs are listed with a tenant; the store is a moment behind."""
    wanted = RunFilter(tenant=tenant, **criteria)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            rows = await find_runs(desk.client, wanted, limit=100)
            rows = [row for row in rows if row.run_id.startswith(tuple(desk.ids))]
            if {row.run_id for row in rows} == set(ids):
                assert {row.tenant for row in rows} == {tenant}
                return
            await asyncio.sleep(0.02)


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


async def test_every_attempt_of_a_traced_run_says_its_tenant(desk: Desk) -> None:
    """The server gives an activity that begins at once, with its workflow task, no priority."""

    @function_tool
    def look() -> str:
        return "seen"

    agent = Agent[Any](name="Desk", tools=[look])
    await desk.open(agent, model=ScriptedModel([call("look", "c1")], "Done."))
    with SpanCollector() as collected:
        result = await desk.run(agent, tenant=Tenant("acme"))
        assert result.final_output == "Done."
        REGISTRATION.flush(10)
        attempts = [*collected.spans("generation"), *collected.spans("function")]
    origins = [one.trace.origin for one in attempts]
    assert [one and one.tenant for one in origins] == ["acme"] * 3
    assert all(one is not None and one.attempt == 1 for one in origins)


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
    await listed(desk, "acme", new.id, status="idle")


@pytest.mark.smoke
async def test_runs_are_found_by_their_tenant_whatever_its_name(desk: Desk) -> None:
    judge = Agent[Any](name="Judge")
    outer = Agent[Any](name="Desk", tools=[judge.as_tool("ask_judge", "Ask the judge.")])
    steps = [[call("ask_judge", "c1", input="Good?")], "Yes.", "Done.", "Hi.", "Hi."]
    await desk.open(outer, model=ScriptedModel(*steps))
    hostile = "Müller's \"<b>ü?\\" + desk.queue[-9:]
    other = f"'{desk.queue[-20:]}'"
    for tenant in (hostile, other, None):
        await desk.run(outer, tenant=tenant)
    ours, theirs, nobodys = desk.ids
    (nested,) = await desk.nested(RunHandle(desk.client, ours))

    await listed(desk, hostile, ours, nested.id)
    await listed(desk, other, theirs)
    assert not (await find_runs(desk.client, RunFilter(tenant=other.strip("'")), limit=9))
    # No run is described where the list has its tenant.
    (row,) = await find_runs(desk.client, RunFilter(tenant=other), limit=9)
    assert await with_tenants(cast("Client", None), [row]) == [row]
    application = web_desk(desk.client, login=ThisMachine(ANN))
    transport = httpx2.ASGITransport(application, client=("127.0.0.1", 5000))
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        httpx2.AsyncClient(transport=transport, base_url="http://localhost:8090") as http,
    ):
        answer = await http.get("/api/conversations", params={"tenant": hostile})
        found = {one["id"]: one["tenant"] for one in answer.json()["conversations"]}
        assert found == {ours: hostile}
        page = (await http.get("/conversations", params={"tenant": hostile})).text
        assert ours in page
        assert not any(one in page for one in (theirs, nobodys, hostile))
        assert unescape(page).count(hostile) >= 2, "in the filter and in the row"


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
