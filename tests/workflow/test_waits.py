"""Tools that wait for something outside of the run, on a real server."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.context.wrapper import ToolContext
from outlast.agents.tools.function_tool import function_tool
from outlast.client.deliveries import PendingWait, finish
from outlast.client.handle import RunHandle
from outlast.client.read.events import StreamedState
from outlast.testing import ScriptedModel, call
from tests.workflow.desk import Desk
from tests.workflow.replies import outputs

TWO_DAYS = timedelta(days=2)


@dataclass
class Pickup:
    """What a courier reports."""

    parcel: str
    weight_grams: int


def courier(began: list[str]) -> Agent[Any]:
    """Return an agent whose tool books a courier once, and waits for the pickup."""

    @function_tool
    async def book(ctx: ToolContext[Any], order: str) -> str:
        """Book a courier."""

        def send(order: str) -> str:
            began.append(order)
            return f"booking-{len(began)}"

        booking = await ctx.once("booking", send, order)
        pickup = await ctx.wait_for("courier", timeout=TWO_DAYS, schema=Pickup)
        return f"{booking}: {pickup.parcel} weighs {pickup.weight_grams} g"

    return Agent(name="Courier", tools=[book])


async def parked(handle: RunHandle) -> PendingWait:
    """Return the wait of a run, as soon as it is parked."""
    async for step in handle.stream_states():
        if isinstance(step, StreamedState) and step.state.status == "parked":
            break
    [wait] = await handle.pending_waits()
    return wait


@pytest.mark.replayed
async def test_a_call_waits_for_a_value_without_a_worker(desk: Desk):
    began: list[str] = []
    model = ScriptedModel([call("book", "c1", order="7")], "Picked up.")
    agent = courier(began)
    worker = await desk.open(agent, model=model)
    handle = await desk.start(agent)
    wait = await parked(handle)
    assert (wait.tool, wait.name, wait.agent) == ("book", "courier", "Courier")
    assert wait.until is not None
    assert wait.until - wait.since == TWO_DAYS
    await desk.close(worker)
    delivery = asyncio.create_task(
        finish(
            wait.token,
            {"parcel": "p1", "weight_grams": 900},
            client=desk.client,
            delivery_id="webhook-1",
            source="courier.example",
        )
    )
    await desk.open(agent, model=model)
    receipt = await delivery
    result = await handle.result()
    assert (receipt.run_id, receipt.name) == (handle.id, "courier")
    assert result.final_output == "Picked up."
    assert list(outputs(model.requests[1]).values()) == ["booking-1: p1 weighs 900 g"]
    assert began == ["7"]
