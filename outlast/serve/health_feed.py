"""How the installation is, for everybody at the desk: one look each few seconds and process."""

from datetime import timedelta
from typing import Final

from temporalio.client import Client
from temporalio.service import RPCError

from outlast.agents.errors import AgentsException
from outlast.edges.clock import now_ms
from outlast.monitor.health import Health, health_of, reported_health
from outlast.monitor.reading import NamespaceReader
from outlast.serve.visibility_feed import PolledFeed

COUNTS_AGAIN_MS: Final = 15_000
"""How long what this process has counted itself counts as present."""


class HealthFeed(PolledFeed[Health]):
    """How the installation is: what `outlast monitor` counts, or else what this process does.

    Args:
        queue: the task queue of the desk, which is looked at also while it has no run.
    """

    def __init__(self, queue: str | None = None) -> None:
        super().__init__(timedelta(seconds=5))
        self._queues = () if queue is None else (queue,)
        self._reader: NamespaceReader | None = None
        self._counted: Health | None = None

    async def look(self, client: Client) -> tuple[Health, ...]:
        """Return how it is; a server that does not answer is part of that."""
        try:
            return (await reported_health(client) or await self._count(client),)
        except (AgentsException, RPCError):
            return (Health(at_ms=now_ms(), answers=False),)

    async def _count(self, client: Client) -> Health:
        known = self._counted
        if known is None or now_ms() - known.at_ms >= COUNTS_AGAIN_MS:
            if self._reader is None:
                self._reader = NamespaceReader(client, queues=self._queues, is_brief=True)
            known = self._counted = health_of(await self._reader.count())
        return known
