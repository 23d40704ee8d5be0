"""Tools: how calls run, what they change, and what becomes of those that fail."""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from outlast.activities import worker_memory
from outlast.agents.agent import Agent
from outlast.agents.context.wrapper import RunContextWrapper, ToolContext
from outlast.agents.errors import RunCancelled
from outlast.agents.tools.definition import (
    FunctionTool,
    ToolRetry,
)
from outlast.agents.tools.function_tool import function_tool
from outlast.testing import ScriptedModel, call, say
from outlast.testing.scripted_model import raw_call
from outlast.views.run import loop_state
from tests.servers import TemporalServer
from tests.workflow.desk import PATIENCE_SECONDS, Desk
from tests.workflow.replies import outputs
from tests.workflow.test_scripts import script

AT_ONCE = ToolRetry(attempts=3, initial_interval=timedelta(milliseconds=1))


@dataclass
class Basket:
    owner: str = "Ann"
    items: list[str] = field(default_factory=list[str])
    total: int = 0


@function_tool
async def add(ctx: RunContextWrapper[Basket], item: str, price: int) -> str:
    """Put something into the basket."""
    ctx.context.items.append(item)
    ctx.context.total = price
    return f"{item} added"


@function_tool(fast=True)
def count(ctx: RunContextWrapper[Basket]) -> int:
    """Count what is in the basket."""
    return len(ctx.context.items)


@pytest.mark.smoke
async def test_parallel_calls_run_at_the_same_time_and_keep_their_order(desk: Desk):
    both = asyncio.Barrier(2)
    done: list[int] = []

    @function_tool
    async def meet(place: int) -> str:
        await both.wait()
        if place == 1:
            await first_to_end.wait()
        done.append(place)
        first_to_end.set()
        return f"met {place}"

    first_to_end = asyncio.Event()
    agent = Agent(name="Clerk", tools=[meet])
    model = ScriptedModel([call("meet", "c1", place=1), call("meet", "c2", place=2)], "Done.")
    await desk.open(agent, model=model)
    result = await desk.run(agent)
    assert done == [2, 1]
    answered = [item.raw["call_id"] for item in result.items if item.kind == "tool_output"]
    assert answered == ["c1", "c2"]


WORKER_OF_ONE_CALL = """
import asyncio, sys
from pathlib import Path
from temporalio.client import Client
from outlast import Agent, ToolContext, function_tool
from outlast.testing import ScriptedModel, call, say
from outlast.worker import AgentWorker

@function_tool(timeout=60)
async def buy(ctx: ToolContext, item: str, price: int) -> str:
    basket = ctx.context
    seen = basket["total"]
    Path(item).touch()
    while not (Path("tea").exists() and Path("milk").exists()):
        await asyncio.sleep(0.01)
    basket["total"] += price
    basket["items"].append(item)
    basket["items"].remove("list")
    basket["shop"] = f"shop of {item}"
    return f"{seen}"

def reply(request):
    if request.input[-1].get("type") == "function_call_output":
        return say(" ".join(one["output"] for one in request.input[-2:]))
    return [call("buy", "c1", item="tea", price=2), call("buy", "c2", item="milk", price=3)]

async def main():
    client = await Client.connect(sys.argv[1])
    agent = Agent(name="Clerk", tools=[buy])
    async with AgentWorker(client, agents=[agent], task_queue=sys.argv[2],
                           model_provider=ScriptedModel(always=reply), max_concurrent_activities=1):
        print("ready", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_calls_in_two_processes_lose_nothing_of_each_other(
    desk: Desk, server: TemporalServer, tmp_path: Path
):
    """Each process has room for one call, and the calls wait for each other."""
    text = f"import sys; sys.argv[1:] = {[server.address, desk.queue]!r}\n{WORKER_OF_ONE_CALL}"
    async with script(text, tmp_path) as one, script(text, tmp_path) as other:
        for process in (one, other):
            assert process.stdout is not None
            async with asyncio.timeout(60):
                assert await process.stdout.readline() == b"ready\n"
        context = {"total": 0, "items": ["list"], "shop": "none"}
        handle = await desk.start("Clerk", context=context)
        result = await desk.result(handle)
    assert result.final_output == "0 0", "no call has seen what the other did"
    basket = result.context_wrapper.context
    assert (basket["total"], basket["shop"]) == (5, "shop of milk")
    assert sorted(basket["items"]) == ["milk", "tea"]
    (note,) = (await handle.state()).ignored
    assert note.what == "context"
    assert "'shop'" in note.why


async def test_a_tool_knows_its_call_and_keeps_its_key_over_all_attempts(desk: Desk):
    seen: list[tuple[int, str, str, str, str, int]] = []

    @function_tool(retry=AT_ONCE)
    async def flaky(ctx: ToolContext[Any], x: int) -> str:
        seen.append(
            (
                ctx.attempt,
                ctx.idempotency_key,
                ctx.tool_name,
                ctx.tool_call_id,
                ctx.run_id,
                ctx.turn,
            )
        )
        if ctx.attempt < 3:
            raise OSError("not yet")
        return f"{ctx.agent.name} {ctx.tool_arguments} {ctx.usage.total_tokens}"

    agent = Agent(name="Clerk", tools=[flaky])
    model = ScriptedModel([call("flaky", "c1", x=1)], "Done.")
    await desk.open(agent, model=model)
    result = await desk.run(agent)
    run = result.run_id
    key = f"{await desk.key_of(run)}:c1"
    assert seen == [(n, key, "flaky", "c1", run, 1) for n in (1, 2, 3)]
    assert outputs(model.requests[1])["c1"] == 'Clerk {"x": 1} 15'


@pytest.mark.smoke
async def test_a_tool_that_fails_on_every_attempt_is_told_to_the_model(desk: Desk):
    tries: list[int] = []

    @function_tool(retry=AT_ONCE)
    async def broken(ctx: RunContextWrapper[Basket]) -> str:
        tries.append(1)
        ctx.context.total = 99
        raise OSError("the shop's password is 123")

    @function_tool(failure_error_function=lambda _ctx, error: f"It said: {error}", retry=1)
    async def chatty() -> str:
        raise OSError("out of tea")

    agent = Agent(name="Clerk", tools=[broken, chatty])
    model = ScriptedModel([call("broken", "c1"), call("chatty", "c2")], "Sorry.")
    await desk.open(agent, model=model)
    result = await desk.run(agent, context=Basket())
    assert result.final_output == "Sorry."
    assert len(tries) == 3
    told = outputs(model.requests[1])
    assert told["c1"].startswith("The tool broken failed")
    assert "password" not in told["c1"]
    assert told["c2"] == "It said: out of tea"
    assert result.context_as(Basket).total == 0


async def test_a_tool_that_hangs_is_stopped_and_told_to_the_model(desk: Desk):
    tries: list[int] = []

    @function_tool(
        timeout=0.2,
        retry=ToolRetry(attempts=2, initial_interval=timedelta(milliseconds=1)),
    )
    async def hang() -> str:
        tries.append(1)
        await asyncio.Event().wait()
        return "never"

    agent = Agent(name="Clerk", tools=[hang])
    model = ScriptedModel([call("hang", "c1")], "Sorry.")
    await desk.open(agent, model=model)
    assert (await desk.run(agent)).final_output == "Sorry."
    assert len(tries) == 2
    assert outputs(model.requests[1])["c1"].startswith("The tool hang timed out")


async def test_arguments_that_break_a_parser_harm_nobody(desk: Desk):
    anything = FunctionTool(
        name="anything",
        description="Takes anything.",
        params_json_schema={"type": "object", "properties": {}},
        on_invoke_tool=_echo,
        strict_json_schema=False,
        needs_approval=True,
    )
    deep = "[" * 50_000
    agent = Agent(name="Clerk", tools=[add, anything])
    model = ScriptedModel(
        [
            raw_call("add", "c1", deep),
            raw_call("none", "c2", deep),
            raw_call("anything", "c3", deep),
        ],
        [raw_call("add", "c4", '{"item": "\ud800", "price": 1}'), call("n\ud800", "c5")],
        say("half a character: \ud800"),
    )
    await desk.open(agent, model=model)
    result = await desk.run(agent, "Hello \ud800", context=Basket())
    assert result.final_output == "half a character: ?"
    assert len(outputs(model.requests[2])) == 5


async def _echo(_ctx: ToolContext[Any], arguments: str) -> str:
    return arguments


async def test_a_fast_tool_that_fails_twice_is_tried_a_third_time(desk: Desk):
    @function_tool(fast=True, retry=AT_ONCE)
    async def flaky(ctx: ToolContext[Any]) -> str:
        if ctx.attempt < 3:
            raise OSError("not yet")
        return f"attempt {ctx.attempt}"

    agent = Agent(name="Clerk", tools=[flaky])
    model = ScriptedModel([call("flaky", "c1")], "Done.")
    await desk.open(agent, model=model)
    await desk.run(agent)
    assert outputs(model.requests[1])["c1"] == "attempt 3"


async def test_a_short_tool_that_only_reads_is_a_local_activity_until_it_is_slow(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    """Nothing else about its calls differs: each runs once, but for the one that was cut short."""
    monkeypatch.setattr(worker_memory, "SHORT", timedelta(seconds=30))  # on a busy machine, too
    begun: list[int] = []

    @function_tool(effect="read")
    async def look_up(n: int) -> str:
        """Look something up."""
        begun.append(n)
        if begun.count(n) == 1 and n == 5:
            await asyncio.sleep(60)
        return f"found {n}"

    agent = Agent(name="Clerk", tools=[look_up])
    turns = [[call("look_up", f"c{n}", n=n)] for n in range(7)]
    model = ScriptedModel(*turns, "Done.")
    await desk.open(agent, model=model)
    result = await desk.run(agent)
    assert result.final_output == "Done."
    assert outputs(model.requests[-1]) == {f"c{n}": f"found {n}" for n in range(7)}
    assert begun == [0, 1, 2, 3, 4, 5, 5, 6]
    workflow = desk.client.get_workflow_handle(desk.ids[0])
    scheduled = [
        event.activity_task_scheduled_event_attributes.activity_type.name
        async for event in workflow.fetch_history_events()
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    assert scheduled.count("tool:look_up") == 5, "three to measure, the slow one, and the one after"


async def test_a_fast_tool_that_waits_long_for_its_next_try_is_still_running(desk: Desk):
    """The SDK then ends the local activity and waits by a timer, which is not a result."""
    rarely = ToolRetry(
        attempts=2, initial_interval=timedelta(minutes=2), maximum_interval=timedelta(minutes=2)
    )

    @function_tool(fast=True, retry=rarely)
    async def flaky() -> str:
        raise OSError("not yet")

    agent = Agent(name="Clerk", tools=[flaky])
    await desk.open(agent, model=ScriptedModel([call("flaky", "c1")]))
    handle = await desk.start(agent)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while "EVENT_TYPE_TIMER_STARTED" not in await desk.event_types(handle):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    state = await handle.state()
    assert [call.status for call in loop_state(state).calls] == ["running"]
    await handle.cancel()
    with pytest.raises(RunCancelled):
        await desk.result(handle)
