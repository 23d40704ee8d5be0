"""Which Temporal server a command talks to.

Owns: the order in which places are looked at, and what to say when nobody answers. Must not know:
what is asked of the server.
"""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from outlast.agents.errors import ServerUnavailable
from outlast.cli import ports
from outlast.dev.data_dir import default_blob_dir, default_data_dir, running_server

if TYPE_CHECKING:
    from temporalio.client import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A server that answers.

    Attributes:
        client: connected to it.
        ui_url: its web UI, where we know of one.
    """

    client: "Client"
    ui_url: str | None

    def link(self, run_id: str) -> str | None:
        """Return where a run is seen in the web UI."""
        return run_link(self.ui_url, self.client.namespace, run_id) if self.ui_url else None


def run_link(ui_url: str, namespace: str, run_id: str) -> str:
    """Return the page of a run in Temporal's web UI."""
    return f"{ui_url}/namespaces/{quote(namespace, safe='')}/workflows/{quote(run_id, safe='')}"


async def connect(address: str | None = None, namespace: str | None = None) -> Connection:
    """Connect to the server that is named, configured, embedded and running, or usual.

    Args:
        address: host and port, as given on the command line.
        namespace: as given on the command line.

    Raises:
        ServerUnavailable: nobody answers.
        UserError: Temporal's configuration cannot be read.
    """
    from outlast.client.connection import DEFAULT_ADDRESS, is_configured
    from outlast.client.connection import connect as connect_client

    embedded = running_server(default_data_dir())
    if address is not None or is_configured():
        client = await _connect_named(address, namespace)
    elif embedded is not None:
        client = await connect_client(embedded.address, namespace or embedded.namespace)
    else:
        try:
            client = await connect_client(None, namespace)
        except ServerUnavailable as error:
            raise ServerUnavailable(
                f"No Temporal server is running here or at {DEFAULT_ADDRESS}, and none is "
                "configured. Start one with `outlast dev`, or say where yours is with --address or "
                "TEMPORAL_ADDRESS."
            ) from error
    at_home = embedded is not None and client.service_client.config.target_host == embedded.address
    if at_home:
        from outlast.blobs import use_local_store

        use_local_store(client, default_blob_dir())
    return Connection(client=client, ui_url=embedded.ui_url if embedded and at_home else None)


async def _connect_named(address: str | None, namespace: str | None) -> "Client":
    """Connect where somebody has said; what a server itself answers is left in its own words."""
    from temporalio.envconfig import ClientConfig

    from outlast.client.connection import DEFAULT_ADDRESS
    from outlast.client.connection import connect as connect_client

    try:
        return await connect_client(address, namespace)
    except ServerUnavailable as error:
        configured = ClientConfig.load_client_connect_config().get("target_host")
        where = address or configured or DEFAULT_ADDRESS
        if await asyncio.to_thread(ports.answers, where):
            raise
        raise ServerUnavailable(
            f"Nobody answers at {where}. Start a Temporal server there, or say where yours is with "
            "--address or TEMPORAL_ADDRESS; `outlast dev` starts one on this machine."
        ) from error
