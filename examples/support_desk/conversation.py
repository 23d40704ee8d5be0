"""Opens a conversation, as the shop's application does for a customer who is signed in.

python -m support_desk.conversation support-42 cust-1001 "Where is my order A-17?"
"""

import asyncio
import sys

from outlast import RunHandle, Runner
from outlast.client import connect
from support_desk.context import Customer
from support_desk.policies import run_config


async def start(runner: type[Runner], run_id: str, customer_id: str, text: str) -> RunHandle:
    """Start a conversation with a customer's first message; workers carry it."""
    return await runner.start(
        "Triage",
        text,
        id=run_id,
        keep_open=True,
        context=Customer(customer_id=customer_id),
        customer=customer_id,  # who never decides about their own refund
        run_config=run_config(),
    )


async def main(run_id: str, customer_id: str, text: str) -> None:
    """Start a conversation, and show the answer, or what waits for a person."""
    handle = await start(Runner.using(client=await connect()), run_id, customer_id, text)
    result = await handle.wait_for_people()
    for item in result.interruptions:
        print(f"{item.request.id} waits for a person: {item.tool_name} {item.arguments}")
    if not result.interruptions:
        print(result.final_output)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
