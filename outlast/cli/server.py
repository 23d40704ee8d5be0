"""The Temporal server of a command: connecting, web UI links, ports, and workers."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from outlast.agents.errors import ServerUnavailable
from outlast.cli import terminal
from outlast.dev.data_dir import run_link
from outlast.edges.tasks import meanwhile

if TYPE_CHECKING:
    from temporalio.client import Client

    from outlast.client.handle import RunHandle

HINT_AFTER = timedelta(seconds=2)
"""A running worker has picked up a run well before this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A connection to a server."""

    client: "Client"
    ui_url: str | None

    def link(self, run_id: str) -> str | None:
        """Return the page of a run in the web UI, if there is one."""
        return run_link(self.ui_url, self.client.namespace, run_id) if self.ui_url else None


async def connect(address: str | None = None, namespace: str | None = None) -> Connection:
    """Connect to the named, configured, running embedded, or default server."""
    from outlast.client.transport.connection import connect as connect_client
    from outlast.client.transport.connection import is_configured, own_server_of

    is_named = address is not None or is_configured()
    client = await (
        _connect_named(address, namespace) if is_named else connect_client(None, namespace)
    )
    own = own_server_of(client)
    return Connection(client=client, ui_url=own.ui_url if own is not None else None)


async def _connect_named(address: str | None, namespace: str | None) -> "Client":
    from temporalio.envconfig import ClientConfig

    from outlast.client.transport.connection import DEFAULT_ADDRESS
    from outlast.client.transport.connection import connect as connect_client

    try:
        return await connect_client(address, namespace)
    except ServerUnavailable as error:
        configured = ClientConfig.load_client_connect_config().get("target_host")
        where = address or configured or DEFAULT_ADDRESS
        if await asyncio.to_thread(answers, where):
            raise
        raise ServerUnavailable(
            f"No Temporal server answers at {where}. Start one there, or set your server's address with "
            "--address or TEMPORAL_ADDRESS; `outlast dev` starts one on this machine."
        ) from error


def answers(address: str) -> bool:
    """Whether `host:port` accepts connections within a second."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=1):
            return True
    except (OSError, ValueError):
        return False


async def pollers(client: "Client", task_queue: str) -> list[str]:
    """Return the workers that poll a task queue; a killed one is listed for about a minute."""
    from outlast.client.transport import pollers

    return await pollers.pollers(client, task_queue)


@asynccontextmanager
async def hint_without_worker(
    client: "Client", task_queue: str, console: terminal.Screen
) -> AsyncGenerator[None]:
    """Print a hint if the block takes long and no worker polls the task queue."""
    from temporalio.service import RPCError

    from outlast.views.trouble import without_worker

    async def warn() -> None:
        await asyncio.sleep(HINT_AFTER.total_seconds())
        with suppress(RPCError):
            if not await pollers(client, task_queue):
                terminal.say(console, without_worker(task_queue))

    with meanwhile(warn()):
        yield


@asynccontextmanager
async def waiting_for_worker(handle: "RunHandle", text: str) -> AsyncGenerator[terminal.Waiting]:
    """Show a spinner while the block runs, and a hint if no worker polls the run's task queue."""
    console, queue = terminal.err(), (await handle.check()).task_queue
    async with (
        terminal.waiting(console, text) as spinner,
        hint_without_worker(handle.client, queue, console),
    ):
        yield spinner
