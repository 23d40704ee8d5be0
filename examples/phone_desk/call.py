"""One call from beginning to end: `python -m phone_desk.call`, or with a key `--live`.

The caller asks for a refund that needs a person, and hangs up. The decision comes later, and the
answer is a text. Run it with `examples` as the working directory, or on `PYTHONPATH`.
"""

import argparse
import asyncio
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import timedelta

from support_desk.context import Customer

from outlast import Person, RunConfig
from outlast.realtime import RealtimeModelConfig, RealtimeRunner, RealtimeSession
from phone_desk.agents import reception
from phone_desk.offline import provider, writer
from phone_desk.sound import CHUNK_MS, hum


async def speak(session: RealtimeSession) -> None:
    """Send a sound as a microphone would."""
    for piece in hum():
        await session.send_audio(piece)
        await asyncio.sleep(CHUNK_MS / 1000 / 10)


async def listen(session: RealtimeSession, show: Callable[[str], None]) -> None:
    """Show what happens, until the call waits for a person and the agent has said so."""
    waits = False
    async for event in session:
        match event.type:
            case "handoff":
                show(f"({event.from_agent.name} hands over to {event.to_agent.name})")
            case "tool_start":
                show(f"({event.agent.name} uses {event.tool.name})")
            case "tool_approval_required":
                show(f"({event.tool.name} {event.arguments} waits for a person)")
                waits = True
                await session.send_message("Hello? Are you still there?")
            case "error":
                show(f"(error: {event.error})")
            case "agent_end" if waits and session.history[-1].type == "message":
                return
            case _:
                pass


async def main(*, live: bool = False, run_id: str = "call-42") -> None:
    """Make the call, decide, and read the answer."""
    async with AsyncExitStack() as stack:
        config, run_config = RealtimeModelConfig(), RunConfig()
        if not live:
            server = await stack.enter_async_context(provider())
            config = RealtimeModelConfig(url=server.url, api_key="none")
            run_config.model = writer()
        runner = RealtimeRunner(reception, label="phone call", notice_after=timedelta(seconds=8))
        session = await runner.run(
            id=run_id,
            context=Customer(),
            customer="cust-1001",
            model_config=config,
            run_config=run_config,
        )
        async with session:
            await speak(session)
            await asyncio.wait_for(listen(session, print), 60)
        print("(the caller hangs up)")

        handle = await RealtimeRunner.attach(run_id, agent=reception)
        for request in await handle.approvals():
            print(f"(ann approves {request.name})")
            await handle.approve(request, by=Person(subject="ann", groups=("billing",)))
        result = await handle.wait(lambda state: len(state.answers) > 0)
        print(f"By text: {result.final_output}")
        await handle.cancel("after_turn")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--live", action="store_true", help="use OpenAI's model")
    parser.add_argument("--id", default=f"call-{os.getpid()}")
    arguments = parser.parse_args()
    asyncio.run(main(live=arguments.live, run_id=arguments.id))
