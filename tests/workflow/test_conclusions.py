"""Between a candidate answer and the answer: hooks, guardrails and handlers, in an activity."""

import asyncio
from typing import Any

import pytest

import outlast
from outlast.agents.agent import Agent
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.tools.function_tool import function_tool
from outlast.contract import names
from outlast.testing import ScriptedModel, call
from tests.workflow.desk import PATIENCE_SECONDS, QUICK, Desk

SEEN: list[str] = []
"""What the hooks of a test saw; emptied by its fixture."""


class Watching(outlast.RunHooks[Any]):
    """Hooks of the run: they may change the context, too."""

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        SEEN.append(f"start {agent.name}")

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        SEEN.append(f"tool {tool.name}")

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        SEEN.append(f"{from_agent.name} to {to_agent.name}")

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        SEEN.append(f"end {agent.name}: {output}")
        context.context["ended"] = context.context.get("ended", 0) + 1


WATCHING = Watching()


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    SEEN.clear()


@function_tool
async def look_up(ctx: RunContextWrapper[dict[str, Any]]) -> str:
    ctx.context["looked_up"] = True
    return "found"


@pytest.mark.smoke
async def test_hooks_see_the_run_in_order_and_what_they_change_is_kept(desk: Desk):
    triage = Agent[Any](name="Triage", tools=[look_up], handoffs=[Agent[Any](name="Billing")])
    model = ScriptedModel([call("look_up", "c1"), call("transfer_to_billing", "h1")], "Paid.")
    await desk.open(triage, model=model)
    handle = await desk.start(triage, hooks=WATCHING, context={})
    result = await desk.result(handle)
    assert SEEN == [
        "start Triage",
        "tool look_up",
        "Triage to Billing",
        "start Billing",
        "end Billing: Paid.",
    ]
    assert result.context == {"looked_up": True, "ended": 1}
    history = await desk.workflow(handle).fetch_history()
    types = [
        one.activity_task_scheduled_event_attributes.activity_type.name for one in history.events
    ]
    assert types.count(names.ACTIVITY_FINALIZE) == 1


async def test_hooks_of_a_conversation_see_the_end_of_every_answer(desk: Desk):
    agent = Agent[Any](name="A", tools=[look_up])
    steps = [[call("look_up", "c1")], "One.", [call("look_up", "c2")], "Two.", "Three."]
    await desk.open(agent, model=ScriptedModel(*steps), references={"watching": WATCHING})
    handle = await desk.start_short(agent, hooks="watching", context={}, keep_open=True)
    await desk.until_status(handle, "idle")
    for text in ("more", "and more"):
        await (await handle.send(text)).answer()
    await handle.cancel("after_turn")
    assert (await desk.result(handle)).context == {"looked_up": True, "ended": 3}
    assert [one for one in SEEN if one.startswith("end")] == [
        "end A: One.",
        "end A: Two.",
        "end A: Three.",
    ]


async def test_what_judges_tools_is_asked_again_when_its_worker_is_lost(desk: Desk):
    asked: list[int] = []
    begun = asyncio.Event()

    async def judge(_ctx: Any, results: Any) -> Any:
        asked.append(1)
        if len(asked) == 1:
            begun.set()
            await asyncio.Future[None]()
        return outlast.ToolsToFinalOutputResult(
            is_final_output=True, final_output=f"I {results[0].output} it."
        )

    agent = Agent[Any](name="A", tools=[look_up], tool_use_behavior=judge)
    worker = await desk.open(agent, model=ScriptedModel([call("look_up", "c1")]))
    handle = await desk.start(agent, context={}, run_config=QUICK)
    await asyncio.wait_for(begun.wait(), PATIENCE_SECONDS)
    await desk.close(worker)
    second = ScriptedModel("never")
    await desk.open(agent, model=second)
    assert (await desk.result(handle)).final_output == "I found it."
    assert (len(asked), second.calls) == (2, 0)
