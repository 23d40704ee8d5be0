"""What a run refers to has to be known where it is carried."""

import re
from typing import Any

import pytest

import outlast
from outlast.agents.agent import Agent
from outlast.agents.errors import UserError
from outlast.agents.run_config import RunConfig
from outlast.testing import ScriptedModel, call
from tests.workflow.desk import Desk

GREETED: list[str] = []


class Greeting(outlast.RunHooks[Any]):
    """Hooks that a worker elsewhere has under a name."""

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        GREETED.append(agent.name)


def forward(data: Any) -> Any:
    return data.model_data


async def test_a_run_that_names_what_its_worker_lacks_is_refused_before_anything(desk: Desk):
    model = ScriptedModel("never")
    await desk.open(Agent[Any](name="A"), model=model)
    for options, missing in (
        ({"hooks": "greetings"}, "greetings"),
        ({"run_config": RunConfig(call_model_input_filter="forwards")}, "forwards"),
        ({"error_handlers": {"max_turns": "excuses"}}, "excuses"),
    ):
        named = f"knows nothing named {missing!r}.*references="
        with pytest.raises(UserError, match=re.compile(named, re.DOTALL)):
            await desk.run("A", **options)
    assert model.calls == 0


async def test_a_run_finds_what_it_names_at_its_worker(desk: Desk):
    GREETED.clear()
    model = ScriptedModel("Good day.")
    references = {"greetings": Greeting(), "forwards": forward}
    await desk.open(Agent[Any](name="A"), model=model, references=references)
    result = await desk.run(
        "A", hooks="greetings", run_config=RunConfig(call_model_input_filter="forwards")
    )
    assert (result.final_output, GREETED) == ("Good day.", ["A"])


async def test_a_worker_that_comes_later_without_it_says_so_too(desk: Desk):
    """The run does not hang: it has a failure that says what is missing."""

    @outlast.function_tool(needs_approval=True)
    async def act() -> str:
        return "acted"

    agent = Agent[Any](name="A", tools=[act])
    first = await desk.open(
        agent,
        model=ScriptedModel([call("act", "c1")]),
        references={"forwards": forward},
    )
    handle = await desk.start("A", run_config=RunConfig(call_model_input_filter="forwards"))
    await desk.until_status(handle, "waiting")
    await desk.close(first)
    await desk.open(agent, model=ScriptedModel("never"))
    await handle.approve("a1")
    with pytest.raises(UserError, match="forwards"):
        await desk.result(handle)
