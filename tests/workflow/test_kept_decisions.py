"""Decisions about runs that no worker serves: the server keeps them, if they may count."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy, Audience
from outlast.agents.errors import DecisionRefused, RunClosed, ServerUnavailable
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle
from outlast.client.transport import pollers, run_address
from outlast.testing import ScriptedModel, call
from tests.workflow.desk import Desk, waits_for

KEY = "".join(map(chr, range(48, 48 + 70)))
SIGNALED = "EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED"


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A function after which a worker that is gone is not listed any more."""

    def forget() -> None:
        monkeypatch.setattr(run_address, "UNSERVED_AFTER", timedelta(milliseconds=200))
        monkeypatch.setattr(pollers, "LONGEST_POLL", timedelta(seconds=-1))

    return forget


def clerk(ran: list[str], needs_approval: bool | ApprovalPolicy = True) -> Agent[Any]:
    @function_tool(needs_approval=needs_approval)
    async def refund(order: str) -> str:
        ran.append(order)
        return f"refunded {order}"

    return Agent(name="Clerk", tools=[refund])


def script() -> ScriptedModel:
    return ScriptedModel(
        [call("refund", "c1", order="A"), call("refund", "c2", order="B")], "Done."
    )


async def parked(desk: Desk, agent: Agent[Any], model: ScriptedModel) -> RunHandle:
    """Start a run that waits for two decisions, and end its worker."""
    worker = await desk.open(agent, model=model)
    handle = await desk.start(agent)
    await desk.until(handle, waits_for(2))
    await desk.close(worker)
    return handle


@pytest.mark.smoke
@pytest.mark.parametrize("key", ["", KEY])
async def test_without_a_worker_the_server_keeps_a_decision(
    desk: Desk, at_once: Callable[[], None], monkeypatch: pytest.MonkeyPatch, key: str
):
    monkeypatch.setenv("OUTLAST_IDENTITY_KEY", key)
    ran, model = list[str](), script()
    agent = clerk(ran)
    handle = await parked(desk, agent, model)
    at_once()
    kept = await handle.approve("a1", by="lee")
    assert (kept.is_kept, kept.status, kept.votes, kept.by) == (True, "pending", 0, None)
    assert (await handle.reject("a2", by="lee", message="Not B.")).is_kept
    await desk.open(agent, model=model)
    assert (await desk.result(handle)).final_output == "Done."
    assert ran == ["A"]
    state = await handle.state()
    assert [(one.status, one.settled_by) for one in state.approvals] == [
        ("approved", "lee"),
        ("rejected", "lee"),
    ]


async def test_of_two_kept_decisions_the_first_counts_and_the_second_is_listed(
    desk: Desk, at_once: Callable[[], None]
):
    ran, model = list[str](), script()
    agent = clerk(ran)
    handle = await parked(desk, agent, model)
    at_once()
    assert (await handle.reject("a1", by="lee")).is_kept
    assert (await handle.approve("a1", by="ann")).is_kept
    await handle.approve("a2", by="lee")
    await desk.open(agent, model=model)
    await desk.result(handle)
    assert ran == ["B"]
    (ignored,) = (await handle.state()).ignored
    assert "decision approve for a1" in str(ignored)


async def test_what_cannot_count_is_refused_and_nothing_is_kept(
    desk: Desk, at_once: Callable[[], None]
):
    agent, model = clerk([]), script()
    handle = await parked(desk, agent, model)
    at_once()
    with pytest.raises(DecisionRefused, match="a9"):
        await handle.approve("a9", by="lee")
    with pytest.raises(DecisionRefused, match="arguments"):
        await handle.approve("a1", by="lee", args_digest="0" * 64)
    assert SIGNALED not in await desk.event_types(handle)
    await desk.workflow(handle).terminate()
    with pytest.raises(RunClosed):
        await handle.approve("a1", by="lee")


async def test_a_worker_that_comes_in_time_takes_the_decision_itself(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    ran, model = list[str](), script()
    agent = clerk(ran)
    handle = await parked(desk, agent, model)
    monkeypatch.setattr(run_address, "UNSERVED_AFTER", timedelta(milliseconds=20))
    deciding = asyncio.create_task(handle.approve("a1", by="lee"))
    await desk.open(agent, model=model)
    receipt = await deciding
    assert (receipt.is_kept, receipt.status) == (False, "approved")


async def test_a_decision_that_needs_proof_waits_for_a_worker_to_check_it(
    desk: Desk, at_once: Callable[[], None], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OUTLAST_IDENTITY_KEY", KEY)
    ran, model = list[str](), script()
    proven = ApprovalPolicy(audience=Audience(subjects=["lee"]))
    agent = clerk(ran, needs_approval=proven)
    handle = await parked(desk, agent, model)
    at_once()
    with pytest.raises(DecisionRefused, match="eve may not do this"):
        await handle.approve("a1", by="eve")
    hasty = RunHandle(desk.client, handle.id, patience=timedelta(seconds=5))
    with pytest.raises(ServerUnavailable, match="Is a worker running"):
        await hasty.approve("a1", by="lee")
    assert SIGNALED not in await desk.event_types(handle)
    deciding = asyncio.create_task(handle.approve("a1", by="lee"))
    await desk.open(agent, model=model)
    receipt = await deciding
    assert (receipt.is_kept, receipt.status) == (False, "approved")


async def test_a_decision_that_is_given_up_by_its_caller_is_not_kept(
    desk: Desk, at_once: Callable[[], None]
):
    handle = await parked(desk, clerk([]), script())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await handle.approve("a1", by="lee")
    assert SIGNALED not in await desk.event_types(handle)
