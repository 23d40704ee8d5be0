"""A worker's regular check of the search attributes of its namespace."""

import asyncio
import logging
from datetime import timedelta
from typing import Final

from temporalio.client import Client

from outlast.contract import names
from outlast.contract.worker_state import WorkerState
from outlast.visibility.search_attributes import lacks_search_attributes

LOOKS_EVERY: Final = timedelta(seconds=10)
"""How long a run that needs a missing attribute is stuck, roughly."""

logger = logging.getLogger("outlast")


async def watch_search_attributes(client: Client, state: WorkerState) -> None:
    """Check until cancelled whether the namespace has the search attributes."""
    while True:
        lacks = await lacks_search_attributes(client, names.SEARCH_ATTRIBUTES)
        if lacks is not None:
            if lacks and not state.lacks_attributes:
                logger.warning(
                    "The namespace %r lacks search attributes (%s). Runs continue without them and "
                    "cannot be found by agent and status. `outlast doctor --fix` adds them.",
                    client.namespace,
                    ", ".join(names.SEARCH_ATTRIBUTES),
                )
            state.lacks_attributes = lacks
        await asyncio.sleep(LOOKS_EVERY.total_seconds())
