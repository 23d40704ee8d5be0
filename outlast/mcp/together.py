"""Several MCP servers at once.

Owns: `MCPServerManager`: connecting to many, and going on without those that fail. Must not know:
the kinds of servers.
"""

import asyncio
import logging
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from outlast.agents.mcp_server import MCPServer

logger = logging.getLogger(__name__)


class MCPServerManager:
    """Connects to several servers, and keeps them for as long as it is entered.

        async with MCPServerManager([files, tickets]) as servers:
            agent = Agent(name="Desk", mcp_servers=servers.active_servers)

    Attributes:
        connect_timeout_seconds: how long connecting to a server may take; None for its own bound.
        cleanup_timeout_seconds: how long letting it go may take.
        drop_failed_servers: whether `active_servers` leaves out those that could not be reached.
        strict: whether a server that cannot be reached is an error.
        connect_in_parallel: whether all are connected to at the same time.
        errors: why a server could not be reached, by server.
    """

    def __init__(
        self,
        servers: Iterable[MCPServer],
        *,
        connect_timeout_seconds: float | None = 10.0,
        cleanup_timeout_seconds: float | None = 10.0,
        drop_failed_servers: bool = True,
        strict: bool = False,
        connect_in_parallel: bool = False,
    ) -> None:
        """Take the servers; nothing is opened. Each counts once."""
        self._servers = list(dict.fromkeys(servers))
        self.connect_timeout_seconds = connect_timeout_seconds
        self.cleanup_timeout_seconds = cleanup_timeout_seconds
        self.drop_failed_servers = drop_failed_servers
        self.strict = strict
        self.connect_in_parallel = connect_in_parallel
        self.errors: dict[MCPServer, BaseException] = {}

    @property
    def all_servers(self) -> list[MCPServer]:
        """The servers, in their order."""
        return list(self._servers)

    @property
    def failed_servers(self) -> list[MCPServer]:
        """Those that could not be reached when that was last tried."""
        return [server for server in self._servers if server in self.errors]

    @property
    def active_servers(self) -> list[MCPServer]:
        """Those to give to an agent."""
        if not self.drop_failed_servers:
            return self.all_servers
        return [server for server in self._servers if server not in self.errors]

    async def connect_all(self) -> list[MCPServer]:
        """Connect to every server, and return those that are active.

        Raises:
            Exception: with `strict`, what the first that failed raised; all are let go then.
        """
        return await self._connect(self._servers)

    async def reconnect(self, *, failed_only: bool = True) -> list[MCPServer]:
        """Connect to the servers that failed, or to all of them anew.

        Raises:
            Exception: with `strict`, what the first that failed raised.
        """
        if failed_only:
            return await self._connect(self.failed_servers)
        await self.cleanup_all()
        return await self._connect(self._servers)

    async def cleanup_all(self) -> None:
        """Let all connections go. What fails is logged."""
        for server in reversed(self._servers):
            try:
                async with asyncio.timeout(self.cleanup_timeout_seconds):
                    await server.cleanup()
            except Exception:
                logger.exception("the MCP server %r could not be let go", server.name)

    async def __aenter__(self) -> Self:
        """Connect to all."""
        await self.connect_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let all go."""
        await self.cleanup_all()

    async def _connect(self, servers: list[MCPServer]) -> list[MCPServer]:
        try:
            if self.connect_in_parallel:
                await asyncio.gather(*(self._connect_one(server) for server in servers))
            else:
                for server in servers:
                    await self._connect_one(server)
        except BaseException:
            await self.cleanup_all()
            raise
        return self.active_servers

    async def _connect_one(self, server: MCPServer) -> None:
        self.errors.pop(server, None)
        try:
            async with asyncio.timeout(self.connect_timeout_seconds):
                await server.connect()
        except Exception as error:
            self.errors[server] = error
            if self.strict:
                raise
            logger.warning("the MCP server %r cannot be reached: %s", server.name, error)
