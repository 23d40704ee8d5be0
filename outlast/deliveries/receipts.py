"""What a run has recorded about a delivery that came before."""

from datetime import UTC, datetime

from outlast.agents.context.wait_address import WaitAddress
from outlast.agents.errors import DeliveryRefused
from outlast.client.deliveries import DeliveryReceipt, pending_waits
from outlast.client.handle import RunHandle
from outlast.views.run import loop_state


async def known_receipt(
    handle: RunHandle, address: WaitAddress, delivery_id: str
) -> DeliveryReceipt | None:
    """Return the receipt of a delivery that a run, open or ended, has taken; None for none."""
    wait = (address.question, address.turn, address.call_id, address.name, delivery_id)
    for one in loop_state(await handle.state()).receipts:
        if (one.question, one.turn, one.call_id, one.name, one.delivery_id) == wait:
            at = datetime.fromtimestamp(one.at_ms / 1000, UTC)
            return DeliveryReceipt(run_id=address.run_id, name=address.name, at=at)
    return None


async def token_of(handle: RunHandle, name: str, delivery_id: str) -> str:
    """Return the token of the one wait of a run that has a name.

    A delivery that came before has the token of its first time, whatever waits now.

    Raises:
        DeliveryRefused: nothing waits for it, or several calls do.
    """
    state = loop_state(await handle.state())
    for one in state.receipts:
        if (one.name, one.delivery_id) == (name, delivery_id):
            known = WaitAddress(state.run_id, one.question, one.turn, one.call_id, name)
            return known.token
    waits = [one for one in pending_waits(state) if one.name == name]
    if len(waits) != 1:
        found = "No call waits" if not waits else f"{len(waits)} calls wait"
        raise DeliveryRefused(
            f"{found} for {name!r} in the run {handle.id}. Deliver by the token of the wait."
        )
    return waits[0].token
