"""Waits through outages of the server, and classifies transient errors."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from temporalio.api.workflowservice.v1 import GetSystemInfoRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.errors import ServerUnavailable, UserError
from outlast.agents.logs import get_logger
from outlast.archive.reading import as_not_found

logger: Final = get_logger(__name__)

T = TypeVar("T")

PATIENCE: Final = timedelta(minutes=5)
"""The default time that a caller waits for a server that does not answer."""

PROGRAM_PATIENCE: Final = timedelta(seconds=45)
"""The default of a program that hosts its own runs, where somebody waits at the screen."""

PATIENCE_VARIABLE: Final = "OUTLAST_PATIENCE_SECONDS"

WAITS_SECONDS: Final = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""The waits between attempts; the last one repeats."""

SILENT_SECONDS: Final = 3.0
"""An outage that lasts longer is logged, once."""

QUIET_SECONDS: Final = 5.0
"""How long a server may say nothing before it is asked whether it is there."""

PING_SECONDS: Final = 5.0
"""How long a server may take to say that it is there."""

LONGEST_CALL_IN_OUTAGE_SECONDS: Final = 90.0
"""A call that fails later than this after the previous failure starts a new outage."""

PASSING: Final = frozenset(
    {
        RPCStatusCode.ABORTED,
        RPCStatusCode.CANCELLED,
        RPCStatusCode.DATA_LOSS,
        RPCStatusCode.DEADLINE_EXCEEDED,
        RPCStatusCode.INTERNAL,
        RPCStatusCode.RESOURCE_EXHAUSTED,
        RPCStatusCode.UNAVAILABLE,
        RPCStatusCode.UNKNOWN,
    }
)
"""The errors of a server that is restarted, overloaded or unreachable."""

AWAY: Final = frozenset(
    {RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.UNAVAILABLE, RPCStatusCode.UNKNOWN}
)
"""Those of them that say nothing about the run, because no server answered."""

TOO_LARGE: Final = "larger than max"

_answered_at: "WeakKeyDictionary[Client, float]" = WeakKeyDictionary()
"""When a server has last answered a call, by the event loop's clock."""

_gone: "WeakSet[Client]" = WeakSet()
"""The clients whose server has not answered within the patience of a caller."""

_told: "WeakSet[object]" = WeakSet()
"""Those whose outage is in the log: many runs of a process wait for the same server."""


def patience_of(patience: timedelta | None, default: timedelta = PATIENCE) -> timedelta:
    """Return how long to wait for a server that does not answer: as passed, or of the environment."""
    if patience is not None:
        if not isinstance(patience, timedelta) or patience < timedelta(0):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(f"patience= must be a timedelta of at least zero, not {patience!r}.")
        return patience
    text = os.environ.get(PATIENCE_VARIABLE, "")
    if not text:
        return default
    try:
        seconds = float(text)
        return timedelta(seconds=max(seconds, 0.0))
    except (ValueError, OverflowError):
        raise UserError(
            f"{PATIENCE_VARIABLE}={text!r} must be a number of seconds, such as 300."
        ) from None


def is_transient(error: RPCError) -> bool:
    """Whether the same call may succeed later, when the server is back or less busy."""
    return error.status in PASSING and TOO_LARGE not in error.message


def unavailable(error: RPCError, patience: timedelta | None = None) -> ServerUnavailable:
    """Return the error of a server that does not answer."""
    if not patience:
        return ServerUnavailable(f"The Temporal server does not answer: {error.message}")
    return ServerUnavailable(
        f"The Temporal server has not answered for {patience.total_seconds():g} s: {error.message}. "
        "Runs are kept, and go on once it and their program or workers are back. "
        f"{PATIENCE_VARIABLE}=600 or patience=timedelta(minutes=10) waits for longer."
    )


def wait_seconds(attempt: int) -> float:
    """Return how long to wait after an attempt; the first one is number 0."""
    return WAITS_SECONDS[min(attempt, len(WAITS_SECONDS) - 1)]


class Outage:
    """Measures how long a server has not answered.

    Args:
        patience: how long to wait for it.
        client: the client, whose outages are logged once for all callers; None for a caller's own.
    """

    def __init__(self, patience: timedelta, client: Client | None = None) -> None:
        self._patience = patience
        self._attempt = 0
        self._whose: object = self if client is None else client
        self._since: float | None = None
        self._last = 0.0

    def is_over(self) -> None:
        """Record that the server has answered."""
        self._since, self._attempt = None, 0
        _told.discard(self._whose)

    async def wait(self, error: RPCError, *, since: float | None = None) -> None:
        """Wait until the next attempt is due.

        `since` is when the failed attempt began, by the event loop's clock; None if the server may
        have answered in between.

        Raises:
            RPCError: the error will not pass.
            ServerUnavailable: the outage took too long.
        """
        if not is_transient(error):
            raise error
        now = asyncio.get_running_loop().time()
        if self._since is None or now - self._last > LONGEST_CALL_IN_OUTAGE_SECONDS:
            self._since = now if since is None else since
            self._attempt = 0
        left = self._since + self._patience.total_seconds() - now
        if left <= 0:
            raise unavailable(error, self._patience) from error
        if self._whose not in _told and now - self._since >= SILENT_SECONDS:
            _told.add(self._whose)
            logger.warning("%s; waiting for it for %.0f s more", unavailable(error), left)
        await asyncio.sleep(min(wait_seconds(self._attempt), left))
        self._attempt += 1
        self._last = asyncio.get_running_loop().time()


async def retry_during_outage(
    client: Client, call: Callable[[], Awaitable[T]], patience: timedelta
) -> T:
    """Call a function, and repeat the call while the server does not answer.

    Raises:
        RPCError: the server refused.
        ServerUnavailable: the outage took too long.
    """
    outage = Outage(patience, client)
    while True:
        began = asyncio.get_running_loop().time()
        try:
            return await watched(client, call(), outage)
        except RPCError as error:
            await outage.wait(as_not_found(error), since=began)


async def watched(client: Client, call: Awaitable[T], outage: Outage) -> T:
    """Await a call, which may take as long as it likes while the server is there.

    A connection to a server that is gone may stay silent for minutes. So a server that has answered
    no call of the client for a while is asked whether it is there.
    """
    clock = asyncio.get_running_loop().time
    poll = asyncio.ensure_future(call)
    poll.add_done_callback(_retrieve)
    try:
        while not (await asyncio.wait({poll}, timeout=QUIET_SECONDS))[0]:
            if clock() - _answered_at.get(client, 0.0) >= QUIET_SECONDS:
                await _ping(client, outage)
                _answered_at[client] = clock()
        result = poll.result()
    finally:
        poll.cancel()
    outage.is_over()
    _answered_at[client] = clock()
    return result


async def ping(client: Client) -> None:
    """Ask the server whether it is there, once.

    Raises:
        RPCError: it is not.
    """
    await client.workflow_service.get_system_info(
        GetSystemInfoRequest(), timeout=timedelta(seconds=PING_SECONDS)
    )


async def _ping(client: Client, outage: Outage) -> None:
    while True:
        began = asyncio.get_running_loop().time()
        try:
            await ping(client)
        except RPCError as error:
            if error.status in AWAY or error.status == RPCStatusCode.CANCELLED:  # or timed out
                try:
                    await outage.wait(error, since=began)
                except ServerUnavailable:
                    _gone.add(client)
                    raise
                continue
        outage.is_over()
        _gone.discard(client)
        return


def is_gone(client: Client) -> bool:
    """Whether a caller has given the server of a client up, and it has not answered since."""
    return client in _gone


def _retrieve(poll: asyncio.Future[Any]) -> None:
    """Mark the error of a call as seen, also where nobody waits for the call any more."""
    if not poll.cancelled():
        poll.exception()
