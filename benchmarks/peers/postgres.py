"""A PostgreSQL server of its own, where the machine has one installed.

It does not wait for the disk (`fsync=off`), as the Temporal server, whose database is in memory,
does not either.
"""

import asyncio
import os
import shutil
import socket
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from psycopg import AsyncConnection, OperationalError

START_SECONDS = 60
_USER = "postgres"


def find_postgres() -> Path | None:
    """Return the directory of PostgreSQL's programs; None if it is not installed."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    homes = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return homes[-1] if homes else None


class Postgres:
    """A server with its data in a temporary directory.

    Attributes:
        version: of the server.
    """

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._home = Path(tempfile.mkdtemp(prefix="benchmarks-postgres-"))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self._process: asyncio.subprocess.Process | None = None
        self.version = ""

    @property
    def pid(self) -> int:
        """The process id of the postmaster."""
        assert self._process is not None
        return self._process.pid

    def url(self, database: str) -> str:
        """Return the URL of a database."""
        return f"postgresql://{_USER}@127.0.0.1:{self._port}/{database}"

    async def __aenter__(self) -> Self:
        who: dict[str, Any] = {}
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            who = {"user": _USER, "group": _USER, "extra_groups": []}
            shutil.chown(self._home, _USER, _USER)
        data = self._home / "data"
        initdb = await asyncio.create_subprocess_exec(
            self._programs / "initdb", "--no-sync", "--auth=trust", f"--username={_USER}",
            "--encoding=UTF8", "--pgdata", data, stdout=asyncio.subprocess.DEVNULL,
            cwd=self._home, **who,
        )  # fmt: skip
        if await initdb.wait():
            raise RuntimeError("initdb failed; its error is printed above")
        with (self._home / "log").open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                self._programs / "postgres", "-D", data, "-p", str(self._port),
                "-k", self._home, "-c", "fsync=off", "-c", "listen_addresses=127.0.0.1",
                stdout=log, stderr=log, cwd=self._home, **who,
            )  # fmt: skip
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                [(self.version,)] = await self.query("postgres", "SHOW server_version")
            except OperationalError:
                if self._process.returncode is not None or time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.1)
            else:
                return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        shutil.rmtree(self._home, ignore_errors=True)

    async def create(self, database: str) -> str:
        """Create a database and return its URL."""
        await self.query("postgres", f'CREATE DATABASE "{database}"')
        return self.url(database)

    async def query(self, database: str, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""
        async with await AsyncConnection.connect(self.url(database), autocommit=True) as link:
            cursor = await link.execute(sql.encode(), values or None)
            return await cursor.fetchall() if cursor.description else []
