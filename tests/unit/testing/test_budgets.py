"""Budgets count what nested runs spend in memory."""

import json

from outlast.loop.approvals import ApprovalRequest, Decision
from outlast.testing import run_in_memory
from tests.workflow.teams import busy, config, team


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
