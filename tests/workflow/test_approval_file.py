"""The operators' file on real workers: a run keeps the terms that its request was made with."""

from pathlib import Path
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.tools.function_tool import function_tool
from outlast.testing import ScriptedModel, call
from tests.workflow.desk import Desk, waits_for
from tests.workflow.replies import outputs


@pytest.mark.smoke
async def test_a_run_keeps_the_terms_of_its_request_when_operators_change_the_file(
    desk: Desk, tmp_path: Path
) -> None:
    @function_tool(fast=True)
    def refund(order: str, euros: int) -> str:
        """Refund."""
        return f"{euros} for {order}"

    agent = Agent[Any](name="Clerk", tools=[refund])
    model = ScriptedModel(
        [call("refund", "c1", order="A", euros=50), call("refund", "c2", order="B", euros=5)],
        [call("refund", "c3", order="C", euros=60)],
        "Done.",
    )
    file = tmp_path / "approvals.toml"
    table = "[tool.refund]\nwhen = 'euros > 55'\nredact = ['order']\n"
    tier = "[[tool.refund.tiers]]\nwhen = 'euros > 10 and order == \"A\"'\nname = 'of A'\n"
    file.write_text(table + tier, encoding="utf-8")
    first = await desk.open(agent, model=model, approvals=file)
    handle = await desk.start(agent)
    await desk.until(handle, waits_for(1))
    await desk.close(first)

    file.write_text("[tool.refund]\nneeds_approval = false\n", encoding="utf-8")
    await desk.open(agent, model=model, approvals=str(file))
    (request,) = await handle.approvals()
    assert (request.call_id, request.terms.policy) == ("c1", "of A")
    assert request.arguments == '{"order": "[redacted]", "euros": 50}'
    await handle.approve(request.id, by="ann")
    assert (await handle.result()).final_output == "Done."
    done = outputs(model.requests[-1])
    assert done == {"c1": "50 for A", "c2": "5 for B", "c3": "60 for C"}
    assert len((await handle.state()).approvals) == 1
