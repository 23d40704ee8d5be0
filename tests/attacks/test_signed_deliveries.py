"""Deliveries to waits that need a proof, from somebody who reaches the Temporal server.

They know every token, and every proof that histories hold. They have no key that the workers trust.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.worker import Worker

from outlast.agents.agent import Agent
from outlast.agents.context.wait_address import WaitAddress
from outlast.agents.context.wrapper import ToolContext
from outlast.agents.tools.function_tool import function_tool
from outlast.client.audit import AuditRecord, audit_run
from outlast.client.deliveries import finish
from outlast.client.handle import RunHandle
from outlast.client.identity import sign
from outlast.contract import names, records
from outlast.contract.delivery_proofs import LONGEST_AGE_MS, signed_form
from outlast.contract.identity import (
    NO_KEYS,
    IdentityKey,
    Place,
    shared_key,
    signed,
)
from outlast.edges.clock import now_ms
from outlast.loop.actions import DeliverRecord
from outlast.loop.calls import Arrival
from outlast.loop.effects import RunTool
from outlast.temporal.proofs import ServerLineage, identity_keys
from outlast.testing import ScriptedModel, call
from outlast.views.run import loop_state
from tests.attacks.test_somebody_with_temporal import Foreign, workflow_of
from tests.workflow.desk import Desk

TWO_DAYS = timedelta(days=2)
PAID = {"paid": 500}


class Shop:
    """An agent whose tool ships an order when the bank has said that it is paid."""

    def __init__(self, at_work: asyncio.Event | None = None) -> None:
        self.shipped: list[Any] = []
        self.model = ScriptedModel([call("ship", "c1", order="7")], "Shipped.")

        @function_tool
        async def ship(ctx: ToolContext[Any], order: str) -> str:
            """Ship an order as soon as it is paid."""
            if at_work is not None:
                await at_work.wait()
            payment = await ctx.wait_for("payment", timeout=TWO_DAYS, signed=True)
            self.shipped.append(payment)
            return f"shipped {order}"

        self.agent = Agent[Any](name="Shop", tools=[ship])


async def parked(desk: Desk, shop: Shop) -> RunHandle:
    """Return a run that waits for the payment."""
    await desk.open(shop.agent, model=shop.model)
    handle = await desk.start(shop.agent)
    await desk.until_status(handle, "parked")
    return handle


def delivery(**fields: Any) -> DeliverRecord:
    """Return a delivery of somebody's own, for the call c1 of the first turn."""
    mine: dict[str, Any] = {
        "question": 0,
        "turn": 1,
        "call_id": "c1",
        "name": "payment",
        "value": PAID,
        "delivery_id": "mine",
    }
    return DeliverRecord(**{**mine, **fields})


async def refused(desk: Desk, handle: RunHandle, record: DeliverRecord) -> str:
    """Return why an update is refused."""
    with pytest.raises(WorkflowUpdateFailedError) as raised:
        await workflow_of(desk, handle).execute_update(names.DELIVER, records.write(record))
    return str(raised.value.cause)


async def records_of(handle: RunHandle) -> list[AuditRecord]:
    return list((await audit_run(handle.client, handle.id)).records)


async def test_a_client_with_a_key_delivers_and_the_audit_says_so(desk: Desk):
    shop = Shop()
    handle = await parked(desk, shop)
    [wait] = await handle.pending_waits()
    await finish(wait.token, PAID, client=desk.client, delivery_id="bank-1")
    await finish(wait.token, PAID, client=desk.client, delivery_id="bank-1")  # another proof
    await desk.result(handle)
    assert shop.shipped == [PAID]
    [one] = [one for one in await records_of(handle) if one.event == "delivered"]
    assert (one.delivery_id, one.verified, one.note) == ("bank-1", True, "")


async def test_without_a_proof_nothing_counts_before_or_while_the_call_waits(desk: Desk):
    at_work = asyncio.Event()
    shop = Shop(at_work)
    await desk.open(shop.agent, model=shop.model)
    handle = await desk.start(shop.agent)
    await desk.until(handle, lambda state: any(one.status == "running" for one in state.calls))
    workflow = workflow_of(desk, handle)
    await workflow.execute_update(names.DELIVER, records.write(delivery(delivery_id="early")))
    at_work.set()
    before = await desk.until_status(handle, "parked")
    assert before.receipts == ()
    for name in (None, "", "v2.nonsense"):
        await workflow.signal(names.DELIVER, records.write(delivery(delivery_id="s", proof=name)))
    assert "takes signed deliveries only" in await refused(desk, handle, delivery())
    assert "its proof cannot be read" in await refused(desk, handle, delivery(proof="x"))
    state = await desk.until(handle, lambda state: len(state.ignored) == 4)
    assert {one.why.partition(":")[0] for one in state.ignored} == {
        "The wait for 'payment' takes signed deliveries only"
    }
    assert [one.what for one in state.ignored] == ["delivery early", *["delivery s"] * 3]
    assert (state.status, shop.shipped) == ("parked", [])
    await finish(WaitAddress(handle.id, 0, 1, "c1", "payment").token, PAID, client=desk.client)
    await desk.result(handle)
    assert shop.shipped == [PAID]


Forge = Callable[[Desk, RunHandle], Awaitable[DeliverRecord]]


def changed(**fields: Any) -> Forge:
    """Return a forger: takes a genuine delivery, and changes it."""

    async def forge(desk: Desk, handle: RunHandle) -> DeliverRecord:
        genuine = signed_form(delivery(**fields))
        genuine = await sign(desk.client, genuine, handle.id, action=names.DELIVER)
        return delivery(proof=genuine.proof)

    return forge


async def of_a_decision(desk: Desk, handle: RunHandle) -> DeliverRecord:
    of_decision = await sign(desk.client, signed_form(delivery()), handle.id, action="decide")
    return delivery(proof=of_decision.proof)


async def signed_here(
    desk: Desk,
    handle: RunHandle,
    *,
    key: IdentityKey | None = None,
    ago_ms: int = 0,
    **place: str,
) -> DeliverRecord:
    """Return a delivery for a place, signed with the key of the project or another one."""
    own = (await identity_keys(desk.client)).signing
    assert own is not None
    chain_id = (await ServerLineage(desk.client)(handle.id)).chain_id
    here = {"namespace": desk.client.namespace, "chain_id": chain_id, "run_id": handle.id}
    form = signed(
        signed_form(delivery()),
        Place(**{**here, **place}),
        key or own,
        action=names.DELIVER,
        at_ms=now_ms() - ago_ms,
    )
    return delivery(proof=form.proof)


OTHERS = shared_key(bytes(range(100, 132)))
LONG_AGO = LONGEST_AGE_MS + 3_600_000
FORGED = {
    "another run": (partial(signed_here, run_id="another"), "its signature is for something else"),
    "an earlier run": (partial(signed_here, chain_id="an"), "its signature is for something else"),
    "a namespace": (partial(signed_here, namespace="x"), "its signature is for something else"),
    "another call": (changed(call_id="c2"), "its signature is for something else"),
    "another turn": (changed(turn=2), "its signature is for something else"),
    "another wait": (changed(name="refund"), "its signature is for something else"),
    "another value": (changed(value={"paid": 1}), "its signature is for something else"),
    "another delivery": (changed(delivery_id="bank-1"), "its signature is for something else"),
    "a decision": (of_a_decision, "its signature is for something else"),
    "a stranger": (partial(signed_here, key=OTHERS), "which this worker does not trust"),
    "long ago": (partial(signed_here, ago_ms=LONG_AGO), "its signature is too old"),
}


async def test_proofs_of_anything_else_do_not_count(desk: Desk):
    """An update is refused; a signal makes the tool's worker look, and the wait goes on."""
    shop = Shop()
    handle = await parked(desk, shop)
    [before] = await handle.pending_waits()
    for number, (forge, why) in enumerate(FORGED.values(), start=1):
        forged = await forge(desk, handle)
        assert why in await refused(desk, handle, forged)
        await desk.workflow(handle).signal(names.DELIVER, records.write(forged))
        state = await desk.until(
            handle,
            lambda state, seen=number: len(state.ignored) == seen and state.status == "parked",
        )
        assert why in state.ignored[-1].why
        assert (state.receipts, shop.shipped) == ((), [])
    [after] = await handle.pending_waits()
    assert (after.since, after.until) == (before.since, before.until), "no more time"
    await finish(before.token, PAID, client=desk.client)
    await desk.result(handle)
    assert shop.shipped == [PAID]
    told = [one for one in await records_of(handle) if one.event in {"delivered", "ignored"}]
    assert [one.verified for one in told if one.event == "delivered"][-1] is True
    assert sum(one.event == "ignored" for one in told) == len(FORGED)


async def test_the_server_keeps_a_signed_delivery_and_the_worker_checks_it(desk: Desk):
    shop = Shop()
    worker = await desk.open(shop.agent, model=shop.model)
    handle = await desk.start(shop.agent)
    await desk.until_status(handle, "parked")
    [wait] = await handle.pending_waits()
    await desk.close(worker)
    kept = await finish(wait.token, PAID, client=desk.client, patience=timedelta(milliseconds=200))
    assert kept.at is None
    await desk.open(shop.agent, model=shop.model)
    await desk.result(handle)
    assert shop.shipped == [PAID]
    [one] = [one for one in await records_of(handle) if one.event == "delivered"]
    assert one.verified is None
    assert "a worker checks before the tool reads the value" in one.note


async def test_a_workflow_of_somebodys_own_ships_nothing(desk: Desk):
    """Somebody's own workflow, with a proof of another run or a forged time-out, gets nothing shipped."""
    shop = Shop()
    handle = await parked(desk, shop)
    [wait] = await handle.pending_waits()
    genuine = await changed()(desk, handle)
    await finish(wait.token, PAID, client=desk.client)
    await desk.result(handle)
    queue = f"{desk.queue}-foreign"
    arrivals = (
        Arrival(name="payment", at_ms=now_ms(), value=PAID, delivery_id="mine"),
        Arrival(
            name="payment", at_ms=now_ms(), value=PAID, delivery_id="mine", proof=genuine.proof
        ),
        Arrival(name="payment", at_ms=now_ms(), value=PAID, source="ann"),
        Arrival(name="payment", at_ms=now_ms(), value=PAID, is_default=True),
    )
    results: list[Any] = []
    async with Worker(desk.client, task_queue=queue, workflows=[Foreign]):
        for arrival in arrivals:
            effect = RunTool(
                effect=1,
                agent="Shop",
                run_id=handle.id,
                turn=1,
                name="ship",
                call_id="c1",
                arguments='{"order": "7"}',
                arrived=(arrival,),
            )
            found: Any = await desk.client.execute_workflow(
                Foreign.run,
                args=[desk.queue, "tool:ship", records.write(effect)],
                id=f"{handle.id}-foreign-{time.time_ns()}",
                task_queue=queue,
            )
            results.append(found)
    assert shop.shipped == [PAID], "the genuine one"
    assert [one["wait"]["name"] for one in results[:3]] == ["payment"] * 3
    assert all("does not count" in one["unproven"] for one in results[:3])
    assert "Nothing came for 'payment' in time" in results[3]["output"]


async def test_a_carried_state_of_somebodys_own_ships_nothing(desk: Desk):
    shop = Shop()
    handle = await parked(desk, shop)
    state = loop_state(await handle.state())
    (waiting,) = state.calls
    arrival = Arrival(name="payment", at_ms=now_ms(), value=PAID, delivery_id="mine", proof="x")
    effect = RunTool(
        effect=state.next_effect,
        agent="Shop",
        run_id=state.run_id,
        turn=1,
        name="ship",
        call_id="c1",
        arguments='{"order": "7"}',
        policy=waiting.plan.policy,
        arrived=(arrival,),
    )
    running = replace(
        waiting, status="running", parked=None, effect=state.next_effect, arrived=(arrival,)
    )
    forged = replace(state, calls=(running,), pending=(effect,), next_effect=state.next_effect + 1)
    started = await desk.start_raw(
        records.write(records.RunInput(agent="Shop", carried=records.write_state(forged)))
    )
    mine = RunHandle(desk.client, started.id)
    seen = await desk.until_status(mine, "parked")
    assert "its proof cannot be read" in seen.ignored[-1].why
    assert shop.shipped == []
    for one in (mine, handle):
        await one.cancel()


async def test_a_worker_without_a_key_waits_for_no_signed_delivery(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    async def no_keys(_: Any) -> Any:
        return NO_KEYS

    monkeypatch.setattr("outlast.temporal.proofs.identity_keys", no_keys)
    shop = Shop()
    await desk.open(shop.agent, model=shop.model)
    handle = await desk.start(shop.agent)
    await desk.result(handle)
    assert "this worker has no identity key to check deliveries" in caplog.text
    assert shop.shipped == []
