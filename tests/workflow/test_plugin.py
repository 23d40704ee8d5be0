"""Workers: our plugin beside a user's own code, shutting down, threads, and fast tools."""

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, Worker

from outlast.agents.agent import Agent
from outlast.agents.tools.function_tool import function_tool
from outlast.client.start.runner import Runner
from outlast.testing import ScriptedModel, call, paced, say
from outlast.worker import AgentWorker, OutlastPlugin
from tests.workflow.desk import PATIENCE_SECONDS, Desk
from tests.workflow.replies import outputs


@activity.defn
async def shout(text: str) -> str:
    return text.upper()


@workflow.defn
class Greeting:
    """A user's own workflow."""

    @workflow.run
    async def run(self, name: str) -> str:
        bound = timedelta(seconds=PATIENCE_SECONDS)
        return await workflow.execute_activity(shout, f"Hello {name}", start_to_close_timeout=bound)


@function_tool
async def look_up(order: str) -> str:
    return f"{order} is on its way"


@pytest.mark.smoke
async def test_runs_are_carried_by_a_worker_that_has_work_of_its_own(client: Client):
    agent = Agent[Any](name="Helper", tools=[look_up])
    model = ScriptedModel([call("look_up", "c1", order="A-17")], say("On its way."))
    worker = Worker(
        client,
        task_queue="own-work",
        workflows=[Greeting],
        activities=[shout],
        plugins=[OutlastPlugin([agent], model_provider=model)],
        workflow_runner=UnsandboxedWorkflowRunner(),
        build_id="test",
    )
    async with worker, asyncio.timeout(PATIENCE_SECONDS):
        result, greeting = await asyncio.gather(
            Runner.run("Helper", "Hi", client=client, task_queue="own-work"),
            client.execute_workflow(Greeting.run, "Ann", id="greet-ann", task_queue="own-work"),
        )
    assert result.final_output == "On its way."
    assert greeting == "HELLO ANN"
    assert model.closed == 0, "the provider is the user's to close"


@pytest.mark.smoke
async def test_a_replay_repeats_no_effect(client: Client):
    """Workers without a cache replay a run for each of its tasks; then a replayer does once more."""
    called: list[str] = []

    @function_tool
    async def refund(order: str) -> str:
        called.append(order)
        return f"refunded {order}"

    agent = Agent[Any](name="Desk", tools=[refund])
    orders = ("A-1", "A-2", "A-3")
    model = ScriptedModel(
        *([call("refund", one, order=one)] for one in orders), "All are refunded."
    )
    plugin = OutlastPlugin([agent], model_provider=model)
    worker = Worker(
        client,
        task_queue="replayed",
        plugins=[plugin],
        max_cached_workflows=0,
        build_id="test",
    )
    async with worker, asyncio.timeout(PATIENCE_SECONDS):
        result = await Runner.run("Desk", "Pay back.", client=client, task_queue="replayed")
    assert result.final_output == "All are refunded."
    assert (called, model.calls) == ([*orders], 4)

    history = await client.get_workflow_handle(result.run_id).fetch_history()
    again = OutlastPlugin([agent], model_provider=model)
    await Replayer(workflows=[], plugins=[again], build_id="test").replay_workflow(history)
    assert (called, model.calls) == ([*orders], 4), "a replay called a tool or a model"


async def test_the_sandbox_of_a_users_workflows_does_not_get_in_the_way(client: Client):
    agent = Agent[Any](name="Helper")
    worker = Worker(
        client,
        task_queue="sandboxed",
        plugins=[OutlastPlugin([agent], model_provider=ScriptedModel("Hello."))],
        build_id="test",
    )
    async with worker, asyncio.timeout(PATIENCE_SECONDS):
        result = await Runner.run("Helper", "Hi", client=client, task_queue="sandboxed")
    assert result.final_output == "Hello."


WORDS = "On its way, and it will be with you on Monday morning, before you have had your tea."


async def test_a_model_streams_through_a_worker_that_only_has_the_plugin(client: Client):
    agent = Agent[Any](name="Helper")
    model = ScriptedModel(paced(0.05, WORDS))
    worker = Worker(
        client,
        task_queue="streaming",
        workflows=[Greeting],
        activities=[shout],
        plugins=[OutlastPlugin([agent], model_provider=model)],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )
    async with worker, asyncio.timeout(PATIENCE_SECONDS):
        stream = Runner.run_streamed("Helper", "Hi", client=client, task_queue="streaming")
        pieces = [
            event.data.delta
            async for event in stream.stream_events()
            if event.type == "raw_response_event"
            and event.data.type == "response.output_text.delta"
        ]
    assert "".join(pieces) == WORDS
    assert len(pieces) > 3, "the text came in pieces, not at the end"


async def test_a_worker_that_stops_lets_a_running_tool_finish(desk: Desk):
    begun, door = asyncio.Event(), asyncio.Event()
    runs: list[int] = []

    @function_tool
    async def wait() -> str:
        runs.append(1)
        begun.set()
        await door.wait()
        return "through"

    agent = Agent[Any](name="Waiter", tools=[wait])
    model = ScriptedModel([call("wait", "c1")], say("Done."))
    first = await desk.open(
        agent, model=model, graceful_shutdown_timeout=timedelta(seconds=PATIENCE_SECONDS)
    )
    handle = await desk.start(agent)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await begun.wait()
        stopping = asyncio.create_task(desk.close(first))
        await asyncio.sleep(0)  # it has begun to stop
        door.set()
        await stopping
    await desk.open(agent, model=model)
    assert (await desk.result(handle)).final_output == "Done."
    assert outputs(model.requests[-1]) == {"c1": "through"}
    assert runs == [1]


@pytest.mark.smoke
async def test_a_tool_that_outlasts_the_grace_is_run_again_by_the_next_worker(desk: Desk):
    begun, keys = asyncio.Event(), list[str]()

    @function_tool
    async def wait(attempt: int) -> str:
        keys.append("run")
        if len(keys) == 1:
            begun.set()
            await asyncio.Event().wait()
        return "through"

    agent = Agent[Any](name="Waiter", tools=[wait])
    model = ScriptedModel([call("wait", "c1", attempt=1)], say("Done."))
    first = await desk.open(agent, model=model, graceful_shutdown_timeout=timedelta(0))
    handle = await desk.start(agent)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await begun.wait()
        await desk.close(first)
    await desk.open(agent, model=model)
    assert (await desk.result(handle)).final_output == "Done."
    assert outputs(model.requests[-1]) == {"c1": "through"}
    assert len(keys) == 2


async def test_a_tool_that_blocks_its_thread_blocks_no_other_run(desk: Desk):
    begun, door = threading.Event(), threading.Event()

    @function_tool
    def block() -> str:
        begun.set()
        assert door.wait(PATIENCE_SECONDS)
        return "through"

    @function_tool
    def unblock() -> str:
        door.set()
        return "opened"

    agent = Agent[Any](name="Blocker", tools=[block, unblock])

    def reply(request: Any) -> Any:
        name = str(request.input[0]["content"])
        return say(f"{name} done") if outputs(request) else [call(name, name)]

    await desk.open(agent, model=ScriptedModel(always=reply))
    blocked = await desk.start(agent, "block")
    await asyncio.to_thread(begun.wait, PATIENCE_SECONDS)
    assert (await desk.run(agent, "unblock")).final_output == "unblock done"
    assert (await desk.result(blocked)).final_output == "block done"


@pytest.mark.smoke
async def test_a_fast_tool_leaves_one_marker_and_no_activity(desk: Desk):
    async def glance(order: str) -> str:
        return f"{order} exists"

    fast = function_tool(glance, fast=True)
    slow = function_tool(glance, name_override="stare")
    agent = Agent[Any](name="Looker", tools=[fast, slow])

    def reply(request: Any) -> Any:
        name = str(request.input[0]["content"])
        done = outputs(request)
        return say(done["c1"]) if done else [call(name, "c1", order="A-17")]

    await desk.open(agent, model=ScriptedModel(always=reply))
    counts: dict[str, tuple[int, int, int]] = {}
    for name in ("glance", "stare"):
        handle = await desk.start(agent, name)
        assert (await desk.result(handle)).final_output == "A-17 exists"
        types = await desk.event_types(handle)
        counts[name] = (
            types.count(EventType.Name(EventType.EVENT_TYPE_MARKER_RECORDED)),
            types.count(EventType.Name(EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)),
            len(types),
        )
    assert counts["glance"][:2] == (2, 2), "the preparation and the tool; two model calls"
    assert counts["stare"][:2] == (1, 3)
    assert counts["glance"][2] == counts["stare"][2] - 5


async def test_one_process_carries_many_runs_at_once(client: Client):
    waiting = asyncio.Barrier(5)

    @function_tool
    async def meet() -> str:
        await waiting.wait()
        return "met"

    agent = Agent[Any](name="Meeter", tools=[meet])
    model = ScriptedModel(
        always=lambda request: say("Met.") if outputs(request) else [call("meet", "c1")]
    )
    async with (
        AgentWorker(client, agents=[agent], task_queue="many", model_provider=model),
        asyncio.timeout(PATIENCE_SECONDS),
    ):
        asked = (Runner.run(agent, "Hi", client=client, task_queue="many") for _ in range(5))
        results = await asyncio.gather(*asked)
    assert {result.final_output for result in results} == {"Met."}


async def test_a_worker_runs_until_it_is_told_to_stop(client: Client):
    worker = AgentWorker(
        client,
        agents=[Agent[Any](name="Helper")],
        task_queue="until-told",
        model_provider=ScriptedModel("Hello."),
    )
    running = asyncio.create_task(worker.run())
    async with asyncio.timeout(PATIENCE_SECONDS):
        result = await Runner.run("Helper", "Hi", client=client, task_queue="until-told")
        await worker.shutdown()
        await running
    assert result.final_output == "Hello."
