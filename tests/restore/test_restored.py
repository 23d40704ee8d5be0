"""A server is restored from a snapshot, and the archive is ahead of it."""

import json
import shutil
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import pytest
from temporalio.client import Client

from benchmarks.postgres_cluster import PostgresCluster
from outlast.archive import Archive
from outlast.contract import names
from outlast.dev import EmbeddedServer, server_process
from tests.restore import story as told
from tests.restore.story import Ledger, Place, Story
from tests.restore.verdict import check_archive, check_comparison, check_ledger
from tests.servers import DELETE_SOON
from tests.unit.sessions.postgres import programs

EVERY = timedelta(milliseconds=500)


class Embedded:
    """The development server, which stops while its database is copied."""

    def __init__(self, folder: Path) -> None:
        self._data, self._folder = folder / "server", folder
        self._port = 0
        self._server = self._made()

    def _made(self) -> EmbeddedServer:
        return EmbeddedServer(
            data_dir=self._data,
            port=self._port,
            ui_port=None,
            search_attributes=names.SEARCH_ATTRIBUTES,
        )

    async def start(self) -> None:
        """Start it, at the same port as before."""
        self._server = self._made()
        with patch.dict(server_process._DYNAMIC_CONFIG, DELETE_SOON):
            await self._server.start()
        self._port = int(self._server.address.rpartition(":")[2])

    async def stop(self) -> None:
        """Stop it."""
        await self._server.stop()

    async def connect(self) -> Client:
        """Return a client."""
        return await Client.connect(self._server.address)

    async def snapshot(self) -> Path:
        """Copy the database."""
        await self.stop()
        shutil.copytree(self._data, self._folder / "snapshot")
        await self.start()
        return self._folder / "snapshot"

    async def restore(self, snapshot: Path) -> None:
        """Go on with the copy."""
        await self.stop()
        shutil.rmtree(self._data)
        shutil.copytree(snapshot, self._data)
        await self.start()


class Postgres(PostgresCluster):
    """The Temporal server on PostgreSQL, which works on while it is copied."""

    async def connect(self) -> Client:
        """Return a client."""
        return await Client.connect(self.address)


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[Embedded]:
    server = Embedded(tmp_path)
    await server.start()
    yield server
    await server.stop()


async def tell(place: Place, archive: Archive, scale: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tell the story on a server, and judge what is left of it."""
    monkeypatch.setattr(told, "LEDGER", Ledger())
    story = Story(place, archive, scale)
    try:
        await story.open()
        snapshot = await story.before()
        await story.after()
        await story.lose_everything(snapshot)
        check_comparison(story)
        await story.again()
        figures = check_ledger(story)
        await check_archive(story)
    finally:
        await story.close()
    sys.stdout.write(json.dumps({"scale": scale, "lost": len(story.comparison.lost), **figures}))


@pytest.mark.full
@pytest.mark.timeout(300)
async def test_a_restored_development_server(
    embedded: Embedded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    await tell(embedded, Archive(tmp_path / "archive", every=EVERY), 2, monkeypatch)


@pytest.mark.full
@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.skipif(programs() is None or shutil.which("go") is None, reason="no PostgreSQL or Go")
async def test_a_restored_server_on_postgres(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with Postgres() as cluster:
        await tell(cluster, Archive(tmp_path / "archive", every=EVERY), 40, monkeypatch)
