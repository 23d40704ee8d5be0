"""The search attributes follow a run while it is open, and no further."""

from typing import Any

from outlast.agents.agent import Agent
from outlast.agents.tool import function_tool
from outlast.client.handle import RunHandle
from outlast.contract import names
from outlast.testing import ScriptedModel, call
from tests.workflow.desk import Desk


@function_tool(needs_approval=True)
async def refund(order: str) -> str:
    return f"refunded {order}"


async def _shown(desk: Desk, handle: RunHandle) -> list[Any]:
    """Return the agent, the status and the number of approvals, as the server shows them."""
    described = await desk.workflow(handle).describe()
    shown: dict[str, Any] = dict(described.search_attributes)
    return [shown[name][0] for name in names.SEARCH_ATTRIBUTES]


async def test_every_change_of_status_is_shown_until_the_run_closes(desk: Desk):
    agent = Agent(name="Triage", handoffs=[Agent(name="Billing", tools=[refund])])
    model = ScriptedModel(
        [call("transfer_to_billing", "h1")], [call("refund", "c1", order="A-17")], "It is done."
    )
    handle = await desk.start(agent, keep_open=True)
    assert await _shown(desk, handle) == ["Triage", "running", 0]
    await desk.open(agent, model=model)
    await desk.until_status(handle, "waiting")
    assert await _shown(desk, handle) == ["Billing", "waiting", 1]
    await handle.approve("a1")
    await desk.until_status(handle, "idle")
    assert await _shown(desk, handle) == ["Billing", "idle", 0]
    before = await desk.event_types(handle)
    await handle.cancel("after_turn")
    await desk.result(handle)
    # How a run ended is Temporal's own `ExecutionStatus`; another write would say it twice.
    upsert = "EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES"
    assert (await desk.event_types(handle)).count(upsert) == before.count(upsert)
    assert await _shown(desk, handle) == ["Billing", "idle", 0]
