"""The effect that CONTRIBUTING.md adds: an answer is logged, in memory and on a server."""

import asyncio
import logging
import sys

from temporalio.client import Client

from outlast import Agent, Runner
from outlast.testing import ScriptedModel, run_in_memory
from outlast.worker import AgentWorker

agent = Agent(name="Clerk")
logged: list[str] = []


class Listener(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        logged.append(record.getMessage())


async def main() -> None:
    logging.getLogger("outlast").addHandler(Listener(logging.WARNING))
    await run_in_memory(agent, "Hello", model=ScriptedModel("In memory."))
    assert "in-memory: Clerk answered 'In memory.'" in logged, logged

    client = await Client.connect(sys.argv[1])
    model = ScriptedModel("On a server.")
    async with AgentWorker(client, agents=[agent], task_queue="new-effect", model_provider=model):
        handle = await Runner.start(agent, "Hello", client=client, task_queue="new-effect")
        await handle.result()
    assert f"{handle.id}: Clerk answered 'On a server.'" in logged, logged
    history = await client.get_workflow_handle(handle.id).fetch_history()
    activities = [
        event.activity_task_scheduled_event_attributes.activity_type.name
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    assert activities == ["call_model", "log_answer"], activities


asyncio.run(main())
