"""A workflow of a shop's own, which knows nothing of agents."""

from dataclasses import dataclass
from datetime import timedelta

from temporalio import activity, workflow


@dataclass
class Shipment:
    """A parcel that somebody has collected."""

    order: str
    tracking: str


@activity.defn
async def pack(order: str) -> str:
    """Pack an order, and return the number of the parcel."""
    return f"P-{order}"


@workflow.defn
class ShipOrder:
    """Ships an order: packs it, and waits until the courier has it."""

    def __init__(self) -> None:
        self._tracking = ""

    @workflow.run
    async def run(self, order: str, days: int = 3) -> Shipment:
        """Ship an order. It takes until the courier has collected the parcel.

        Args:
            order: the number of the order, such as A-42.
            days: how long the courier may take.
        """
        parcel = await workflow.execute_activity(
            pack, order, start_to_close_timeout=timedelta(minutes=1)
        )
        try:
            await workflow.wait_condition(
                lambda: bool(self._tracking), timeout=timedelta(days=days)
            )
        except TimeoutError:
            return Shipment(order=order, tracking="")
        return Shipment(order=order, tracking=f"{parcel}-{self._tracking}")

    @workflow.signal
    def collected(self, tracking: str) -> None:
        """The courier has the parcel."""
        self._tracking = tracking
