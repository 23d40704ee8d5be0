"""A workflow of the user's own as a tool: its worker stays as it is, on its own task queue."""

import asyncio
from datetime import timedelta

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker

from jobs.shipping import ShipOrder, pack
from outlast import Agent, Runner, workflow_tool
from outlast.client import connect


def shipping_id(order: str, days: int) -> str:
    """Return the id that the courier knows; an order is shipped once at a time."""
    del days
    return f"shipping-{order}"


ship_order = workflow_tool(
    ShipOrder.run,
    task_queue="shipping",
    id=shipping_id,
    timeout=timedelta(days=7),
)

desk = Agent(name="Shop", instructions="Ship what people have ordered.", tools=[ship_order])


async def collect(client: Client, order: str) -> None:
    """Tell the workflow that the courier has the parcel, as soon as there is such a workflow."""
    shipping = client.get_workflow_handle(f"shipping-{order}")
    while True:
        try:
            return await shipping.signal("collected", "today")
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            await asyncio.sleep(0.1)


async def main(run_id: str = "shop-1", order: str = "A-42") -> None:
    """Ship an order; the courier's signal goes to the workflow, as without agents."""
    client = await connect()
    async with Worker(client, task_queue="shipping", workflows=[ShipOrder], activities=[pack]):
        handle = await Runner.start(desk, f"Ship {order}, please.", id=run_id)
        await handle.wait(lambda state: state.status == "parked")
        [wait] = await handle.pending_waits()
        print(f"{wait.tool} waits for {wait.name}")
        await collect(client, order)
        print((await handle.result()).final_output)


if __name__ == "__main__":
    asyncio.run(main())
