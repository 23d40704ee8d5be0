"""Manages connections to several MCP servers."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import Any, Final, Self

from outlast.agents.checks import check_seconds
from outlast.agents.logs import get_logger
from outlast.agents.mcp.server import MCPServer

logger: Final = get_logger(__name__)


Step = Callable[[], Awaitable[None]]


class _Keeper:
    """A task for all steps of a server, which may have to close where it was opened."""

    def __init__(self) -> None:
        self._steps: asyncio.Queue[tuple[Step, asyncio.Future[None]]] = asyncio.Queue()
        self._stopped = False
        self._task = asyncio.create_task(self._work())

    async def do(self, step: Step) -> None:
        """Run a step in the task, and raise its error. Cancelling also cancels the step."""
        if self._task.done():  # an error such as SystemExit has ended it
            raise ConnectionError("the task that held this server's connection has ended")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._steps.put_nowait((step, done))
        try:
            await asyncio.shield(done)
        except asyncio.CancelledError:
            if not done.done():
                self._task.cancel()
            raise

    def stop(self) -> None:
        """End the task."""
        self._stopped = True
        self._task.cancel()

    async def _work(self) -> None:
        while True:
            step, done = await self._steps.get()
            try:
                await step()
            except asyncio.CancelledError:
                done.cancel()
                if self._stopped:
                    raise
                self._task.uncancel()  # only the step was cancelled
            except Exception as error:  # noqa: BLE001  passed to the caller
                done.set_exception(error)
            except BaseException as error:  # noqa: BLE001  likewise, and the last step of this task
                done.set_exception(error)
                return
            else:
                done.set_result(None)


class MCPServerManager:
    """A context manager that keeps connections to several servers open.

        async with MCPServerManager([files, tickets]) as servers:
            agent = Agent(name="Desk", mcp_servers=servers.active_servers)

    Attributes:
        connect_timeout_seconds: the time-out for connecting to a server; None for the server's own.
        cleanup_timeout_seconds: the time-out for closing a connection; None for no limit.
        drop_failed_servers: whether `active_servers` leaves out servers that failed to connect.
        strict: whether a failed connection raises an error.
        suppress_cancelled_error: whether a connection that a server cancels itself is a failed one;
            otherwise `CancelledError` is raised. A cancelled caller is always cancelled.
        connect_in_parallel: whether to connect to all servers at the same time.
        errors: the connection errors, by server.
    """

    def __init__(
        self,
        servers: Iterable[MCPServer],
        *,
        connect_timeout_seconds: float | None = 10.0,
        cleanup_timeout_seconds: float | None = 10.0,
        drop_failed_servers: bool = True,
        strict: bool = False,
        suppress_cancelled_error: bool = True,
        connect_in_parallel: bool = False,
    ) -> None:
        """Store the servers without duplicates; open no connection yet.

        Raises:
            TypeError: a time-out is no number; also later, when one is set.
            ValueError: a time-out is not positive, or not finite.
        """
        self._servers = list(dict.fromkeys(servers))
        self.connect_timeout_seconds = connect_timeout_seconds
        self.cleanup_timeout_seconds = cleanup_timeout_seconds
        self.drop_failed_servers = drop_failed_servers
        self.strict = strict
        self.suppress_cancelled_error = suppress_cancelled_error
        self.connect_in_parallel = connect_in_parallel
        self.errors: dict[MCPServer, BaseException] = {}
        self._active = list(self._servers)
        self._open: set[MCPServer] = set()
        self._held: set[MCPServer] = set()  # also servers that failed to connect
        self._keepers: dict[MCPServer, _Keeper] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        if name.endswith("_timeout_seconds"):
            check_seconds(f"MCPServerManager({name}=...)", value, positive=True)
        super().__setattr__(name, value)

    @property
    def all_servers(self) -> list[MCPServer]:
        """The servers, in their order."""
        return list(self._servers)

    @property
    def failed_servers(self) -> list[MCPServer]:
        """The servers that failed to connect at the last attempt."""
        return [server for server in self._servers if server in self.errors]

    @property
    def active_servers(self) -> list[MCPServer]:
        """The servers to pass to an agent.

        All servers before connecting; then those that connected, and, without
        `drop_failed_servers`, those that failed; none after `cleanup_all`.
        """
        return list(self._active)

    async def connect_all(self) -> list[MCPServer]:
        """Connect to every server, and return the active servers.

        Raises:
            Exception: with `strict`, the error of the first server that failed; connections opened
                by this call are closed.
        """
        before = set(self._open)
        try:
            return await self._connect(self._servers)
        except BaseException:  # also cancelled: what this call opened is closed
            for server in reversed(self._servers):
                if server in self._held - before:
                    await self._disconnect(server)
            self._choose_active()
            raise

    async def reconnect(self, *, failed_only: bool = True) -> list[MCPServer]:
        """Reconnect to the servers that failed, or to all servers.

        Raises:
            Exception: with `strict`, the error of the first server that failed.
        """
        if not failed_only:
            await self.cleanup_all()
            return await self.connect_all()
        for server in self.failed_servers:
            if server in self._held:
                await self._disconnect(server)
        try:
            return await self._connect(self.failed_servers)
        finally:
            self._choose_active()

    async def cleanup_all(self) -> None:
        """Close all connections. Errors are logged."""
        for server in reversed(self._servers):
            if server in self._held or not self.connect_in_parallel:
                await self._disconnect(server)
        self._active = []

    async def __aenter__(self) -> Self:
        await self.connect_all()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.cleanup_all()

    async def _connect(self, servers: list[MCPServer]) -> list[MCPServer]:
        connecting = [self._connect_one(server) for server in servers if server not in self._open]
        if self.connect_in_parallel:
            for outcome in await asyncio.gather(*connecting, return_exceptions=True):
                if outcome is not None:
                    raise outcome
        else:
            await _one_by_one(connecting)
        self._choose_active()
        return self.active_servers

    def _choose_active(self) -> None:
        kept = self._open if self.drop_failed_servers else self._open | self.errors.keys()
        self._active = [server for server in self._servers if server in kept]

    async def _connect_one(self, server: MCPServer) -> None:
        self.errors.pop(server, None)
        self._held.add(server)
        if self.connect_in_parallel and server not in self._keepers:
            self._keepers[server] = _Keeper()
        try:
            await self._do(server, server.connect, self.connect_timeout_seconds)
        except asyncio.CancelledError as error:
            self.errors[server] = error
            if not self.suppress_cancelled_error or _is_cancelled():
                raise
            logger.warning("the connection to the MCP server %r was cancelled", server.name)
        except Exception as error:  # kept in `errors`; a server may be the user's
            self.errors[server] = error
            if self.strict:
                raise
            logger.warning("the MCP server %r cannot be reached: %s", server.name, error)
        else:
            self._open.add(server)

    async def _disconnect(self, server: MCPServer) -> None:
        self._open.discard(server)
        self._held.discard(server)
        try:
            await self._do(server, server.cleanup, self.cleanup_timeout_seconds)
        except asyncio.CancelledError:
            if not self.suppress_cancelled_error or _is_cancelled():
                raise
            logger.warning("the cleanup of the MCP server %r was cancelled", server.name)
        except Exception:  # the other servers have to be closed, too
            logger.exception("the MCP server %r could not be disconnected", server.name)
        finally:
            if (keeper := self._keepers.pop(server, None)) is not None:
                keeper.stop()

    async def _do(self, server: MCPServer, step: Step, seconds: float | None) -> None:
        keeper, bounded = self._keepers.get(server), partial(_within, seconds, step)
        await (bounded() if keeper is None else keeper.do(bounded))


def _is_cancelled() -> bool:
    """Whether this task is being cancelled, and not only something that it awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _within(seconds: float | None, step: Step) -> None:
    async with asyncio.timeout(seconds):
        await step()


async def _one_by_one(steps: Iterable[Coroutine[Any, Any, None]]) -> None:
    rest = list(steps)
    try:
        while rest:
            await rest.pop(0)
    finally:
        for step in rest:
            step.close()
