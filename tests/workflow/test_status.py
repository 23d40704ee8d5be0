"""The search attributes follow a run to its end, so that nobody looks for what is over."""

from typing import Any

import pytest
from temporalio.client import Client

from outlast.agents.agent import Agent
from outlast.agents.errors import RunCancelled
from outlast.agents.tool import function_tool
from outlast.client.handle import RunHandle
from outlast.contract import names
from outlast.testing import ScriptedModel, call
from tests.workflow.desk import Desk
from tests.workflow.replies import model_error


@function_tool(needs_approval=True)
async def refund(order: str) -> str:
    return f"refunded {order}"


def _agent() -> Agent[Any]:
    return Agent(name="Triage", handoffs=[Agent(name="Billing", tools=[refund])])


def _script(*then: Any) -> ScriptedModel:
    return ScriptedModel(
        [call("transfer_to_billing", "h1")], [call("refund", "c1", order="A-17")], *then
    )


async def _shown(client: Client, handle: RunHandle) -> list[Any]:
    """Return the agent, the status and the number of approvals, as the server shows them."""
    described = await client.get_workflow_handle(handle.id).describe()
    shown: dict[str, Any] = {
        pair.key.name: pair.value for pair in described.typed_search_attributes
    }
    return [shown[name] for name in names.SEARCH_ATTRIBUTES]


async def test_every_change_of_status_is_shown(desk: Desk):
    agent = _agent()
    handle = await desk.start(agent, keep_open=True)
    assert await _shown(desk.client, handle) == ["Triage", "running", 0]
    await desk.open(agent, model=_script("It is paid back."))
    await desk.until_status(handle, "waiting")
    assert await _shown(desk.client, handle) == ["Billing", "waiting", 1]
    await handle.approve("a1")
    await desk.until_status(handle, "idle")
    assert await _shown(desk.client, handle) == ["Billing", "idle", 0]
    await handle.cancel("after_turn")
    await desk.result(handle)
    assert await _shown(desk.client, handle) == ["Billing", "completed", 0]


async def test_a_cancelled_run_waits_for_nobody(desk: Desk):
    agent = _agent()
    await desk.open(agent, model=_script())
    handle = await desk.start(agent)
    await desk.until_status(handle, "waiting")
    await handle.cancel()
    with pytest.raises(RunCancelled):
        await desk.result(handle)
    assert await _shown(desk.client, handle) == ["Billing", "cancelled", 0]


async def test_a_failed_run_waits_for_nobody(desk: Desk):
    agent = _agent()
    await desk.open(agent, model=_script(model_error("unauthorized", retryable=False)))
    handle = await desk.start(agent)
    await desk.until_status(handle, "waiting")
    await handle.approve("a1")
    await desk.until_status(handle, "failed")
    assert await _shown(desk.client, handle) == ["Billing", "failed", 0]
