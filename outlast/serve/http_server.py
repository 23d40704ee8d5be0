"""Runs the desk as a server of its own."""

import asyncio
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

import uvicorn
from starlette.applications import Starlette

from outlast.agents.errors import UserError
from outlast.serve.connections import BACKLOG, BoundedConfig, ConnectionLimits, Connections

SHUTDOWN_SECONDS: Final = 5
"""How long running requests may take to end; live streams end at once."""

_TICKS: Final = 10
"""How many ticks of the server are a second."""


class _Server(uvicorn.Server):
    """A server that leaves signals to the program, and says when it is ready."""

    def __init__(self, config: BoundedConfig) -> None:
        super().__init__(config)
        self.is_ready = asyncio.Event()
        self._connections = config.connections

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        self.is_ready.set()

    async def on_tick(self, counter: int) -> bool:
        """Look at the connections; called ten times a second."""
        now = asyncio.get_running_loop().time()
        self._connections.end_silent(now)
        if counter % _TICKS == 0:
            self._connections.end_stalled(now)
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave the program's own handlers in place."""
        yield


async def serve_desk(
    application: Starlette,
    host: str,
    port: int,
    stop: asyncio.Event,
    on_ready: Callable[[int], None],
    limits: ConnectionLimits | None = None,
) -> None:
    """Serve the desk until it is to stop.

    Args:
        application: what `desk` returns.
        host: the address to listen at.
        port: the port; 0 for a free one.
        stop: set when it is to stop.
        on_ready: called with the port when requests are answered.
        limits: the bounds of its connections.

    Raises:
        UserError: the port cannot be used.
    """
    with _listener(host, port) as listener:
        config = BoundedConfig(
            application,
            Connections(limits or ConnectionLimits()),
            log_level="warning",
            access_log=False,  # addresses may name customers
            server_header=False,
            # Otherwise headers of the request would say from where it comes.
            proxy_headers=False,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
        server = _Server(config)
        serving = asyncio.create_task(server.serve([listener]))
        ready, stopped = (asyncio.create_task(one.wait()) for one in (server.is_ready, stop))
        await asyncio.wait({serving, ready}, return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            on_ready(listener.getsockname()[1])
        await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
        # Live streams would keep their connections open: readers come back by their positions.
        await application.state.desk.close()
        server.should_exit = True
        ready.cancel()
        stopped.cancel()
        await serving


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise UserError(
            f"{host} port {port} cannot be used: {error.strerror}. Choose another one with --port."
        ) from None
    # Connections have it from here. Without it, the end of each answer waits for the client to
    # acknowledge its beginning: 40 ms on a connection that is kept.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
