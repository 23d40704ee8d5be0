"""Agents that handoffs make, one for each customer, belong to the run that made them."""

import asyncio
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.handoffs.handoff import Handoff
from outlast.agents.run_objects import RUN_OBJECTS
from outlast.agents.tools.function_tool import function_tool
from outlast.client.results.run_result import RunResult
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, say
from outlast.views.run import loop_state
from tests.workflow.desk import Desk


def answers(request: ModelRequest) -> Any:
    """Call the account tool once, then say what was read."""
    outputs = [one["output"] for one in request.input if one.get("type") == "function_call_output"]
    if outputs and "account" in str(outputs[-1]):
        return say(f"{request.instructions} {outputs[-1]}")
    return [call("account", f"c{len(request.input)}")]


def account_of(customer: str) -> Any:
    @function_tool
    def account() -> str:
        """Read the account."""
        return f"account of {customer}"

    return account


def to(make: Any, name: str = "to_personal") -> Handoff:
    async def invoke(ctx: RunContextWrapper[Any], _arguments: str) -> Agent[Any]:
        return make(ctx.context["customer"])

    return Handoff(
        tool_name=name,
        tool_description="Hand over to somebody who serves this customer alone.",
        input_json_schema={},
        on_invoke_handoff=invoke,
        agent_name="Personal",
    )


def personal(customer: str) -> Agent[Any]:
    return Agent(
        name="Personal",
        instructions=f"You serve {customer}.",
        tools=[account_of(customer)],
        model=ScriptedModel(always=answers),
    )


def desk_with(*entries: Any) -> Agent[Any]:
    return Agent(
        name="Desk", model=ScriptedModel(always=[call("to_personal", "h1")]), handoffs=[*entries]
    )


async def ask(desk: Desk, agent: Agent[Any], customer: str) -> RunResult:
    return await desk.run(agent, f"I am {customer}.", context={"customer": customer})


async def test_runs_at_once_have_the_agents_that_their_own_handoffs_made(desk: Desk):
    triage = desk_with(to(personal))
    await desk.open(triage)
    results = await asyncio.gather(*(ask(desk, triage, one) for one in ("Ann", "Bob", "Cy")))
    assert [one.final_output for one in results] == [
        f"You serve {name}. account of {name}" for name in ("Ann", "Bob", "Cy")
    ]


async def test_a_registered_agent_of_the_name_does_not_take_their_place(desk: Desk):
    triage = desk_with(to(personal))
    await desk.open(triage, personal("nobody"))
    result = await ask(desk, triage, "Ann")
    assert result.final_output == "You serve Ann. account of Ann"


async def test_a_second_pick_of_a_run_is_another_agent(desk: Desk):
    made: list[str] = []

    def another(customer: str) -> Agent[Any]:
        made.append(customer)
        back = [Agent(name="Back", model=ScriptedModel([call("to_personal", "h2")]))]
        agent = personal(f"{customer} {len(made)}")
        if len(made) == 1:
            agent.model = ScriptedModel([call("transfer_to_back", "h3")])
            back[0].handoffs = [to(another)]
            agent.handoffs = [*back]
        return agent

    triage = desk_with(to(another))
    await desk.open(triage)
    result = await ask(desk, triage, "Ann")
    assert result.final_output == "You serve Ann 2. account of Ann 2"


CLERK = Agent[Any](
    name="Personal",
    instructions="You serve everybody.",
    tools=[account_of("everybody")],
    model=ScriptedModel(always=answers),
)


def changed(customer: str) -> Agent[Any]:
    return CLERK.clone(instructions=f"You serve {customer}.")


@pytest.mark.replayed
async def test_a_clone_that_differs_in_data_is_recorded_with_its_run(desk: Desk):
    """Its process may end: whoever has the registered agent makes the clone again."""
    triage = desk_with(to(changed))
    worker = await desk.open(triage, CLERK)
    results = await asyncio.gather(*(ask(desk, triage, one) for one in ("Ann", "Bob")))
    assert [one.final_output for one in results] == [
        f"You serve {name}. account of everybody" for name in ("Ann", "Bob")
    ]
    handle = await desk.start(
        triage, "I am Dan.", context={"customer": "Dan"}, keep_open=True, id=desk.new_id()
    )
    await handle.wait(lambda state: loop_state(state).phase == "idle")
    await desk.close(worker)
    vars(RUN_OBJECTS)["_kept"].clear()  # as in another process
    await desk.open(triage, CLERK)
    answer = await (await handle.send("And now?")).answer()
    assert answer.final_output == "You serve Dan. account of everybody"
    await handle.cancel()
