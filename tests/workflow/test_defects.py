"""What becomes of a run when the loop itself is wrong: it fails in words, and does not hang."""

from typing import Any

import pytest

from outlast import AgentsException
from outlast.agents.agent import Agent
from outlast.agents.tools.function_tool import function_tool
from outlast.loop.calls import ToolResult
from outlast.loop.effects import EffectAnswered
from outlast.loop.events import Event
from outlast.loop.machine import advance
from outlast.loop.state import LoopState
from outlast.testing import ScriptedModel, call
from outlast.workflows import agent_run
from tests.workflow.desk import Desk


def broken(state: LoopState, event: Event) -> Any:
    """A loop that cannot take the end of a tool in."""
    if isinstance(event, EffectAnswered) and isinstance(event.result, ToolResult):
        raise TypeError("not as it was meant")
    return advance(state, event)


@pytest.mark.smoke
@pytest.mark.parametrize("fast", [True, False])
async def test_a_defect_fails_the_run_also_while_tools_run(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, *, fast: bool
):
    monkeypatch.setattr(agent_run, "advance", broken)

    @function_tool(fast=fast)
    def quick(number: int) -> str:
        return "done" * number

    calls = [call("quick", f"c{number}", number=number) for number in range(12)]
    await desk.open(Agent[Any](name="A", tools=[quick]), model=ScriptedModel(calls))
    with pytest.raises(AgentsException, match="outlast has a defect: TypeError: not as it was"):
        await desk.run("A")
    desk.ids.clear()  # no law holds of such a run
