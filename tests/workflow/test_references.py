"""What a run refers to has to be known where it is carried."""

import asyncio
import re
from dataclasses import replace
from typing import Any

import pytest

import outlast
from outlast.agents.agent import Agent
from outlast.agents.config.run_config import RunConfig
from outlast.agents.errors import UserError
from outlast.agents.tools.function_tool import function_tool
from outlast.cli.doctor import blocked_runs
from outlast.testing import ScriptedModel, call
from outlast.views.run import loop_state
from tests.workflow.desk import PATIENCE_SECONDS, QUICK, Desk

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
        named = f"has no object named {missing!r}.*references="
        with pytest.raises(UserError, match=re.compile(named, re.DOTALL)):
            await desk.run("A", **options)
    assert model.calls == 0


@pytest.mark.smoke
async def test_a_run_finds_what_it_names_at_its_worker(desk: Desk):
    GREETED.clear()
    model = ScriptedModel("Good day.")
    references = {"greetings": Greeting(), "forwards": forward}
    await desk.open(Agent[Any](name="A"), model=model, references=references)
    result = await desk.run(
        "A", hooks="greetings", run_config=RunConfig(call_model_input_filter="forwards")
    )
    assert (result.final_output, GREETED) == ("Good day.", ["A"])


async def test_a_run_waits_for_a_worker_that_knows_what_it_names(desk: Desk):
    """While versions of a worker change, some may lack it: the run says so, and is tried again."""

    @function_tool(needs_approval=True)
    async def act() -> str:
        return "acted"

    agent = Agent[Any](name="A", tools=[act])
    known = {"forwards": forward}
    worker = await desk.open(agent, model=ScriptedModel([call("act", "c1")]), references=known)
    settings = replace(QUICK, call_model_input_filter="forwards")
    handle = await desk.start("A", run_config=settings)
    await desk.until_status(handle, "waiting")
    await desk.close(worker)
    lacking = ScriptedModel("never")
    worker = await desk.open(agent, model=lacking)
    await handle.approve("a1")
    await desk.until_status(handle, "blocked")
    (block,) = (loop_state(await handle.state())).blocked
    assert "'forwards'" in block.lacks
    await desk.pending_activity(handle, lambda one: "'forwards'" in one.last_failure.message)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (found := await blocked_runs(desk.client)):  # noqa: ASYNC110  nothing announces it
            await asyncio.sleep(0.1)
    assert "cannot go on with the workers that there are" in found[0].detail
    await desk.close(worker)
    await desk.open(agent, model=ScriptedModel("Done."), references=known)
    assert (await desk.result(handle)).final_output == "Done."
    assert lacking.calls == 0
