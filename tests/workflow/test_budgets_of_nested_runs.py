"""Budgets count what nested runs spend, while they spend it."""

import json
from typing import Any

import pytest

from outlast.client.handle import RunHandle
from outlast.loop.state import LoopState
from tests.workflow.desk import Desk
from tests.workflow.teams import TURNS, busy, config, team


async def request_of(desk: Desk, handle: RunHandle, request_id: str = "a1") -> dict[str, Any]:
    """Return what a run says when it asks for more of its budget."""

    def waits(state: LoopState) -> bool:
        return [one.id for one in state.pending_approvals] == [request_id]

    state = await desk.until(handle, waits)
    [request] = state.pending_approvals
    assert (request.kind, request.run_id) == ("budget", "")
    assert state.status == "waiting"
    return json.loads(request.arguments)


@pytest.mark.smoke
async def test_nested_turns_ask_at_the_call_that_goes_beyond_the_budget(desk: Desk):
    agent, model = team("Helper"), busy()
    await desk.open(agent, model=model)
    handle = await desk.start(agent, run_config=config(model_calls=3))
    asked = await request_of(desk, handle)
    assert (asked["spent"], asked["spent_by_nested_runs"], model.calls) == (3, 2, 3)
    await handle.approve("a1", by="ann")
    asked = await request_of(desk, handle, "a2")
    assert (asked["limit"], asked["spent"], model.calls) == (6, 6, 6)
    await handle.edit("a2", {"extend_by": 1_000}, by="ann")
    assert (await desk.result(handle)).final_output == "Done."
    assert model.calls == TURNS + 3


async def test_money_of_nested_calls_counts_as_it_is_spent(desk: Desk):
    agent, model = team("Helper"), busy()
    await desk.open(agent, model=model)
    handle = await desk.start(agent, run_config=config(usd=0.0003))
    asked = await request_of(desk, handle)
    a_call = asked["spent"] // model.calls
    assert asked["limit"] <= asked["spent"] < asked["limit"] + a_call
    assert 1 < model.calls < TURNS
    await handle.edit("a1", {"extend_by": 1_000_000}, by="ann")
    assert (await desk.result(handle)).final_output == "Done."


async def test_parallel_runs_share_a_budget_and_go_on_after_all_workers_were_gone(desk: Desk):
    agent, model = team("Ann", "Bob", "Cid"), busy(4)
    worker = await desk.open(agent, model=model)
    handle = await desk.start(agent, run_config=config(model_calls=9))
    asked = await request_of(desk, handle)
    assert (asked["spent"], model.calls) == (9, 9)
    await desk.close(worker)
    await desk.open(agent, model=model)
    await handle.edit("a1", {"extend_by": 8}, by="ann")
    assert (await desk.result(handle)).final_output == "Done."
    assert model.calls == 17
    assert [one.id for one in (await handle.state()).approvals] == ["a1"]
