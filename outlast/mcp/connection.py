"""One connection to an MCP server, held by a task of its own.

Owns: opening it once, sharing it, noticing its end. The protocol's client has to be entered and
left in one task, while those who use it come and go. Must not know: what is asked over it.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from contextvars import Context
from datetime import timedelta
from typing import Any, cast

from outlast.agents.logs import get_logger

logger = get_logger(__name__)


class OpeningTimeoutError(TimeoutError):
    """A server does not say hello in time."""


class Connection:
    """A connection that is opened at once, and never again.

    Attributes:
        is_kept: somebody has opened it on purpose, and will close it.
        has_expired: opening it took too long, and was given up.
    """

    def __init__(
        self,
        open_client: Callable[[], AbstractAsyncContextManager[Any]],
        *,
        name: str,
        patience: timedelta,
        is_kept: bool = False,
    ) -> None:
        """Begin to open it.

        Args:
            open_client: opens the client, as a context.
            name: the server's, for messages.
            patience: how long opening may take; then it is given up.
            is_kept: see the attribute.
        """
        self.is_kept = is_kept
        self.has_expired = False
        self._name = name
        self._patience = patience
        self._uses = 0
        self._closing = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._client: asyncio.Future[Any] = loop.create_future()
        self._giving_up = loop.call_later(patience.total_seconds(), self._expire)
        # In a context of its own: who comes first may be an activity or traced; this outlives it.
        self._task = asyncio.create_task(self._hold(open_client), context=Context())

    @property
    def is_over(self) -> bool:
        """Whether it cannot be used any more."""
        return self._closing.is_set() or self._task.done()

    @property
    def is_in_use(self) -> bool:
        """Whether somebody waits for an answer."""
        return self._uses > 0

    @contextlib.asynccontextmanager
    async def client(self, within_seconds: float | None = None) -> AsyncGenerator[Any]:
        """Lend the client, once it is there.

        Args:
            within_seconds: how long to wait for it; it goes on opening for others. None waits
                until it is open or given up.

        Raises:
            Exception: opening it failed.
            OpeningTimeoutError: opening it takes too long.
            ConnectionError: it was closed meanwhile.
        """
        self._uses += 1
        try:
            yield await self._opened(within_seconds)
        finally:
            self._uses -= 1

    def give_up(self) -> None:
        """Let nobody use it any more; it is closed behind."""
        self._closing.set()
        if not self._client.done():
            self._task.cancel()  # it may not even have begun, and then tells nobody
            self._fail(ConnectionError(f"The connection to {self._name!r} was closed."))

    async def close(self) -> None:
        """Close it, and wait until that is done."""
        self.give_up()
        await asyncio.wait([self._task])

    async def _opened(self, within_seconds: float | None) -> Any:
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
                self._giving_up.cancel()
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
            self._giving_up.cancel()

    def _fail(self, error: Exception) -> bool:
        """Tell those who wait why there is no client; say whether they waited."""
        if self._client.done():
            return False
        self._client.set_exception(error)
        self._client.exception()  # nobody may be waiting
        return True


def _late(name: str, seconds: float) -> OpeningTimeoutError:
    return OpeningTimeoutError(f"The MCP server {name!r} did not answer within {seconds:g} s.")


def first_cause(error: BaseException) -> Exception:
    """Return what is at the bottom of a group of exceptions."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error if isinstance(error, Exception) else ConnectionError(repr(error))
