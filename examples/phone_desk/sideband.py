"""Phone calls over SIP: accept a call at the provider, and attach a line to it.

The provider sends the webhook `realtime.call.incoming` for each call to your number. The sound
goes from the phone to the provider and back; this process only sees the transcript and the tool
calls. If it dies, `answer` in any other process goes on with the same call.
"""

import asyncio
from typing import Any

from openai import AsyncOpenAI
from support_desk.context import Customer
from temporalio.client import Client

from outlast.realtime import RealtimeModelConfig, RealtimeRunner
from phone_desk.agents import reception


async def answer(client: Client, call_id: str) -> None:
    """Keep the line of a call until one side hangs up.

    Args:
        client: connected to Temporal, where `outlast worker phone_desk.app` runs the tools.
        call_id: the provider's id of the call.
    """
    runner = RealtimeRunner.using(client=client)(reception, label="phone call")
    config = RealtimeModelConfig(call_id=call_id)
    async with await runner.run(
        id=f"call-{call_id}", context=Customer(), model_config=config
    ) as session:
        async for event in session:
            if event.type == "error":
                print(f"{call_id}: {event.error}")


async def on_webhook(event: dict[str, Any], client: Client, provider: AsyncOpenAI) -> None:
    """Take a verified webhook event: accept the call, then answer it."""
    if event["type"] == "realtime.call.incoming":
        call_id: str = event["data"]["call_id"]
        await provider.realtime.calls.accept(call_id, type="realtime", model="gpt-realtime-2.1")
        await answer(client, call_id)


async def resume(call_ids: list[str]) -> None:
    """Go on with the calls of a process that died."""
    client = await Client.connect("localhost:7233")
    await asyncio.gather(*(answer(client, call_id) for call_id in call_ids))
