"""Agents as tools: runs of their own that belong to the run that asks."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import RunCancelled
from outlast.agents.tools.function_tool import function_tool
from outlast.contract import names
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, say
from tests.workflow.desk import QUICK, Desk
from tests.workflow.replies import outputs


@function_tool
async def count(ctx: RunContextWrapper[Any], number: int) -> str:
    ctx.context = {"sum": (ctx.context or {"sum": 0})["sum"] + number}
    return f"counted {number}"


def inner(**options: Any) -> Agent[Any]:
    return Agent(name="Counter", instructions="inner", tools=[count], **options)


def outer(nested: Agent[Any], **options: Any) -> Agent[Any]:
    tool = nested.as_tool("ask_counter", "Ask who counts.", **options)
    return Agent(name="Desk", instructions="outer", tools=[tool, count])


def counting(turns: int) -> Callable[[ModelRequest], Any]:
    """A model whose inner agent counts up to a number, one call in each turn."""

    def reply(request: ModelRequest) -> Any:
        counted = len(outputs(request))
        if request.instructions == "outer":
            return say("Done.") if counted else [call("ask_counter", "o1", input="Count.")]
        if counted == turns:
            return say(f"Counted to {turns}.")
        return [call("count", f"c{counted}", number=counted)]

    return reply


@pytest.mark.smoke
async def test_a_nested_agent_is_a_run_of_its_own_that_anybody_finds(desk: Desk):
    agent = outer(inner())
    await desk.open(agent, model=ScriptedModel(always=counting(2)))
    handle = await desk.start(agent, context={"sum": 10})
    result = await desk.result(handle)
    assert (result.final_output, result.context) == ("Done.", {"sum": 11})
    [nested] = await desk.nested(handle)
    assert nested.id == f"{handle.id}/ask_counter-3"
    state = await nested.state()
    assert (state.status, state.agent, state.final_output) == (
        "completed",
        "Counter",
        "Counted to 2.",
    )
    assert [item.raw.get("content") for item in state.items[:1]] == ["Count."]
    assert result.usage.requests == 5, "what the nested run spent counts"
    described = await desk.workflow(nested).describe()
    assert described.parent_id == handle.id


async def test_a_nested_run_goes_on_in_new_histories(desk: Desk):
    agent = outer(inner(), max_turns=20)
    await desk.open(agent, model=ScriptedModel(always=counting(5)))
    handle = await desk.start_short(agent, context={"sum": 0})
    result = await desk.result(handle)
    assert (result.final_output, result.context) == ("Done.", {"sum": 10})
    assert [item.output for item in result.new_items if item.type == "tool_call_output_item"] == [
        "Counted to 5."
    ]
    [nested] = await desk.nested(handle)
    assert len(await desk.all_events(nested)) >= 2
    assert [one.raw["output"] for one in (await nested.state()).items if "output" in one.raw] == [
        f"counted {number}" for number in range(5)
    ]


@pytest.mark.parametrize("how", ["native", "terminated inside"])
async def test_a_cancel_reaches_nested_runs_and_theirs(desk: Desk, how: str):
    started, stopped = asyncio.Event(), asyncio.Event()

    @function_tool
    async def endless() -> str:
        started.set()
        try:
            return await asyncio.Future[str]()
        finally:
            stopped.set()

    innermost = Agent(name="Innermost", tools=[endless])
    middle = Agent(name="Middle", tools=[innermost.as_tool("ask_innermost", "Ask.")])
    agent = Agent(name="Desk", tools=[middle.as_tool("ask_middle", "Ask.")])
    model = ScriptedModel(
        [call("ask_middle", "o1", input="?")],
        [call("ask_innermost", "m1", input="?")],
        [call("endless", "i1")],
        "It was stopped.",
        "It was stopped inside.",
    )
    await desk.open(agent, model=model)
    handle = await desk.start(agent, run_config=QUICK)
    await asyncio.wait_for(started.wait(), 30)
    [first] = await desk.nested(handle)
    [second] = await desk.nested(first)
    if how == "terminated inside":  # by an operator, in the Temporal UI
        await desk.workflow(second).cancel()
        assert (await desk.result(handle)).final_output == "It was stopped inside."
    else:
        if how == "native":
            await handle.cancel()
        else:
            await desk.workflow(handle).signal(names.SIGNAL_CANCEL, {"mode": "immediate"})
        with pytest.raises(RunCancelled):
            await desk.result(handle)
        with pytest.raises(RunCancelled):
            await desk.result(first)
    with pytest.raises(RunCancelled):
        await desk.result(second)
    await asyncio.wait_for(stopped.wait(), 30)


async def test_a_nested_run_outlives_the_worker_that_began_it(desk: Desk):
    waiting, gone = asyncio.Event(), asyncio.Event()

    @function_tool
    async def wait() -> str:
        waiting.set()
        await gone.wait()
        return "waited"

    agent = outer(Agent(name="Waiter", instructions="inner", tools=[wait]))
    worker = await desk.open(
        agent,
        model=ScriptedModel([call("ask_counter", "o1", input="?")], [call("wait", "i1")]),
    )
    handle = await desk.start(agent, run_config=QUICK)
    await asyncio.wait_for(waiting.wait(), 30)
    await desk.close(worker)
    gone.set()
    second = ScriptedModel("I waited.", "It waited.")
    await desk.open(agent, model=second)
    assert (await desk.result(handle)).final_output == "It waited."
    assert outputs(second.requests[0]) == {"i1": "waited"}
    assert len(await desk.nested(handle)) == 1
