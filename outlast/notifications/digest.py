"""Digests: all pending requests in one message, once in a period."""

import asyncio
import time
from datetime import timedelta
from typing import Final, cast

from outlast.agents.errors import UserError
from outlast.agents.logs import get_logger
from outlast.notifications.requests import Requests
from outlast.ports.notifier import DigestNotice, DigestNotifier, NotifierRejected, notification
from outlast.views.records import Notice

SHORTEST_PERIOD: Final = timedelta(minutes=1)  # more often, each request is a message by itself
ATTEMPTS: Final = 5  # within half a period; the next digest lists the same
_FIRST_WAIT: Final = 1.0

logger: Final = get_logger(__name__)


class Digest:
    """Sends the pending requests of all runs once in a period, if there are any.

        async with AgentWorker(...):
            await Digest(SlackNotifier(...), RunRequests(client), every=timedelta(hours=1)).run()

    Nothing is stored: each digest lists the requests that wait at that moment. Periods begin at
    full multiples of `every` since 1970 (UTC), so a restart does not shift them. A period that ends
    while no process runs has no digest. Run it in one process: two would both send, with the same
    id.

    Args:
        notifier: delivers the digests.
        requests: lists the requests, such as `RunRequests(client)`.
        every: the period, such as an hour or a day; at least a minute.
        namespace: the Temporal namespace, for links to runs.
    """

    def __init__(
        self,
        notifier: DigestNotifier,
        requests: Requests,
        *,
        every: timedelta,
        namespace: str = "default",
    ) -> None:
        if not isinstance(cast("object", every), timedelta) or every < SHORTEST_PERIOD:
            raise UserError(f"every= must be a timedelta of at least a minute, not {every!r}.")
        self._notifier = notifier
        self._requests = requests
        self._every = every.total_seconds()
        self._namespace = namespace

    async def run(self) -> None:
        """Send a digest at the end of each period, until cancelled."""
        number = int(time.time() // self._every) + 1
        while True:
            await asyncio.sleep(max(number * self._every - time.time(), 0))
            await self._send_with_retries(number)
            number = max(number, int(time.time() // self._every)) + 1

    async def _send_with_retries(self, number: int) -> None:
        """Send the digest of a period; after a few failures, the next period's has to do."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                async with asyncio.timeout(self._every / 2):
                    await self.send(number)
            except NotifierRejected as error:
                logger.warning("A digest was refused by %s: %s", self._notifier.name, error)
                return
            except Exception as error:  # noqa: BLE001  the next digest may go through
                logger.warning("A digest was not sent by %s: %s", self._notifier.name, error)
                await asyncio.sleep(min(_FIRST_WAIT * 4**attempt, self._every / 10))
            else:
                return

    async def send(self, number: int) -> DigestNotice | None:
        """Send the digest of a period now, and return it; None if nothing waits.

        Its `number` is part of the digest's id.
        """
        at_ms = int(time.time() * 1_000)
        pending = tuple(
            notification(
                Notice(event="reminder", request=request, at_ms=at_ms),
                run_id,
                namespace=self._namespace,
            )
            for run_id, request in await self._requests.pending()
        )
        if not pending:
            return None
        period = f"{self._every:g}s/{number}"
        digest = DigestNotice(id=f"digest/{period}", at_ms=at_ms, pending=pending)
        await self._notifier.notify_digest(digest)
        return digest
