"""The pieces of the compose file without containers: PostgreSQL, and the Temporal server on it.

Needs Debian's PostgreSQL (`apt install postgresql`) and Go. The server and its schema tool are
built once into ~/.cache/outlast-bench, which takes four minutes of two cores. As root, PostgreSQL
runs as the user `postgres`.
"""

import asyncio
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

from outlast.contract import names
from outlast.temporal.visibility.search_attributes import (
    ensure_search_attributes,
    lacks_search_attributes,
)

VERSION = "v1.32.0"
CACHE = Path.home() / ".cache" / "outlast-bench"
ROOT = Path(__file__).resolve().parent.parent
DYNAMIC_CONFIG = ROOT / "docker" / "dynamic-config.yml"
HOST = "127.0.0.1"
SHARDS = 512
"""As in docker-compose.yml."""

PATIENCE_SECONDS = 120
_GRPC_PORTS = ("FRONTEND", "HISTORY", "MATCHING", "WORKER")


def lacking() -> str:
    """Return what this machine lacks for the cluster, in a sentence; empty if it lacks nothing."""
    try:
        postgres_tool("postgres")
    except FileNotFoundError as error:
        return str(error)
    if all((CACHE / VERSION / name).exists() for name in ("server", "sql")) or shutil.which("go"):
        return ""
    return "There is no Go here to build Temporal's server with: https://go.dev/dl"


class PostgresCluster:
    """PostgreSQL with its default settings, and a Temporal server with those of the compose file.

    Attributes:
        address: the server's, for clients.
        server_pid: the process of the Temporal server.
        postgres_pid: the first process of PostgreSQL; the others are its children.
    """

    def __init__(self) -> None:
        self.address = ""
        self.server_pid = 0
        self.postgres_pid = 0
        self._home = Path(tempfile.mkdtemp(prefix="outlast-cluster-"))
        self._database_port = 0
        self._postgres: subprocess.Popen[bytes] | None = None
        self._server: subprocess.Popen[bytes] | None = None

    async def __aenter__(self) -> Self:
        try:
            await asyncio.to_thread(self._start)
            await self._prepare_namespace()
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self._stop)

    def query(self, sql: str) -> str:
        """Return the single value of a query to the database of the server."""
        command = [str(postgres_tool("psql")), "-h", HOST, "-p", str(self._database_port)]
        command += ["-U", "temporal", "-d", "temporal", "-Atc", sql]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.strip()

    async def snapshot(self) -> Path:
        """Copy the databases while the server works with them, as a backup does."""
        folder = self._home / f"snapshot-{time.monotonic_ns()}"
        folder.mkdir(mode=0o700)
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        command = [str(postgres_tool("pg_basebackup")), "-D", str(folder), "-h", HOST]
        command += ["-p", str(self._database_port), "-U", "temporal", "-c", "fast", "-X", "stream"]
        copying = [*_as_postgres(), *command]
        await asyncio.to_thread(subprocess.run, copying, check=True, capture_output=True)
        return folder

    async def restore(self, snapshot: Path) -> None:
        """Lose the databases, and go on with those of a snapshot, at a new address."""
        await asyncio.to_thread(self._restore, snapshot)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                self._check_server()
                with suppress(RPCError, RuntimeError):
                    client = await Client.connect(self.address)
                    await client.count_workflows("")
                    return
                await asyncio.sleep(0.5)

    def _restore(self, snapshot: Path) -> None:
        self._stop_processes()
        shutil.rmtree(self._home / "postgres")
        copying = ["cp", "-a", str(snapshot), str(self._home / "postgres")]
        subprocess.run(copying, check=True)  # with its owner
        self._run_postgres()
        self._start_server(built("server"))

    def _start(self) -> None:
        binaries = [built(name) for name in ("server", "sql")]
        self._start_postgres()
        for database, schema in (("temporal", "temporal"), ("temporal_visibility", "visibility")):
            self._create_schema(binaries[1], database, schema)
        self._start_server(binaries[0])

    def _start_postgres(self) -> None:
        self._database_port = _free_ports(1)[0]
        data = self._home / "postgres"
        data.mkdir()
        if os.geteuid() == 0:
            self._home.chmod(0o755)
            shutil.chown(data, "postgres", "postgres")
        initdb = [str(postgres_tool("initdb")), "-D", str(data), "-U", "temporal", "-A", "trust"]
        subprocess.run([*_as_postgres(), *initdb, "-E", "UTF8"], check=True, capture_output=True)
        self._run_postgres()

    def _run_postgres(self) -> None:
        data = self._home / "postgres"
        command = [str(postgres_tool("postgres")), "-D", str(data), "-k", str(data)]
        command += ["-c", f"listen_addresses={HOST}", "-p", str(self._database_port)]
        with (self._home / "postgres.log").open("wb") as log:
            self._postgres = subprocess.Popen([*_as_postgres(), *command], stdout=log, stderr=log)
        _wait_for_port(self._database_port, self._home / "postgres.log", self._postgres)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while _state_in(data / "postmaster.pid") != "ready   ":
            if time.monotonic() > deadline:
                raise TimeoutError("PostgreSQL is not ready")
            time.sleep(0.05)
        self.postgres_pid = int((data / "postmaster.pid").read_text().split("\n")[0])

    def _create_schema(self, tool: Path, database: str, schema: str) -> None:
        common = [str(tool), "--plugin", "postgres12", "--endpoint", HOST]
        common += ["--port", str(self._database_port), "--user", "temporal", "--database", database]
        for step in (
            ["create-database"],
            ["setup-schema", "--version", "0.0"],
            ["update-schema", "--schema-name", f"postgresql/v12/{schema}"],
        ):
            subprocess.run([*common, *step], check=True, capture_output=True, timeout=120)

    def _start_server(self, binary: Path) -> None:
        ports = iter(_free_ports(2 * len(_GRPC_PORTS) + 1))
        environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("TEMPORAL_")},
            "DB": "postgres12",
            "DB_PORT": str(self._database_port),
            "POSTGRES_SEEDS": HOST,
            "POSTGRES_USER": "temporal",
            "POSTGRES_PWD": "",
            "DBNAME": "temporal",
            "VISIBILITY_DBNAME": "temporal_visibility",
            "NUM_HISTORY_SHARDS": str(SHARDS),
            "BIND_ON_IP": HOST,
            "DYNAMIC_CONFIG_FILE_PATH": str(DYNAMIC_CONFIG),
            "LOG_LEVEL": "warn",
            "FRONTEND_HTTP_PORT": str(next(ports)),
        }
        for service in _GRPC_PORTS:
            environment[f"{service}_GRPC_PORT"] = str(next(ports))
            environment[f"{service}_MEMBERSHIP_PORT"] = str(next(ports))
        port = int(environment["FRONTEND_GRPC_PORT"])
        log_path = self._home / "server.log"
        with log_path.open("wb") as log:
            self._server = subprocess.Popen(
                [str(binary), "start"], stdout=log, stderr=log, env=environment, cwd=self._home
            )
        _wait_for_port(port, log_path, self._server)
        self.server_pid = self._server.pid
        self.address = f"{HOST}:{port}"

    async def _prepare_namespace(self) -> None:
        """Create the namespace and the search attributes, and wait until every part has them."""
        retention = Duration()
        retention.FromTimedelta(timedelta(days=1))
        request = RegisterNamespaceRequest(
            namespace="default", workflow_execution_retention_period=retention
        )
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                self._check_server()
                with suppress(RPCError, RuntimeError):
                    client = await Client.connect(self.address)
                    await client.workflow_service.register_namespace(request)
                    break
                await asyncio.sleep(0.5)
            while True:
                with suppress(RPCError):
                    await client.count_workflows("")
                    break
                await asyncio.sleep(0.5)
            await ensure_search_attributes(client, names.SEARCH_ATTRIBUTES)
            while await lacks_search_attributes(client, names.SEARCH_ATTRIBUTES) is not False:  # noqa: ASYNC110  nothing announces it
                await asyncio.sleep(0.5)

    def _check_server(self) -> None:
        if self._server is not None and self._server.poll() is not None:
            log = (self._home / "server.log").read_text(errors="replace")
            raise ChildProcessError(f"the Temporal server ended: {log[-2000:]}")

    def _stop(self) -> None:
        self._stop_processes()
        shutil.rmtree(self._home, ignore_errors=True)

    def _stop_processes(self) -> None:
        if self._server is not None:
            self._server.terminate()
            _end(self._server)
        if self._postgres is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.postgres_pid or self._postgres.pid, signal.SIGINT)  # a fast shutdown
            _end(self._postgres)


def _state_in(file: Path) -> str:
    """Return what PostgreSQL says of itself; while it starts, there may be no file yet."""
    return (file.read_text().split("\n")[7:8] or [""])[0] if file.exists() else ""


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def built(name: str) -> Path:
    """Return a tool of the Temporal server, which is built if it is missing."""
    binary = CACHE / VERSION / name
    if not binary.exists():
        package = {"server": "cmd/server", "sql": "cmd/tools/sql"}[name]
        print(f"building Temporal's {name}: some minutes, once", file=sys.stderr)
        subprocess.run(
            ["go", "install", f"go.temporal.io/server/{package}@{VERSION}"],
            env={**os.environ, "GOBIN": str(binary.parent)},
            cwd=tempfile.gettempdir(),
            check=True,
        )
    return binary


def postgres_tool(name: str) -> Path:
    """Return a tool of the newest PostgreSQL on this machine."""
    found = sorted(
        Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3])
    )
    if found:
        return found[-1]
    on_path = shutil.which(name)
    if on_path is None:
        raise FileNotFoundError(f"There is no {name} here: apt install postgresql")
    return Path(on_path)


def _as_postgres() -> list[str]:
    """Return how a command is run as another user than root, whom PostgreSQL refuses."""
    return ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []


def _free_ports(count: int) -> list[int]:
    """Return ports below 32,768: the server keeps its own in a column of the type smallint."""
    found: list[int] = []
    for port in random.sample(range(20_000, 32_000), 1_000):
        with socket.socket() as probe, suppress(OSError):
            probe.bind((HOST, port))
            found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"there are no {count} free ports")


def _wait_for_port(port: int, log: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"it ended: {log.read_text(errors='replace')[-2000:]}")
        with suppress(OSError), socket.create_connection((HOST, port), timeout=1):
            return
        time.sleep(0.1)
    raise TimeoutError(f"nothing listens on port {port}: {log.read_text(errors='replace')[-2000:]}")
