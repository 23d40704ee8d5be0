"""What a handoff's filter leaves of the conversation, also in the histories that follow."""

from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.handoffs.handoff import handoff
from outlast.agents.handoffs.input_data import HandoffInputData
from outlast.agents.tools.function_tool import function_tool
from outlast.extensions.handoff_filters import remove_all_tools
from outlast.loop.items import text_of
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, say
from tests.workflow.desk import Desk
from tests.workflow.replies import outputs

TURNS = 5


@function_tool
async def act(number: int) -> str:
    return f"acted {number}"


def texts(request: ModelRequest) -> list[str]:
    """What the model reads beside calls and their outputs."""
    return [text_of(item) for item in request.input if "call_id" not in item]


def serving(request: ModelRequest) -> Any:
    """Triage acts and hands over; billing acts in each of its turns, and answers."""
    done = len(outputs(request))
    if request.instructions == "triage":
        if done == 0:
            return [*say("Let me see."), call("act", "t0", number=100)]
        return [call("transfer_to_billing", "h1")]
    return say("Done.") if done == TURNS else [call("act", f"b{done}", number=done)]


def team(**options: Any) -> Agent[Any]:
    billing = Agent[Any](name="Billing", instructions="billing", tools=[act])
    entry = handoff(billing, **options)
    return Agent[Any](name="Triage", instructions="triage", tools=[act], handoffs=[entry])


@pytest.mark.smoke
async def test_what_a_filter_took_away_stays_away_in_later_histories(desk: Desk):
    agent = team(input_filter=remove_all_tools)
    model = ScriptedModel(always=serving)
    await desk.open(agent, model=model)
    handle = await desk.start_short(agent, events=40)
    result = await desk.result(handle)
    assert (result.final_output, result.last_agent.name) == ("Done.", "Billing")
    assert len(await desk.all_events(handle)) >= 2
    for at, request in enumerate(model.requests[2:]):
        assert list(outputs(request).values()) == [f"acted {number}" for number in range(at)]
        assert texts(request) == ["Hello", "Let me see."]
    state = await handle.state()
    kept = [item.raw["output"] for item in state.items if item.kind == "tool_output"]
    assert kept == ["acted 100", *(f"acted {number}" for number in range(TURNS))]


def condense(data: HandoffInputData) -> HandoffInputData:
    """Replace everything by a summary."""
    count = len(data.input_history) + len(data.pre_handoff_items) + len(data.new_items)
    summary = {"role": "user", "content": f"The summary of {count} entries."}
    return data.clone(input_history=(summary,), pre_handoff_items=(), new_items=())


async def test_what_a_filter_put_in_stays_in_later_histories_and_answers(desk: Desk):
    agent = team(input_filter=condense)
    model = ScriptedModel(always=serving)
    await desk.open(agent, model=model)
    handle = await desk.start_short(agent, events=40, keep_open=True, max_turns=None)
    await desk.until_status(handle, "idle")
    summaries = {texts(request)[0] for request in model.requests[2:]}
    assert len(summaries) == 1
    assert summaries.pop().startswith("The summary of ")
    assert outputs(model.requests[2]) == {}
    assert (await (await handle.send("And now?")).answer()).final_output == "Done."
    assert texts(model.requests[-1])[1:] == ["Done.", "And now?"]
    assert texts(model.requests[-1])[0].startswith("The summary of ")
    await handle.cancel("after_turn")
    await desk.result(handle)
