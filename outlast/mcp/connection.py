"""One shared connection to an MCP server, held by a task, which must enter and exit its client."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from contextvars import Context
from datetime import timedelta
from typing import Any, Final, cast

from outlast.agents.logs import get_logger

logger: Final = get_logger(__name__)


class OpeningTimeoutError(TimeoutError):
    """A server did not initialize in time."""


class Connection:
    """A connection that opens on construction and is never reopened.

    Attributes:
        is_kept: the user opened the connection with `connect`, and closes it with `cleanup`.
        has_expired: opening took too long and was cancelled.
    """

    def __init__(
        self,
        open_client: Callable[[], AbstractAsyncContextManager[Any]],
        *,
        name: str,
        patience: timedelta,
        is_kept: bool = False,
    ) -> None:
        """Start opening the connection; `patience` is the time-out."""
        self.is_kept = is_kept
        self.has_expired: bool = False
        self._name = name
        self._patience = patience
        self._uses = 0
        self._used_at = asyncio.get_running_loop().time()
        self._closing = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._client: asyncio.Future[Any] = loop.create_future()
        self._expiry = loop.call_later(patience.total_seconds(), self._expire)
        # An empty context: the task outlives the caller, which may be an activity or a span.
        self._task = asyncio.create_task(self._hold(open_client), context=Context())

    @property
    def is_over(self) -> bool:
        """Whether the connection is closed or closing."""
        return self._closing.is_set() or self._task.done()

    @property
    def opened(self) -> Any:
        """The client, once the connection is open; None before, and if it failed."""
        done = self._client.done() and not self._client.cancelled()
        return self._client.result() if done and self._client.exception() is None else None

    @property
    def is_in_use(self) -> bool:
        """Whether a task is using the client."""
        return self._uses > 0

    @property
    def idle_seconds(self) -> float:
        """How long no task has used the client."""
        return 0.0 if self._uses else asyncio.get_running_loop().time() - self._used_at

    @contextlib.asynccontextmanager
    async def client(self, within_seconds: float | None = None) -> AsyncGenerator[Any]:
        """Provide the client for the block, once the connection is open.

        Without `within_seconds`, wait as long as opening may take. It goes on for other callers.

        Raises:
            Exception: the connection could not be opened.
            OpeningTimeoutError: opening took too long.
            ConnectionError: the connection was closed in the meantime.
        """
        self._uses += 1
        try:
            yield await self._wait_until_open(within_seconds)
        finally:
            self._uses -= 1
            self._used_at = asyncio.get_running_loop().time()

    def abort(self) -> None:
        """Make the connection unusable, and close it in the background."""
        self._closing.set()
        if not self._client.done():
            self._task.cancel()  # a task that has not started does not fail the future itself
            self._fail(ConnectionError(f"The connection to {self._name!r} was closed."))

    async def close(self) -> None:
        """Close the connection, and wait until it is closed."""
        self.abort()
        await asyncio.wait([self._task])

    async def _wait_until_open(self, within_seconds: float | None) -> Any:
        try:
            async with asyncio.timeout(within_seconds):
                return await asyncio.shield(self._client)
        except TimeoutError:
            if self._client.done():
                return self._client.result()
            raise _late(self._name, within_seconds or 0) from None

    def _expire(self) -> None:
        self.has_expired = True
        self._fail(_late(self._name, self._patience.total_seconds()))
        self._closing.set()
        self._task.cancel()

    async def _hold(self, open_client: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        try:
            async with open_client() as client:
                self._expiry.cancel()
                self._client.set_result(client)
                await self._closing.wait()
        except asyncio.CancelledError:
            self._fail(ConnectionError(f"The connection to {self._name!r} was closed."))
            raise
        except Exception as error:  # noqa: BLE001  whatever a transport raises
            cause = first_cause(error)
            if not self._fail(cause):
                logger.warning("the connection to the MCP server %r ended: %r", self._name, cause)
        finally:
            self._expiry.cancel()

    def _fail(self, error: Exception) -> bool:
        if self._client.done():
            return False
        self._client.set_exception(error)
        self._client.exception()  # avoids asyncio's warning if no caller is waiting
        return True


def _late(name: str, seconds: float) -> OpeningTimeoutError:
    return OpeningTimeoutError(f"The MCP server {name!r} did not answer within {seconds:g} s.")


def first_cause(error: BaseException) -> Exception:
    """Return the first leaf exception of an exception group."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error if isinstance(error, Exception) else ConnectionError(repr(error))
