"""The Temporal server of tests that also run on other servers than the embedded one.

`OUTLAST_TEST_ADDRESS=host:port` names a server to test on; without it, a test gets an embedded one.
"""

import asyncio
import os
import secrets
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from outlast.contract import names
from outlast.dev import EmbeddedServer, running_server, server_process
from outlast.temporal.visibility.search_attributes import (
    ensure_search_attributes,
    lacks_search_attributes,
)

NAMED_ADDRESS: Final = os.environ.get("OUTLAST_TEST_ADDRESS")
"""Read once, since tests of the command line clear the environment."""

DELETE_SOON: Final = {
    f"history.{queue}ProcessorUpdateAckInterval": '"1s"'
    for queue in ("transfer", "timer", "visibility")
}
"""A server deletes an execution when its queues are known to be past its end, after 30 s by default."""

PATIENCE_SECONDS = 60
LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalServer:
    """A namespace of a server that runs.

    Attributes:
        address: host and port.
        namespace: the tests' own one where they need that, else `default`.
    """

    address: str
    namespace: str

    async def connect(self, **options: Any) -> Client:
        """Return a new client."""
        return await Client.connect(self.address, namespace=self.namespace, **options)


@asynccontextmanager
async def server_for_tests(
    search_attributes: Mapping[str, str] = names.SEARCH_ATTRIBUTES, *, shared: bool = True
) -> AsyncGenerator[TemporalServer]:
    """Start an embedded server, or prepare a namespace of the one that the environment names.

    Args:
        search_attributes: what the namespace has.
        shared: whether other tests may see it, so that `default` will do.
    """
    if NAMED_ADDRESS is None:
        server = EmbeddedServer(ui_port=None, search_attributes=search_attributes)
        await start_that_deletes_soon(server)
        try:
            yield TemporalServer(address=server.address, namespace="default")
        finally:
            await server.stop()
        return
    namespace = "default" if shared else f"outlast-test-{secrets.token_hex(4)}"
    server = TemporalServer(address=NAMED_ADDRESS, namespace=namespace)
    client = await server.connect()
    await _register(client)
    await until_searchable(client, search_attributes)
    yield server


async def new_namespace(
    address: str, search_attributes: Mapping[str, str] = names.SEARCH_ATTRIBUTES
) -> Client:
    """Return a client of a namespace that nobody else uses."""
    client = await Client.connect(address, namespace=f"outlast-test-{secrets.token_hex(4)}")
    await _register(client)
    await until_searchable(client, search_attributes)
    return client


async def start_that_deletes_soon(server: EmbeddedServer) -> None:
    """Start a server that deletes an execution when it is told to."""
    with patch.dict(server_process._DYNAMIC_CONFIG, DELETE_SOON):
        await server.start()


async def kill_and_start_again(server: EmbeddedServer, data_dir: Path) -> EmbeddedServer:
    """Kill a server with SIGKILL, and return another one on its database and at its address."""
    port = int(server.address.rpartition(":")[2])
    os.kill(server.info.pid, signal.SIGKILL)
    while running_server(data_dir) is not None:  # noqa: ASYNC110  another process makes it true
        await asyncio.sleep(0.02)
    await server.stop()
    again = EmbeddedServer(data_dir=data_dir, port=port, ui_port=None)
    await start_that_deletes_soon(again)
    return again


async def until_searchable(client: Client, search_attributes: Mapping[str, str]) -> None:
    """Add search attributes, and wait until searches know them: clusters take seconds."""
    if not search_attributes:
        return
    await ensure_search_attributes(client, search_attributes)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await lacks_search_attributes(client, search_attributes) is not False:  # noqa: ASYNC110  nothing announces it
            await asyncio.sleep(LOOK_SECONDS)


async def _register(client: Client) -> None:
    """Make the client's namespace where it is missing, and wait until every part has it."""
    retention = Duration()
    retention.FromTimedelta(timedelta(days=1))
    request = RegisterNamespaceRequest(
        namespace=client.namespace, workflow_execution_retention_period=retention
    )
    try:
        await client.workflow_service.register_namespace(request)
    except RPCError as error:
        if error.status is not RPCStatusCode.ALREADY_EXISTS:
            raise
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                await client.count_workflows("")
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise
                await asyncio.sleep(LOOK_SECONDS)
            else:
                return
