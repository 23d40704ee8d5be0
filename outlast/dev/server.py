"""Starts, joins and stops a real Temporal server on this machine."""

import asyncio
import fcntl
import os
import shutil
import tempfile
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Self

from outlast.agents.errors import ServerUnavailable, UserError
from outlast.agents.hosts import check_port, free_port, problem_of_port
from outlast.contract.names import IDENTITY_DIR, OWNER_KEY
from outlast.dev.data_dir import (
    DataDir,
    ServerInfo,
    create_data_dir,
    open_lock,
    problem_of_writing,
    running_server,
    try_lock,
)
from outlast.dev.server_process import HOST, POLL_SECONDS, ServerProcess, ServerSettings
from outlast.dev.temporal_cli import find_temporal_cli
from outlast.temporal.visibility.search_attributes import ensure_search_attributes

if TYPE_CHECKING:
    from temporalio.client import Client

__all__ = [
    "EmbeddedServer",
    "ServerInfo",
    "find_temporal_cli",
    "running_server",
]

_RETENTION = timedelta(days=30)  # to look at runs of last week
_PORT_TAKEN = "address already in use"


class EmbeddedServer:
    """A Temporal development server on loopback, with its web UI.

    With a data directory, the server stores everything in a SQLite file there, which survives
    SIGKILL, and the server is shared: a second `EmbeddedServer` on the same directory, in this
    process or another, joins the running server. The server ends when the last process that
    started or joined it this way has stopped it or died, even by SIGKILL. Workers and clients that
    only use the address do not count as users, so their end never stops the server.

        async with EmbeddedServer(data_dir=default_data_dir()) as server:
            client = await Client.connect(server.address)

    Args:
        data_dir: the directory of its database and log; None keeps everything in memory, unshared.
        port: the port for clients; 0 picks a free one.
        ui_port: the port of the web UI; 0 picks a free one, None disables the UI.
        namespace: created when the server starts.
        search_attributes: types by name, such as `{"OutlastAgent": "Keyword"}`; missing attributes
            are added, even to an existing database.
        cli: the `temporal` tool; by default, the result of `find_temporal_cli`.
        start_timeout: how long the server may take until it responds.

    Raises:
        UserError: a port is no port.
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
        self._port = check_port(port, "port")
        self._ui_port = None if ui_port is None else check_port(ui_port, "ui_port")
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
        """The running server's description, as in `server.json`.

        Raises:
            UserError: the server is not started.
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
        """The URL of the web UI, or None."""
        return self.info.ui_url

    @property
    def joined(self) -> bool:
        """Whether another object or process had already started the server."""
        return self._info is not None and self._process is None

    @property
    def alive(self) -> bool:
        """Whether the server is started or joined, and its process is alive."""
        if self._info is None or (self._process is not None and not self._process.alive):
            return False
        if self._data_dir is None:
            return True
        found = DataDir(self._data_dir).running()
        return found is not None and found.pid == self._info.pid

    def problem_of_writing(self) -> str | None:
        """Return why the server cannot write to its data directory, in words; None if it can."""
        return None if self._data_dir is None else problem_of_writing(self._data_dir)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start or join the server of the data directory, and wait until it is ready.

        A second call while the server runs does nothing.

        Raises:
            ServerUnavailable: there is no `temporal` tool, or the server ended or did not respond
                in time. The message contains the end of the server's log and what to do.
            UserError: a search attribute exists with another type.
        """
        if self._info is not None:
            return
        self._deadline = monotonic() + self._start_timeout.total_seconds()
        home = DataDir(self._data_dir or Path(tempfile.mkdtemp(prefix="outlast-server-")))
        try:
            create_data_dir(home.path)
            await self._start_in(home)
        except BaseException as error:  # also a cancellation leaves no process behind
            await self.stop(now=True)
            if self._data_dir is None:
                shutil.rmtree(home.path, ignore_errors=True)
            if isinstance(error, OSError):
                raise ServerUnavailable(
                    f"The data directory {home.path} cannot be used: {error}. Use one of your "
                    "own that only you can write to: --data-dir or OUTLAST_DATA_DIR names it."
                ) from error
            raise

    async def stop(self, *, now: bool = False) -> None:
        """Stop using the server, which shuts down unless it has other users. Idempotent.

        Args:
            now: shut it down even if it has other users. This never affects a joined server.
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
        """Keep the server running until this process ends, and never wait for it.

        Until then, new users of the directory join the server. Call this instead of `stop`.
        """
        process, self._process, self._info = self._process, None, None
        # The lock's descriptor stays open until the kernel closes it at the end of the process.
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
            await self._prepare(home, client)
            if self._process is not None:
                home.write_info(info)
            self._info = info
        finally:
            # From now on, the server and its guard hold the lock themselves.
            os.close(life)

    async def _prepare(self, home: DataDir, client: "Client") -> None:
        from temporalio.service import RPCError

        try:
            await ensure_search_attributes(client, self._search_attributes)
            if self._process is not None:
                await _describe_namespace(client, home.path, is_kept=self._data_dir is not None)
        except RPCError as error:
            raise ServerUnavailable(
                f"Temporal's development server answers, and cannot be used: {error.message}\n"
                f"{_advice('', home)}"
            ) from error

    async def _join_or_own(self, home: DataDir, users: int, life: int) -> ServerInfo | None:
        """Register this process as a user of the running server, and return the server.

        None means that no server runs; this process then holds both locks and may start one.
        """
        while monotonic() < self._deadline:
            if try_lock(life, fcntl.LOCK_EX):
                if try_lock(users, fcntl.LOCK_SH):
                    home.remove_info()
                    return None
                # The previous server's guard still holds the users' lock for a moment.
                fcntl.flock(life, fcntl.LOCK_UN)
            if home.running() and try_lock(users, fcntl.LOCK_SH):
                # Only now the server cannot end for lack of users, so check again.
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
        """Start the server and wait until it is ready; retry if its port is taken."""
        while True:
            info = await self._launch(home, life)
            try:
                return info, await self._ready_client(home, info)
            except ServerUnavailable:
                process = self._process
                ended = process is not None and not process.alive
                if process is None or not ended or _PORT_TAKEN not in process.last_words():
                    raise
                if monotonic() > self._deadline:
                    raise
                await process.end(now=True)

    async def _launch(self, home: DataDir, life: int) -> ServerInfo:
        # The server runs in another working directory, so a relative path would be wrong.
        cli = self._cli.expanduser().resolve() if self._cli else find_temporal_cli()
        attempts = 3
        while True:
            attempts -= 1
            settings = ServerSettings(
                port=self._port or free_port(),
                ui_port=free_port() if self._ui_port == 0 else self._ui_port,
                namespace=self._namespace,
                search_attributes=self._search_attributes,
                in_memory=self._data_dir is None,
            )
            for port in (self._port, self._ui_port):
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

    def _last_words(self, home: DataDir) -> str:
        return f" {self._process.last_words()}" if self._process else f" See {home.log}."

    async def _ready_client(self, home: DataDir, info: ServerInfo) -> "Client":
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
                    f"{self._namespace!r}: {problem}.{self._last_words(home)}"
                ) from problem
            await asyncio.sleep(POLL_SECONDS)


async def _describe_namespace(client: "Client", home: Path, *, is_kept: bool) -> None:
    """Record the server's owner, and keep ended runs for more than the default of a day."""
    from temporalio.api.namespace.v1 import NamespaceConfig, UpdateNamespaceInfo
    from temporalio.api.workflowservice.v1 import UpdateNamespaceRequest

    config = NamespaceConfig()
    config.workflow_execution_retention_ttl.FromTimedelta(_RETENTION)
    owner = {OWNER_KEY: str(home)} if is_kept else {}
    info = UpdateNamespaceInfo(data={IDENTITY_DIR: str(home), **owner})
    await client.workflow_service.update_namespace(
        UpdateNamespaceRequest(namespace=client.namespace, config=config, update_info=info)
    )


def _others_use(users: int) -> bool:
    """Whether another process or server object holds the users' lock as well.

    Releases this descriptor's own share. The guard may take the lock at that moment. The guard is
    not a user, and can be told apart because it holds the lock exclusively.
    """
    fcntl.flock(users, fcntl.LOCK_UN)
    return not try_lock(users, fcntl.LOCK_EX) and try_lock(users, fcntl.LOCK_SH)


def _require_free(port: int | None) -> None:
    """Raise an error if a chosen port is in use, perhaps by another Temporal server.

    Whatever takes it before the server has it is only known once the server ends, which may be
    when the server has already answered: it opens its UI last.
    """
    if port and (problem := problem_of_port(port)):
        raise ServerUnavailable(
            f"Port {port} on {HOST} cannot be used: {problem}. Stop what listens there, or choose "
            "another port; 0 takes a free one."
        )


def _advice(words: str, home: DataDir) -> str:
    if problem := problem_of_writing(home.path):
        return f"It cannot record anything: {problem}. Make room there, or use another directory."
    if _PORT_TAKEN in words:
        return "Choose another port; 0 takes a free one."
    if "unknown flag" in words or "unknown command" in words:
        return 'The tool is too old: `pip install --upgrade "outlast[dev]"` has a newer one.'
    return f"If its database is damaged, move {home.path} away and start again."
