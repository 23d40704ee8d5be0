"""Forks of runs on a real server."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from outlast import Agent, ApprovalPolicy, Audience, function_tool
from outlast.agents.errors import RunClosed, UserError
from outlast.client.forks import ForkPoint, fork_run, read_fork_points
from outlast.client.inbox import Inbox
from outlast.client.start.tenant import Tenant
from outlast.contract import names
from outlast.loop.phrases import OFF_IN_FORK
from outlast.loop.values import JsonObject
from outlast.testing import ScriptedModel, call
from outlast.views.run import loop_state
from tests.workflow.desk import PATIENCE_SECONDS, Desk, waits_for
from tests.workflow.test_identity import KEY

called: list[str] = []


@function_tool
def refund(order: str) -> str:
    """Refund an order."""
    called.append(order)
    return f"refunded {order}"


@function_tool(effect="read")
def look_up(order: str) -> str:
    """Look an order up."""
    called.append(f"read {order}")
    return "a cup"


def shop() -> Agent[Any]:
    return Agent(name="Shop", instructions="Help.", tools=[refund, look_up])


async def points_of(desk: Desk, run_id: str) -> list[ForkPoint]:
    return [one async for one in read_fork_points(desk.client, run_id)]


def outputs(requests: list[Any]) -> list[str]:
    return [
        one["output"] for one in requests[-1].input if one.get("type") == "function_call_output"
    ]


async def test_a_fork_is_answered_from_the_record_and_has_no_effects(desk: Desk) -> None:
    called.clear()
    script = [
        [call("refund", "c1", order="7")],
        "Done.",
        # the fork
        [call("refund", "c2", order="7"), call("refund", "c3", order="8")],
        [call("look_up", "c4", order="7")],
        "In the fork.",
    ]
    model = ScriptedModel(*script)
    await desk.open(shop(), model=model)
    source = await desk.start(shop(), tenant=Tenant("acme", 2.0))
    assert (await source.result()).final_output == "Done."
    points = await points_of(desk, source.id)
    assert [one.number for one in points] == list(range(1, len(points) + 1))
    first = next(one.number for one in points if one.obstacle is None)
    made = await fork_run(desk.client, source.id, at=first, instructions="Be brief.", model="small")
    desk.ids.append(made.id)
    assert (await made.result()).final_output == "In the fork."
    assert called == ["7", "read 7"]
    assert outputs(model.requests) == ["refunded 7", OFF_IN_FORK, "a cup"]
    assert {one.instructions for one in model.requests[2:]} == {"Be brief."}
    state = await made.state()
    assert (state.forked_from, state.forked_after) == (source.id, first)
    made_of = await desk.client.get_workflow_handle(made.id).describe()
    priority = made_of.raw_info.priority
    assert (priority.fairness_key, priority.fairness_weight) == ("acme", 2.0)
    # The fork of a fork, and what reads a run.
    again = await fork_run(desk.client, made.id, at=1)
    desk.ids.append(again.id)
    assert (await again.state()).items == state.items[: len((await again.state()).items)]
    with suppress(RunClosed):  # it may have found that the model's script is over
        await again.cancel()


async def test_an_allowed_tool_runs_with_other_arguments(desk: Desk) -> None:
    called.clear()
    model = ScriptedModel([call("refund", "c1", order="7")], "Done.", "Done again.")
    await desk.open(shop(), model=model)
    source = await desk.start(shop())
    await source.result()
    points = await points_of(desk, source.id)
    running = next(
        one for one in points if any(it.status == "running" for it in loop_state(one.state).calls)
    )
    other = {"c1": {"order": "9"}}
    with pytest.raises(UserError, match="No call 'c9' is under way"):
        await fork_run(desk.client, source.id, at=running.number, arguments={"c9": {}})
    made = await fork_run(
        desk.client, source.id, at=running.number, arguments=other, allow=["refund"]
    )
    desk.ids.append(made.id)
    assert (await made.result()).final_output == "Done again."
    assert called == ["7", "9"]
    assert outputs(model.requests)[0].endswith("refunded 9")


async def test_no_fork_begins_where_its_source_had_ended_or_never_was(desk: Desk) -> None:
    await desk.open(shop(), model=ScriptedModel("Done."))
    source = await desk.start(shop())
    await source.result()
    points = await points_of(desk, source.id)
    with pytest.raises(UserError, match=r"The run has ended there\. Choose an earlier event"):
        await fork_run(desk.client, source.id)
    with pytest.raises(UserError, match=f"no event 99: choose one from 1 to {len(points)}"):
        await fork_run(desk.client, source.id, at=99)
    with pytest.raises(UserError, match="has not begun to work there"):
        await fork_run(desk.client, source.id, at=1)


async def test_a_fork_goes_on_in_further_histories_and_may_begin_in_any_of_its_source(
    desk: Desk,
) -> None:
    called.clear()
    turns = [[call("look_up", f"c{number}", order=f"{number}")] for number in range(4)]
    await desk.open(shop(), model=ScriptedModel(*turns, "Done.", *turns, "Done again."))
    source = await desk.start_short(shop())
    assert (await source.result()).final_output == "Done."
    points = await points_of(desk, source.id)
    second = next(one for one in points if len(loop_state(one.state).responses) == 2)
    made = await fork_run(desk.client, source.id, at=second.number)
    desk.ids.append(made.id)
    assert (await made.result()).final_output == "Done again."
    state = await made.state()
    assert (state.forked_from, state.forked_after) == (source.id, second.number)
    assert state.items[: len(second.state.items)] == second.state.items
    description = await desk.client.get_workflow_handle(made.id).describe()
    assert description.run_id != description.raw_info.first_run_id, "it continued as new"


@function_tool(needs_approval=ApprovalPolicy(audience=Audience(subjects=["ann"])))
def pay(order: str) -> str:
    """Pay for an order."""
    called.append(f"paid {order}")
    return f"paid {order}"


@pytest.mark.parametrize("arguments", [None, {"c1": {"order": "9"}}], ids=["same", "other"])
async def test_a_decision_about_the_source_lets_no_call_of_a_fork_run(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, JsonObject] | None
) -> None:
    """Whoever may start runs forks one at the moment of an approval, to spend it once more."""
    called.clear()
    monkeypatch.setenv("OUTLAST_IDENTITY_KEY", KEY)
    agent = Agent[Any](name="Shop", tools=[pay])
    again = [call("pay", "c2", order="7")]
    model = ScriptedModel([call("pay", "c1", order="7")], "Paid.", again, "Enough.")
    await desk.open(agent, model=model)
    source = await desk.start(agent)
    await desk.until(source, waits_for(1))
    await source.approve("a1", by="ann", always=True)
    await source.result()
    points = await points_of(desk, source.id)
    approved = next(
        one for one in points if any(it.status == "running" for it in loop_state(one.state).calls)
    )
    assert loop_state(approved.state).remembered
    made = await fork_run(
        desk.client, source.id, at=approved.number, allow=["pay"], arguments=arguments
    )
    desk.ids.append(made.id)
    await desk.until(made, waits_for(1))
    assert called == ["paid 7"], "the source's"
    (request,) = await made.approvals()
    await made.reject(request, by="ann")
    await desk.until(
        made, waits_for(1)
    )  # the next call, which the decision would be remembered for
    assert called == ["paid 7"]
    await made.cancel()


async def test_a_fork_that_begins_at_a_pending_approval_is_listed_as_waiting(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_IDENTITY_KEY", KEY)
    agent = Agent[Any](name="Shop", tools=[pay])
    model = ScriptedModel([call("pay", "c1", order="7")], "Declined.", "Declined again.")
    await desk.open(agent, model=model)
    source = await desk.start(agent)
    state = await desk.until(source, waits_for(1))
    made = await fork_run(desk.client, source.id)
    desk.ids.append(made.id)
    await desk.until_status(made, "waiting")
    described = await desk.workflow(made).describe()
    waits = {
        names.ATTRIBUTE_AGENT: ["Shop"],
        names.ATTRIBUTE_APPROVALS: [1],
        names.ATTRIBUTE_STATUS: ["waiting"],
        names.ATTRIBUTE_WAITS_FOR: ["approval of pay"],
        names.ATTRIBUTE_GROUPS: ["ann"],
        names.ATTRIBUTE_RISK: [state.pending_approvals[0].terms.risk],
    }
    assert described.search_attributes.items() >= waits.items()
    inbox = Inbox(desk.client)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while made.id not in {one.run_id async for one in inbox.all()}:  # noqa: ASYNC110  visibility is a moment behind
            await asyncio.sleep(0.05)
    for handle in (source, made):
        (request,) = await handle.approvals()
        await handle.reject(request, by="ann")
        await handle.result()
    described = await desk.workflow(made).describe()
    assert described.search_attributes[names.ATTRIBUTE_APPROVALS] == [0]


async def test_a_fork_of_a_held_or_an_idle_conversation_is_listed_with_its_status(
    desk: Desk,
) -> None:
    await desk.open(shop(), model=ScriptedModel("Hello."))
    source = await desk.start(shop(), keep_open=True)
    await desk.until(source, lambda state: state.phase == "idle")
    idle = await fork_run(desk.client, source.id)
    await source.hold(by="ann")
    held = await fork_run(desk.client, source.id)
    desk.ids += [idle.id, held.id]
    for handle, status in ((idle, "idle"), (held, "held")):
        await desk.until_status(handle, status)
        shown = (await desk.workflow(handle).describe()).search_attributes
        assert shown[names.ATTRIBUTE_STATUS] == [status]
    for handle in (source, idle, held):
        await handle.cancel()
