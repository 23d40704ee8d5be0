"""Clients find the identity key of an embedded server's project, also while the server restarts."""

import asyncio
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.service import RPCError

from outlast.dev import EmbeddedServer
from outlast.temporal.proofs import identity_keys

PATIENCE_SECONDS = 60


@pytest.mark.full
async def test_a_client_that_asked_during_an_outage_finds_the_key_after_it(tmp_path: Path):
    data_dir = tmp_path / "server"
    async with EmbeddedServer(data_dir=data_dir, ui_port=None) as server:
        port = int(server.address.rpartition(":")[2])
        client = await Client.connect(server.address)
    with pytest.raises(RPCError):
        await identity_keys(client)
    async with EmbeddedServer(data_dir=data_dir, port=port, ui_port=None):
        keys = await identity_keys(client)
    assert keys.signing is not None


async def test_a_client_waits_until_a_restarted_server_has_written_its_address(tmp_path: Path):
    data_dir = tmp_path / "server"
    async with EmbeddedServer(data_dir=data_dir, ui_port=None) as server:
        client = await Client.connect(server.address)
        hidden = (data_dir / "server.json").rename(tmp_path / "server.json")
        asking = asyncio.create_task(identity_keys(client))
        done, _ = await asyncio.wait({asking}, timeout=0.5)
        assert not done
        hidden.rename(data_dir / "server.json")
        keys = await asyncio.wait_for(asking, PATIENCE_SECONDS)
    assert keys.signing is not None
