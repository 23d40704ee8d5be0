"""Handoffs: who is asked next, and what its callback may do."""

from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.handoffs.handoff import handoff
from outlast.agents.tools.function_tool import function_tool
from outlast.testing import ScriptedModel, call
from tests.workflow.desk import Desk
from tests.workflow.replies import outputs


@function_tool
async def look_up(ctx: RunContextWrapper[dict[str, Any]], order: str) -> str:
    ctx.context = {**(ctx.context or {}), "looked_up": order}
    return f"{order} is on its way"


def _pair() -> tuple[Agent[Any], Agent[Any]]:
    billing = Agent(name="Billing", model="model-b", handoff_description="Money.")
    triage = Agent(name="Triage", model="model-t", tools=[look_up], handoffs=[billing])
    billing.handoffs.append(triage)
    return triage, billing


@pytest.mark.smoke
async def test_the_other_agent_answers(desk: Desk):
    triage, _ = _pair()
    model = ScriptedModel([call("transfer_to_billing", "h1")], "It is paid.")
    await desk.open(triage, model=model)
    result = await desk.run(triage)
    assert (result.final_output, result.last_agent.name, result.turns) == (
        "It is paid.",
        "Billing",
        2,
    )
    assert model.names == ["model-t", "model-b"]
    offered = {spec.name: spec.description for spec in model.requests[0].tools}
    assert offered["transfer_to_billing"].endswith("Money.")
    assert outputs(model.requests[1])["h1"] == '{"assistant": "Billing"}'


async def test_a_callback_runs_once_and_its_context_changes_are_kept(desk: Desk):
    seen: list[tuple[str, int]] = []

    def note(ctx: RunContextWrapper[dict[str, Any]]) -> None:
        seen.append((ctx.run_id, ctx.turn))
        ctx.context["handed_over"] = True

    billing = Agent(name="Billing")
    triage = Agent(name="Triage", handoffs=[handoff(billing, on_handoff=note)])
    model = ScriptedModel([call("transfer_to_billing", "h1")], "Paid.")
    await desk.open(triage, model=model)
    handle = await desk.start(triage, context={"customer": "Ann"})
    result = await desk.result(handle)
    assert result.context == {"customer": "Ann", "handed_over": True}
    assert seen == [(handle.id, 1)]
    history = await desk.workflow(handle).fetch_history()
    types = [
        event.activity_task_scheduled_event_attributes.activity_type.name
        for event in history.events
    ]
    assert "handoff:transfer_to_billing" in types


@pytest.mark.smoke
async def test_a_callback_that_raised_does_not_run_again(desk: Desk):
    opened: list[str] = []

    async def open_ticket(_ctx: RunContextWrapper[Any]) -> None:
        opened.append("ticket")
        raise OSError("lost the line")

    billing = handoff(Agent(name="Billing"), on_handoff=open_ticket)
    triage = Agent(name="Triage", handoffs=[billing])
    await desk.open(triage, model=ScriptedModel([call("transfer_to_billing", "h1")]))
    with pytest.raises(OSError, match="lost the line"):
        await desk.run(triage)
    assert opened == ["ticket"]


async def test_a_conversation_stays_with_the_agent_that_took_over(desk: Desk):
    triage, _ = _pair()
    model = ScriptedModel([call("transfer_to_billing", "h1")], "Paid.", "Still me.")
    await desk.open(triage, model=model)
    handle = await desk.start(triage, keep_open=True)
    await desk.until_status(handle, "idle")
    result = await (await handle.send("Who is there?")).answer()
    assert (result.final_output, result.last_agent.name) == ("Still me.", "Billing")
