"""Tools that wait for something outside of the run, on a real server."""

import asyncio
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.context.wait_address import WaitAddress
from outlast.agents.context.waits import Wait
from outlast.agents.context.wrapper import ToolContext
from outlast.agents.errors import (
    DeliveryRefused,
    RunCancelled,
    RunClosed,
    ServerUnavailable,
    WaitDropped,
)
from outlast.agents.tools.function_tool import function_tool
from outlast.agents.tools.sleep import sleep_tool
from outlast.client.deliveries import DeliveryReceipt, PendingWait, finish
from outlast.client.handle import RunHandle
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, say
from tests.workflow.desk import Desk
from tests.workflow.replies import last_user_text, outputs
from tests.workflow.test_long_runs import in_later_history, true_in_the_end
from tests.workflow.test_visibility import metadata_of

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


def depot(at_work: asyncio.Event | None = None, until: asyncio.Event | None = None) -> Agent[Any]:
    """Return an agent whose tool returns its wait: its output is what arrives.

    The tool says when it is at work, and takes until it is told to go on.
    """

    @function_tool
    async def pack(ctx: ToolContext[Any], order: str) -> Any:
        """Pack an order."""
        if at_work is not None and until is not None:
            at_work.set()
            await until.wait()
        ctx.context = {"packing": order}
        return ctx.wait_for("packed", timeout=TWO_DAYS, schema=str)

    return Agent(name="Depot", tools=[pack])


def packs_once() -> ScriptedModel:
    """Return a model that packs, and then says what came of it."""

    def reply(request: ModelRequest) -> Any:
        done = outputs(request)
        return say(f"Packed {done['c1']}.") if "c1" in done else [call("pack", "c1", order="7")]

    return ScriptedModel(always=reply)


async def parked(handle: RunHandle) -> PendingWait:
    """Return the wait of a run, as soon as it is parked."""
    await handle.wait(lambda state: state.status == "parked")
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
    began_at = time.monotonic()
    receipts = [
        await finish(
            wait.token,
            {"parcel": "p1", "weight_grams": 900},
            client=desk.client,
            delivery_id="webhook-1",
            source="courier.example",
            patience=timedelta(milliseconds=200),
        )
        for _ in range(2)
    ]
    assert time.monotonic() - began_at < 3, "no longer than it is asked to"
    assert [one.at for one in receipts] == [None, None], "the server keeps it"
    await desk.open(agent, model=model)
    result = await handle.result()
    assert (receipts[0].run_id, receipts[0].name) == (handle.id, "courier")
    assert result.final_output == "Picked up."
    assert list(outputs(model.requests[1]).values()) == ["booking-1: p1 weighs 900 g"]
    assert began == ["7"]


async def test_a_returned_wait_is_the_output_and_the_tool_does_not_run_again(desk: Desk):
    agent = depot()
    await desk.open(agent, model=packs_once())
    handle = await desk.start(agent, context={})
    wait = await parked(handle)
    await finish(wait.token, "by hand", client=desk.client)
    assert (await desk.result(handle)).final_output == "Packed by hand."
    assert (await handle.state()).context == {"packing": "7"}


async def test_a_tool_that_is_not_async_returns_its_wait_and_does_not_run_again(desk: Desk):
    began: list[str] = []

    @function_tool
    def pack(ctx: ToolContext[Any], order: str) -> Wait[str]:
        """Pack an order."""
        began.append(order)
        return ctx.wait_for("packed", timeout=TWO_DAYS, schema=str)

    agent = Agent(name="Depot", tools=[pack])
    await desk.open(agent, model=packs_once())
    handle = await desk.start(agent)
    wait = await parked(handle)
    await finish(wait.token, "by hand", client=desk.client)
    assert (await desk.result(handle)).final_output == "Packed by hand."
    assert began == ["7"]


async def test_a_value_may_come_before_the_call_waits_for_it(desk: Desk):
    at_work, until = asyncio.Event(), asyncio.Event()
    agent = depot(at_work, until)
    await desk.open(agent, model=packs_once())
    handle = await desk.start(agent)
    await at_work.wait()
    token = WaitAddress(handle.id, 0, 1, "c1", "packed").token
    await finish(token, "before", client=desk.client, delivery_id="first")
    with pytest.raises(DeliveryRefused, match="Another delivery came first"):
        await finish(token, "after", client=desk.client, delivery_id="second")
    until.set()
    assert (await desk.result(handle)).final_output == "Packed before."


async def test_a_flood_of_deliveries_without_a_worker_is_stopped_and_loses_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    agent, model = depot(), packs_once()
    worker = await desk.open(agent, model=model)
    handle = await desk.start(agent)
    wait = await parked(handle)
    await desk.close(worker)
    soon = timedelta(milliseconds=100)
    before = len(await desk.event_types(handle))
    monkeypatch.setattr("outlast.client.transport.run_address.MOST_KEPT_EVENTS", before + 10)

    async def signals(handle: RunHandle) -> int:
        """Return how many deliveries the server keeps; the engine adds events of its own."""
        types = await desk.event_types(handle)
        return types.count("EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED")

    async def send(value: Any, number: int, patience: timedelta = soon) -> DeliveryReceipt:
        return await finish(
            wait.token, value, client=desk.client, delivery_id=f"d{number}", patience=patience
        )

    async def flood() -> None:
        for number in range(3, 20):
            await send("junk", number)

    await send({"does": "not fit"}, 1)
    await send("by hand", 2)
    with pytest.raises(ServerUnavailable, match=r"no worker takes what was sent. Start one"):
        await flood()
    kept = await signals(handle)
    assert kept >= 2
    monkeypatch.setattr("outlast.client.transport.run_address.MOST_KEPT_BYTES", 1)
    with pytest.raises(ServerUnavailable, match="repeat it with the same id"):
        await send("by hand", 2)
    assert await signals(handle) == kept
    await desk.open(agent, model=model)
    again = await send("by hand", 2, timedelta(seconds=30))
    assert again.at is not None, "the same delivery, which was kept"
    assert (await desk.result(handle)).final_output == "Packed by hand."


async def test_a_repeated_delivery_gets_the_receipt_of_the_first_in_the_next_history(desk: Desk):
    agent = depot()
    model = packs_once()
    await desk.open(agent, model=model)
    handle = await desk.start_short(agent, keep_open=True)
    wait = await parked(handle)
    assert len(await desk.all_events(handle)) == 1
    first = await finish(wait.token, "by hand", client=desk.client, delivery_id="d")
    await desk.until_status(handle, "idle")
    while len(await desk.all_events(handle)) < 2:
        message = await handle.send("And now?")
        await message.answer()
    again = await finish(wait.token, "by hand", client=desk.client, delivery_id="d")
    assert again == first
    with pytest.raises(DeliveryRefused, match="Another delivery came first"):
        await finish(wait.token, "by hand", client=desk.client, delivery_id="other")


async def test_a_wait_goes_on_in_the_next_history(desk: Desk):
    agent = depot()
    await desk.open(agent, model=packs_once())
    handle = await desk.start_short(agent, keep_open=True)
    wait = await parked(handle)
    for number in range(12):  # each takes events, and none is answered before the call is
        await handle.send(f"Hello {number}")
    await true_in_the_end(lambda: in_later_history(desk, handle))
    [later] = await handle.pending_waits()
    assert later == wait
    await finish(wait.token, "by hand", client=desk.client)
    state = await desk.until_status(handle, "idle")
    assert state.final_output == "Packed by hand."


async def test_a_delivery_to_a_run_that_was_terminated_says_so(desk: Desk):
    agent = depot()
    await desk.open(agent, model=packs_once())
    handle = await desk.start(agent)
    wait = await parked(handle)
    await desk.workflow(handle).terminate("a test")
    with pytest.raises(RunClosed, match="terminated"):
        await finish(wait.token, "by hand", client=desk.client)


async def test_a_deadline_passes_while_no_worker_runs(desk: Desk):
    @function_tool
    async def pack(ctx: ToolContext[Any], order: str) -> Any:
        return ctx.wait_for("packed", timeout=timedelta(seconds=1), default="nobody")

    agent = Agent[Any](name="Depot", tools=[pack])
    worker = await desk.open(agent, model=packs_once())
    handle = await desk.start(agent)
    await desk.ever(handle, lambda state: state.status == "parked")
    await desk.close(worker)
    while "EVENT_TYPE_TIMER_FIRED" not in await desk.event_types(handle):  # noqa: ASYNC110  the server's
        await asyncio.sleep(0.05)
    await desk.open(agent, model=packs_once())
    assert (await desk.result(handle)).final_output == "Packed nobody."


async def test_a_parked_run_is_found_and_shown(desk: Desk):
    agent = depot()
    await desk.open(agent, model=packs_once())
    handle = await desk.start(agent)
    await parked(handle)
    view = await desk.workflow(handle).query("state")
    assert view["status"] == "parked"
    [shown] = view["parked"]
    assert (shown["tool"], shown["waits_for"]) == ("pack", "packed")
    assert shown["until"] is not None
    metadata = await metadata_of(desk, handle)
    assert "Waiting for `packed` since" in metadata.current_details


async def test_a_tool_may_wait_for_several_things_beside_each_other(desk: Desk):
    @function_tool
    async def pack(ctx: ToolContext[Any], order: str) -> str:
        async with asyncio.TaskGroup() as group:
            box = group.create_task(_awaited(ctx, "box"))
            label = group.create_task(_awaited(ctx, "label"))
        return f"{box.result()} and {label.result()}"

    agent = Agent[Any](name="Depot", tools=[pack])
    await desk.open(agent, model=packs_once())
    handle = await desk.start(agent)
    first = await parked(handle)
    other = {"box": "label", "label": "box"}[first.name]
    token = WaitAddress(handle.id, 0, 1, "c1", other).token
    await finish(token, f"a {other}", client=desk.client)
    await finish(first.token, f"a {first.name}", client=desk.client)
    assert (await desk.result(handle)).final_output == "Packed a box and a label."


async def _awaited(ctx: ToolContext[Any], name: str) -> str:
    return await ctx.wait_for(name, timeout=TWO_DAYS, schema=str)


async def test_an_agent_sleeps_and_a_message_wakes_it(desk: Desk):
    def reply(request: ModelRequest) -> Any:
        done = outputs(request)
        if "c1" not in done:
            return [call("sleep", "c1", minutes=0.002)]
        if "c2" not in done:
            return [call("sleep", "c2", minutes=60 * 24)]
        return say(f"You said {last_user_text(request)}.")

    agent = Agent[Any](name="Sleeper", tools=[sleep_tool()])
    await desk.open(agent, model=ScriptedModel(always=reply))
    handle = await desk.start(agent, keep_open=True)
    sleeps = {("c2", "parked")}
    await desk.until(
        handle, lambda state: bool(sleeps & {(one.call_id, one.status) for one in state.calls})
    )
    [wait] = await handle.pending_waits()
    assert wait.until is not None
    assert wait.until - wait.since == timedelta(days=1)
    message = await handle.send("wake up")
    assert (await message.answer()).final_output == "You said wake up."


class Farm:
    """A system elsewhere that has to be asked, and that can be told to stop."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.cancelled: list[str] = []
        self.looks = 0
        self.is_done = False

    def start(self, key: str) -> str:
        """Begin a job."""
        self.started.append(key)
        return f"job-{len(self.started)}"

    async def looked(self, times: int) -> bool:
        """Whether the tool has looked so often."""
        return self.looks >= times

    async def was_told_to_stop(self) -> bool:
        """Whether the first job was cancelled, once."""
        return self.cancelled == ["job-1"]

    def renderer(self) -> Agent[Any]:
        """Return an agent whose tool looks for itself, and cleans up."""

        @function_tool
        async def render(ctx: ToolContext[Any]) -> str:
            """Render a film."""
            job = await ctx.once("job", self.start, ctx.idempotency_key)
            self.looks += 1
            if self.is_done:
                return f"{job} is done"
            try:
                film = await ctx.wait_for("film", every=SECOND, timeout=TWO_DAYS, cleanup=True)
            except WaitDropped:
                self.cancelled.append(job)
                raise
            return f"{job} sent {film}"

        return Agent(name="Renderer", tools=[render])


SECOND = timedelta(seconds=1)


def renders_once() -> ScriptedModel:
    """Return a model that renders, and says that it has done so."""
    return ScriptedModel([call("render", "c1")], "Rendered.", "Never mind.")


async def test_a_tool_looks_for_itself_until_the_other_system_is_done(desk: Desk):
    farm, model = Farm(), renders_once()
    await desk.open(farm.renderer(), model=model)
    handle = await desk.start(farm.renderer())
    wait = await parked(handle)
    await true_in_the_end(lambda: farm.looked(3))
    assert [one.since for one in await handle.pending_waits()] == [wait.since]
    farm.is_done = True
    assert (await desk.result(handle)).final_output == "Rendered."
    assert list(outputs(model.requests[1]).values()) == ["job-1 is done"]
    assert len(farm.started) == 1


@pytest.mark.replayed
async def test_a_tool_ends_what_it_began_when_its_run_is_cancelled(desk: Desk):
    farm = Farm()
    await desk.open(farm.renderer(), model=renders_once())
    handle = await desk.start(farm.renderer())
    await parked(handle)
    await handle.cancel()
    with pytest.raises(RunCancelled):
        await handle.result()
    assert farm.cancelled == ["job-1"]
    assert len(farm.started) == 1
