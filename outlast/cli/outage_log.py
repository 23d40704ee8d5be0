"""What a worker says of an outage of its server: one line when it begins, and one when it is over."""

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from outlast.cli import terminal

if TYPE_CHECKING:
    from temporalio.client import Client

CORE: Final = "temporalio.core"
"""The logger of the SDK's core."""

_RETRIES: Final = "temporalio_client::retry"
"""The part of the core that logs each attempt of each call, of which a worker has many at a time."""

_ASKS_SECONDS: Final = 2.0


class OutageLog(logging.Filter):
    """Keeps the core's lines about failed attempts from the log, and says once what they mean.

    A worker waits for its server for as long as it takes: nothing is lost meanwhile.
    """

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._client: Client | None = None
        self._watching: asyncio.Task[None] | None = None

    def watch(self, client: "Client") -> None:
        """Say of which server the lines are."""
        self._client = client

    def is_watching(self) -> bool:
        """Whether the server is being asked until it answers."""
        return self._watching is not None and not self._watching.done()

    def filter(self, record: logging.LogRecord) -> bool:
        """Drop a line about a failed attempt. The core calls this in threads of its own."""
        if _RETRIES not in record.name:
            return True
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._begin)
        return False

    def _begin(self) -> None:
        if self._client is not None and not self.is_watching():
            self._watching = self._loop.create_task(self._until_it_answers(self._client))

    async def _until_it_answers(self, client: "Client") -> None:
        began = self._loop.time()
        if (problem := await _problem(client)) is None:
            return  # it was a moment
        where = client.service_client.config.target_host
        terminal.warn(
            f"The Temporal server at {where} does not answer: {problem}. The worker waits for it for as "
            "long as it takes, and no run is lost."
        )
        while await _problem(client) is not None:  # noqa: ASYNC110  no event tells it
            await asyncio.sleep(_ASKS_SECONDS)
        seconds = self._loop.time() - began
        terminal.warn(f"The Temporal server at {where} answers again, after {seconds:.0f} s.")


async def _problem(client: "Client") -> str | None:
    """Return why the server does not answer, or None if it does."""
    from temporalio.service import RPCError

    from outlast.client.transport.outages import ping

    try:
        await ping(client)
    except RPCError as error:
        return error.message
    return None
