"""A lead whose helpers work as tools, the model that keeps them busy, and a budget for them."""

from typing import Any

from outlast.agents.agent import Agent
from outlast.agents.approvals.budget import Budget
from outlast.agents.config.run_config import RunConfig
from outlast.agents.tools.function_tool import function_tool
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, say
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
