"""One connection pool per event loop, inside a client used in several loops.

A pooled connection belongs to the loop that opened it. Another loop can still send a request on it,
but loses the response: the call is billed and then retried. So the pools of a user's client are
split by loop, in place: its proxies, headers, certificates and transports stay as they are, and
closing the client closes all pools.
"""

import asyncio
import copy
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakSet

from outlast.models.loop_values import LoopValues

if TYPE_CHECKING:
    from httpcore2 import AsyncConnectionPool, Request, Response
    from openai import AsyncOpenAI

_DEPTH = 4
"""How many levels of nested transports are searched for pools."""

_split: "WeakSet[Any]" = WeakSet()
_splitting = threading.Lock()


def split_pools(client: "AsyncOpenAI") -> None:
    """Split a client's pools by event loop; a second call does nothing.

    This works for the pools of `httpx2`, also inside wrapping transports. Other transports are
    left unchanged.
    """
    http_client: Any = getattr(client, "_client", None)
    if http_client is None or http_client in _split:
        return
    with _splitting:
        transports = [getattr(http_client, "_transport", None)]
        mounts: Any = getattr(http_client, "_mounts", None)
        if isinstance(mounts, dict):
            transports += mounts.values()
        for transport in transports:
            _split_inside(transport, _DEPTH)
        _split.add(http_client)


def _split_inside(transport: object, depth: int) -> None:
    from httpcore2 import AsyncConnectionPool
    from httpx2 import AsyncBaseTransport

    if not isinstance(transport, AsyncBaseTransport) or depth == 0:
        return
    for name, value in list(vars(transport).items()):
        if isinstance(value, AsyncConnectionPool):
            setattr(transport, name, LoopPools(value))
        else:
            _split_inside(value, depth - 1)


class LoopPools:
    """Replaces a connection pool of `httpcore2` by one pool per event loop."""

    def __init__(self, pool: "AsyncConnectionPool") -> None:
        """Use a pool as the template of the others, not for connections."""
        self._pattern = pool
        self._pools: LoopValues[AsyncConnectionPool] = LoopValues()

    async def handle_async_request(self, request: "Request") -> "Response":
        """Send a request on a connection of the running loop."""
        return await self._of_loop().handle_async_request(request)

    async def aclose(self) -> None:
        """Close the pools of all loops."""
        await self._pattern.aclose()
        mine = self._pools.pop()
        for loop, pool in self._pools.pop_others():
            if loop.is_running():
                asyncio.run_coroutine_threadsafe(pool.aclose(), loop)
        if mine is not None:
            await mine.aclose()

    async def __aenter__(self) -> Self:
        """Return this object, as a pool does."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        """Close the pools of all loops."""
        await self.aclose()

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the template pool."""
        return getattr(self._pattern, name)

    def _of_loop(self) -> "AsyncConnectionPool":
        pool = self._pools.get()
        if pool is None:
            pool = copy.copy(self._pattern)
            # A copy shares the settings, but needs its own connections and waiting requests.
            fresh: Any = pool
            fresh._connections = []  # noqa: SLF001  what a pool has no other way to be made anew from
            fresh._requests = []  # noqa: SLF001  likewise
            self._pools.set(pool)
        return pool
