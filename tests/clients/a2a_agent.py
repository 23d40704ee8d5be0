"""An agent of somebody else, made with the `a2a-sdk`, as a process of its own.

    python -m tests.clients.a2a_agent PORT HOME

    now SOMETHING       answers with the same words
    when NAME           answers with the content of the file NAME in HOME, once it is there
    ask SOMETHING       asks that, and answers with what it is told

Its ledger, the file `ledger` in HOME, has a line for each message that began something, and for each
task that was cancelled.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import a2a_pb2 as pb
from starlette.applications import Starlette


class Executor(AgentExecutor):
    """Does what its messages say."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def _note(self, line: str) -> None:
        with (self._home / "ledger").open("a") as ledger:
            ledger.write(f"{line}\n")

    async def execute(self, context: Any, event_queue: Any) -> None:
        """Answer a message."""
        text, task = context.get_user_input(), context.current_task
        self._note(text)
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        if task is None:
            status = pb.TaskStatus(state=pb.TASK_STATE_SUBMITTED)
            begun = pb.Task(id=context.task_id, context_id=context.context_id, status=status)
            await event_queue.enqueue_event(begun)
        await updater.start_work()
        what, _, rest = text.partition(" ")
        if task is None and what == "ask":
            await updater.requires_input(updater.new_agent_message([pb.Part(text=rest)]))
            return
        if what == "when":
            while not (self._home / rest).exists():  # noqa: ASYNC110  another process writes it
                await asyncio.sleep(0.05)
            rest = (self._home / rest).read_text()
        await updater.add_artifact([pb.Part(text=text if task else rest)])
        await updater.complete()

    async def cancel(self, context: Any, event_queue: Any) -> None:
        """Note that a task was cancelled."""
        self._note("cancelled")
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


async def main(port: str, home: str) -> None:
    """Serve until the process is killed."""
    url = f"http://127.0.0.1:{port}"
    card = pb.AgentCard(
        name="Courier",
        description="Carries words.",
        version="1",
        supported_interfaces=[
            pb.AgentInterface(url=f"{url}/rpc", protocol_binding="JSONRPC", protocol_version="1.0")
        ],
        capabilities=pb.AgentCapabilities(streaming=True, push_notifications=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[pb.AgentSkill(id="carry", name="Carry", description="Carries.", tags=["words"])],
    )
    store = InMemoryPushNotificationConfigStore()
    handler = DefaultRequestHandler(
        agent_executor=Executor(Path(home)),
        task_store=InMemoryTaskStore(),
        agent_card=card,
        push_config_store=store,
        push_sender=BasePushNotificationSender(httpx.AsyncClient(), store),
    )
    routes = [*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/rpc")]
    config = uvicorn.Config(
        Starlette(routes=routes), host="127.0.0.1", port=int(port), log_level="warning"
    )
    await uvicorn.Server(config).serve()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
