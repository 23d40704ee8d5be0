"""Budgets count what nested runs spend, while they spend it."""

import json
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.approvals.budget import Budget
from outlast.agents.config.run_config import RunConfig
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle
from outlast.loop.state import LoopState
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, say
from tests.workflow.desk import Desk
from tests.workflow.replies import outputs

TURNS = 12


@function_tool(effect="read")
async def look(what: str) -> str:
    return what


def team(*helpers: str, below: str = "") -> Agent[Any]:
    """Return a lead with helpers that work as tools; they may have helpers of their own."""
    lowest = Agent[Any](name=below, model="gpt-4.1", tools=[look]) if below else None
    tools: list[Any] = [look] if lowest is None else [lowest.as_tool("ask_below", "Ask.")]
    agents = [Agent[Any](name=one, model="gpt-4.1", tools=tools) for one in helpers]
    asks: list[Any] = [
        one.as_tool(f"ask_{one.name.lower()}", "Ask.", max_turns=TURNS + 1) for one in agents
    ]
    return Agent(name="Lead", model="gpt-4.1", tools=asks)


def busy(turns: int = TURNS) -> ScriptedModel:
    """Return a model that asks all helpers at once; the lowest look so many times each."""

    def reply(request: ModelRequest) -> Any:
        done = len(outputs(request))
        asks = [spec.name for spec in request.tools if spec.name.startswith("ask_")]
        if asks:
            return say("Done.") if done else [call(one, f"{one}-1", input="Go.") for one in asks]
        return [call("look", f"c{done}", what=str(done))] if done < turns else say("Looked.")

    return ScriptedModel(*[reply] * 1_000)


def config(**fields: Any) -> RunConfig:
    return RunConfig(budgets=[Budget(**fields)])


async def request_of(desk: Desk, handle: RunHandle, request_id: str = "a1") -> dict[str, Any]:
    """Return what a run says when it asks for more of its budget."""

    def waits(state: LoopState) -> bool:
        return [one.id for one in state.pending_approvals] == [request_id]

    state = await desk.until(handle, waits)
    [request] = state.pending_approvals
    assert (request.kind, request.run_id) == ("budget", "")
    assert state.status == "waiting"
    return json.loads(request.arguments)


@pytest.mark.smoke
async def test_nested_turns_ask_at_the_call_that_goes_beyond_the_budget(desk: Desk):
    agent, model = team("Helper"), busy()
    await desk.open(agent, model=model)
    handle = await desk.start(agent, run_config=config(model_calls=3))
    asked = await request_of(desk, handle)
    assert (asked["spent"], asked["spent_by_nested_runs"], model.calls) == (3, 2, 3)
    await handle.approve("a1", by="ann")
    asked = await request_of(desk, handle, "a2")
    assert (asked["limit"], asked["spent"], model.calls) == (6, 6, 6)
    await handle.edit("a2", {"extend_by": 1_000}, by="ann")
    assert (await desk.result(handle)).final_output == "Done."
    assert model.calls == TURNS + 3


async def test_money_of_nested_calls_counts_as_it_is_spent(desk: Desk):
    agent, model = team("Helper"), busy()
    await desk.open(agent, model=model)
    handle = await desk.start(agent, run_config=config(usd=0.0003))
    asked = await request_of(desk, handle)
    a_call = asked["spent"] // model.calls
    assert asked["limit"] <= asked["spent"] < asked["limit"] + a_call
    assert 1 < model.calls < TURNS
    await handle.edit("a1", {"extend_by": 1_000_000}, by="ann")
    assert (await desk.result(handle)).final_output == "Done."


async def test_parallel_runs_share_a_budget_and_go_on_after_all_workers_were_gone(desk: Desk):
    agent, model = team("Ann", "Bob", "Cid"), busy(4)
    worker = await desk.open(agent, model=model)
    handle = await desk.start(agent, run_config=config(model_calls=9))
    asked = await request_of(desk, handle)
    assert (asked["spent"], model.calls) == (9, 9)
    await desk.close(worker)
    await desk.open(agent, model=model)
    await handle.edit("a1", {"extend_by": 8}, by="ann")
    assert (await desk.result(handle)).final_output == "Done."
    assert model.calls == 17
    assert [one.id for one in (await handle.state()).approvals] == ["a1"]
