"""A real Temporal server on this machine: started or joined, found ready, and stopped.

Owns: the life of a server and who may share it. Must not know: what runs on it.
"""

import asyncio
import fcntl
import os
import shutil
import socket
import tempfile
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Self

from outlast.agents.errors import ServerUnavailable, UserError
from outlast.dev.data_dir import DataDir, ServerInfo, open_lock, running_server, try_lock
from outlast.dev.server_process import HOST, POLL_SECONDS, ServerProcess, ServerSettings
from outlast.dev.temporal_cli import find_temporal_cli
from outlast.visibility.search_attributes import ensure_search_attributes

if TYPE_CHECKING:
    from temporalio.client import Client

__all__ = [
    "EmbeddedServer",
    "ServerInfo",
    "find_temporal_cli",
    "running_server",
]

_RETENTION = timedelta(days=30)
_PORT_TAKEN = "address already in use"


class EmbeddedServer:
    """A Temporal development server on loopback, with its web UI.

    With a data directory it keeps everything in a SQLite file there, also through SIGKILL, and is
    shared: a second `EmbeddedServer` on the same directory, in this process or another, joins the
    server that runs already. The server ends when the last process that started or joined it this
    way has stopped or died, even by SIGKILL. Workers and clients that only know the address do
    not count: a worker's death never ends it.

        async with EmbeddedServer(data_dir=default_data_dir()) as server:
            client = await Client.connect(server.address)

    Args:
        data_dir: where its database and log are; None keeps everything in memory, unshared.
        port: where clients connect; 0 takes a free one.
        ui_port: where its web UI is; 0 takes a free one, None runs without.
        namespace: is created when the server starts.
        search_attributes: types by name, such as `{"OutlastAgent": "Keyword"}`; made where they
            are missing, also in a database that exists.
        cli: the `temporal` tool; default is what `find_temporal_cli` finds.
        start_timeout: how long the server may take until it answers.
    """

    def __init__(
        self,
        *,
        data_dir: Path | None = None,
        port: int = 0,
        ui_port: int | None = 0,
        namespace: str = "default",
        search_attributes: Mapping[str, str] | None = None,
        cli: Path | None = None,
        start_timeout: timedelta = timedelta(seconds=60),
    ) -> None:
        self._data_dir = data_dir
        self._port = port
        self._ui_port = ui_port
        self._namespace = namespace
        self._search_attributes = dict(search_attributes or {})
        self._cli = cli
        self._start_timeout = start_timeout
        self._deadline = 0.0
        self._process: ServerProcess | None = None
        self._users: int | None = None
        self._info: ServerInfo | None = None

    @property
    def info(self) -> ServerInfo:
        """The server as `server.json` describes it.

        Raises:
            UserError: it is not started.
        """
        if self._info is None:
            raise UserError("The embedded server is not running: await its start() first.")
        return self._info

    @property
    def address(self) -> str:
        """Host and port for Temporal clients."""
        return self.info.address

    @property
    def ui_url(self) -> str | None:
        """Where the web UI is; None without one."""
        return self.info.ui_url

    @property
    def joined(self) -> bool:
        """Whether the server ran already, started by somebody else."""
        return self._info is not None and self._process is None

    @property
    def alive(self) -> bool:
        """Whether it is started and its process has not ended meanwhile, whoever started that."""
        if self._info is None or (self._process is not None and not self._process.alive):
            return False
        if self._data_dir is None:
            return True
        found = DataDir(self._data_dir).running()
        return found is not None and found.pid == self._info.pid

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start the server, or join the one that runs on the data directory, and await it ready.

        A second call while it runs does nothing.

        Raises:
            ServerUnavailable: there is no `temporal` tool, or the server ended or did not answer
                in time. The message holds the last lines of its log and what to do.
            UserError: a search attribute exists with another type.
        """
        if self._info is not None:
            return
        self._deadline = monotonic() + self._start_timeout.total_seconds()
        home = DataDir(self._data_dir or Path(tempfile.mkdtemp(prefix="outlast-server-")))
        try:
            home.path.mkdir(parents=True, exist_ok=True)
            await self._start_in(home)
        except BaseException as error:
            await self.stop(now=True)
            if self._data_dir is None:
                shutil.rmtree(home.path, ignore_errors=True)
            if isinstance(error, OSError):
                raise ServerUnavailable(
                    f"The data directory {home.path} cannot be used: {error}. Make it writable, "
                    "or use another one."
                ) from error
            raise

    async def stop(self, *, now: bool = False) -> None:
        """Let go of the server; it ends, in order, unless somebody else uses it. Idempotent.

        Args:
            now: end it even if others use it. A server that was joined is never ended this way.
        """
        process, users = self._process, self._users
        self._process = self._users = self._info = None
        shared = users is not None and _others_use(users)
        if users is not None:
            os.close(users)
        if process is None:
            return
        if shared and not now:
            process.leave_running()
        else:
            await process.end(now=now)

    def keep(self) -> None:
        """Use the server for as long as this process lives, and do not wait for its end then.

        Whoever starts one on the same directory meanwhile joins it. In place of `stop`.
        """
        process, self._process, self._info = self._process, None, None
        # Its lock's descriptor stays open: the kernel closes it when the process ends.
        self._users = None
        if process is not None:
            process.leave_running()

    async def _start_in(self, home: DataDir) -> None:
        life = open_lock(home.life_lock)
        try:
            self._users = open_lock(home.users_lock)
            info = await self._join_or_own(home, self._users, life)
            if info is None:
                info, client = await self._launch_ready(home, life)
            else:
                client = await self._ready_client(home, info)
            await ensure_search_attributes(client, self._search_attributes)
            if self._process is not None:
                await _keep_closed_runs(client)
                home.write_info(info)
            self._info = info
        finally:
            # The server and its guard hold the lock by themselves now.
            os.close(life)

    async def _join_or_own(self, home: DataDir, users: int, life: int) -> ServerInfo | None:
        """Return the running server once this process counts as its user.

        None means that nobody has one, both locks are held, and one may be started.
        """
        while monotonic() < self._deadline:
            if try_lock(life, fcntl.LOCK_EX):
                if try_lock(users, fcntl.LOCK_SH):
                    home.remove_info()
                    return None
                # A former guard is about to let go of the users' lock.
                fcntl.flock(life, fcntl.LOCK_UN)
            if home.running() and try_lock(users, fcntl.LOCK_SH):
                # Only from here on it cannot end for want of users: look again.
                if info := home.running():
                    self._check_port(home, info)
                    return info
                fcntl.flock(users, fcntl.LOCK_UN)
            await asyncio.sleep(POLL_SECONDS)
        raise ServerUnavailable(
            f"A Temporal server holds the data directory {home.path} and is not ready after "
            f"{self._start_timeout.total_seconds():g} s. See {home.log}; end that server, or use "
            "another data directory."
        )

    def _check_port(self, home: DataDir, info: ServerInfo) -> None:
        if self._port and info.address != f"{HOST}:{self._port}":
            raise ServerUnavailable(
                f"A Temporal server (process {info.pid}) runs on {home.path} already, at "
                f"{info.address} instead of port {self._port}. Use it there, end it, or use "
                "another data directory."
            )

    async def _launch_ready(self, home: DataDir, life: int) -> "tuple[ServerInfo, Client]":
        """Run the server until it serves; its UI may find its free port taken after a while."""
        while True:
            info = await self._launch(home, life)
            try:
                return info, await self._ready_client(home, info)
            except ServerUnavailable:
                process = self._process
                ended = process is not None and not process.alive
                if process is None or not ended or _PORT_TAKEN not in process.last_words():
                    raise
                if 0 not in (self._port, self._ui_port) or monotonic() > self._deadline:
                    raise
                await process.end(now=True)

    async def _launch(self, home: DataDir, life: int) -> ServerInfo:
        """Run the server and await that it listens; again where a free port was snatched away."""
        # The server does not run in this process's directory, so a relative path would be lost.
        cli = self._cli.expanduser().resolve() if self._cli else find_temporal_cli()
        attempts = 3 if 0 in (self._port, self._ui_port) else 1
        while True:
            attempts -= 1
            settings = ServerSettings(
                port=self._port or _free_port(),
                ui_port=_free_port() if self._ui_port == 0 else self._ui_port,
                namespace=self._namespace,
                search_attributes=self._search_attributes,
                in_memory=self._data_dir is None,
            )
            for port in (settings.port, settings.ui_port):
                _require_free(port)
            self._process = process = ServerProcess(cli, settings, home, life)
            if await process.accepts_connections(self._deadline):
                return ServerInfo(
                    address=process.address,
                    ui_url=process.ui_url,
                    namespace=self._namespace,
                    pid=process.pid,
                )
            words, ended = process.last_words(), not process.alive
            await process.end(now=True)
            if attempts == 0 or not ended or _PORT_TAKEN not in words:
                problem = "ended at once" if ended else f"does not answer at {process.address}"
                raise ServerUnavailable(
                    f"Temporal's development server ({cli}) {problem}. {words}\n"
                    f"{_advice(words, home)}"
                )

    def _alive(self, home: DataDir) -> bool:
        return self._process.alive if self._process else home.running() is not None

    async def _ready_client(self, home: DataDir, info: ServerInfo) -> "Client":
        """Return a client once the server serves the namespace."""
        from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
        from temporalio.client import Client
        from temporalio.service import RPCError, RPCStatusCode

        while True:
            try:
                client = await Client.connect(info.address, namespace=self._namespace)
                await client.workflow_service.describe_namespace(
                    DescribeNamespaceRequest(namespace=self._namespace)
                )
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    raise ServerUnavailable(
                        f"The Temporal server at {info.address} has no namespace "
                        f"{self._namespace!r}; it was started with {info.namespace!r}. Use that "
                        "one, or end the server so that it starts again with the new one."
                    ) from error
                problem: Exception = error
            except RuntimeError as error:
                problem = error
            else:
                if self._alive(home):
                    return client
                problem = RuntimeError("it ended")
            if monotonic() > self._deadline or not self._alive(home):
                raise ServerUnavailable(
                    f"The Temporal server at {info.address} does not serve the namespace "
                    f"{self._namespace!r}: {problem}. See {home.log}."
                ) from problem
            await asyncio.sleep(POLL_SECONDS)


async def _keep_closed_runs(client: "Client") -> None:
    """Let ended runs be readable for longer than a development server's one day."""
    from temporalio.api.namespace.v1 import NamespaceConfig
    from temporalio.api.workflowservice.v1 import UpdateNamespaceRequest

    config = NamespaceConfig()
    config.workflow_execution_retention_ttl.FromTimedelta(_RETENTION)
    await client.workflow_service.update_namespace(
        UpdateNamespaceRequest(namespace=client.namespace, config=config)
    )


def _others_use(users: int) -> bool:
    """Whether another process, or another server object here, holds the users' lock as well.

    Gives up this descriptor's own share. The guard may take the lock at that moment; it is no
    user, and is told apart by holding it exclusively.
    """
    fcntl.flock(users, fcntl.LOCK_UN)
    return not try_lock(users, fcntl.LOCK_EX) and try_lock(users, fcntl.LOCK_SH)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


def _require_free(port: int | None) -> None:
    """Refuse a port that something listens on: it might be another Temporal server."""
    if port is None:
        return
    with socket.socket() as probe:
        # As the server does it: a port that is only cooling down after a restart is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise ServerUnavailable(
                f"Port {port} on {HOST} cannot be used: {error.strerror}. Stop what listens "
                "there, or choose another port; 0 takes a free one."
            ) from error


def _advice(words: str, home: DataDir) -> str:
    if _PORT_TAKEN in words:
        return "Choose another port; 0 takes a free one."
    if "unknown flag" in words or "unknown command" in words:
        return 'The tool is too old: `pip install --upgrade "outlast[dev]"` has a newer one.'
    return f"If its database is damaged, move {home.path} away and start again."
