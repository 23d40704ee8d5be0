"""Budgets count what nested runs spend in memory."""

import json
from typing import Any

from outlast.agents.agent import Agent
from outlast.agents.approvals.budget import Budget
from outlast.agents.config.run_config import RunConfig
from outlast.agents.tools.function_tool import function_tool
from outlast.loop.approvals import ApprovalRequest, Decision
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, run_in_memory, say
from tests.workflow.replies import outputs


@function_tool(effect="read")
async def look(what: str) -> str:
    return what


def team(*helpers: str, below: str = "") -> Agent[Any]:
    """Return a lead with helpers that work as tools; they may have helpers of their own."""
    lowest = Agent[Any](name=below, model="gpt-4.1", tools=[look]) if below else None
    tools: list[Any] = [look] if lowest is None else [lowest.as_tool("ask_below", "Ask.")]
    agents = [Agent[Any](name=one, model="gpt-4.1", tools=tools) for one in helpers]
    asks: list[Any] = [one.as_tool(f"ask_{one.name.lower()}", "Ask.") for one in agents]
    return Agent(name="Lead", model="gpt-4.1", tools=asks)


def busy(turns: int) -> ScriptedModel:
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


async def test_a_tree_in_memory_asks_and_goes_on() -> None:
    agent, model = team("Ann", "Bob"), busy(3)
    asked: list[tuple[int, int]] = []

    def decide(request: ApprovalRequest) -> Decision:
        spent = json.loads(request.arguments)["spent"]
        asked.append((spent, model.calls))
        return Decision(request_id=request.id, type="edit", edited_arguments={"extend_by": 3})

    limited = config(model_calls=4)
    done = await run_in_memory(agent, "Go.", model=model, decide=decide, run_config=limited)
    assert done.final_output == "Done."
    assert asked == [(4, 4), (7, 7)]
    assert model.calls == 10


async def test_a_tree_in_memory_goes_on_from_its_state() -> None:
    agent, model = team("Ann", "Bob"), busy(3)
    limited = config(model_calls=4)
    first = await run_in_memory(agent, "Go.", model=model, run_config=limited)
    [item] = first.interruptions
    state = first.to_state()
    state.approve(item)
    second = await run_in_memory(agent, state, model=model, run_config=limited)
    assert len(second.interruptions) == 1
    assert model.calls == 8
