"""The core of runs in memory: effects, retries, nested runs, stopping and going on."""

import asyncio
from typing import Any

import pytest

from outlast import Agent, function_tool
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.registry import Registry
from outlast.agents.tools.definition import (
    ToolRetry,
)
from outlast.contract import records
from outlast.contract.streams.delta_reader import RESTARTED
from outlast.loop.approvals import Decision
from outlast.loop.values import JsonObject
from outlast.ports.model import ModelError
from outlast.testing import ScriptedModel, call, fail_after, wait_for
from outlast.testing.in_memory import MemoryRun


@function_tool(needs_approval=True)
async def refund(amount: int) -> str:
    """Pay back."""
    return f"paid {amount}"


def run_of(agent: Agent[Any], model: ScriptedModel, **record: Any) -> MemoryRun:
    run = MemoryRun(WorkerDeps(registry=Registry([agent]), models=model), "r")
    run.start(records.RunInput(agent=agent.name, input="hi", **record))
    return run


async def test_a_run_is_carried_until_it_ends_or_waits() -> None:
    model = ScriptedModel([call("refund", "c1", amount=5)], "done")
    run = run_of(Agent("A", tools=[refund]), model)
    assert (await run.run_until_waiting()).status == "waiting"
    run.decide(Decision(request_id="a1", type="approve"))
    state = await run.run_until_waiting()
    assert (state.status, state.final_output) == ("completed", "done")


async def test_every_state_is_kept_until_somebody_is_told() -> None:
    run = run_of(Agent("A"), ScriptedModel("done"))
    await run.run_until_waiting()
    assert [state.phase for state in run.states] == ["preparing", "thinking", "closed"]


async def test_an_attempt_that_fails_is_repeated_as_often_as_its_policy_says() -> None:
    tries: list[int] = []

    @function_tool(retry=ToolRetry(attempts=3))
    async def shaky() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("not yet")
        return "at last"

    model = ScriptedModel([call("shaky", "c1")], "done")
    state = await run_of(Agent("A", tools=[shaky]), model).run_until_waiting()
    assert (len(tries), state.status) == (3, "completed")


async def test_a_reader_is_told_of_a_repeated_answer() -> None:
    heard: list[JsonObject] = []
    broken = ModelError("away", code="overloaded", retryable=True)
    model = ScriptedModel(fail_after(4, broken, "half of it"), "all of it")
    run = run_of(Agent("A"), model, settings={"stream": True})
    run.on_delta = heard.append
    await run.run_until_waiting()
    kinds = [event["type"] for event in heard]
    restart = kinds.index(RESTARTED)
    told = [event["delta"] for event in heard[restart:] if event["type"].endswith("text.delta")]
    assert "".join(told) == "all of it"


async def test_what_a_nested_run_asks_is_asked_by_the_run_around_it() -> None:
    inner = Agent("Inner", tools=[refund])
    outer = Agent("Outer", tools=[inner.as_tool("ask_inner", "Ask.")])
    model = ScriptedModel(
        [call("ask_inner", "c1", input="?")], [call("refund", "n1", amount=5)], "inner", "outer"
    )
    run = run_of(outer, model)
    state = await run.run_until_waiting()
    (request,) = state.pending_approvals
    assert (state.status, request.id, request.agent) == ("waiting", "e3.a1", "Inner")
    run.decide(Decision(request_id=request.id, type="approve"), request.run_id)
    assert (await run.run_until_waiting()).final_output == "outer"


async def test_a_run_that_is_not_there_is_not_found() -> None:
    run = run_of(Agent("A"), ScriptedModel("done"))
    with pytest.raises(LookupError, match="no run 'r/x-9'"):
        run.find("r/x-9")
    await run.stop()


async def test_a_run_that_was_stopped_goes_on_with_what_was_in_flight() -> None:
    gate = asyncio.Event()
    model = ScriptedModel(wait_for(gate, "never heard"), "done")
    run = run_of(Agent("A"), model)
    while not model.calls:
        await asyncio.wait_for(run.apply_next(), 0.05) if run.state.phase == "preparing" else None
        await asyncio.sleep(0)
    await run.stop()
    run.resume()
    assert (await run.run_until_waiting()).final_output == "done"
    assert model.calls == 2
