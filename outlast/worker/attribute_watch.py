"""A worker's regular check of the search attributes of its namespace."""

import asyncio
import logging
from datetime import timedelta
from typing import Final

from temporalio.client import Client

from outlast.contract import names, searchability
from outlast.visibility.search_attributes import lacks_search_attributes

LOOKS_EVERY: Final = timedelta(seconds=10)
"""How long a run that needs a missing attribute is stuck, roughly."""

logger = logging.getLogger("outlast")


async def watch_search_attributes(client: Client, task_queue: str) -> None:
    """Check until cancelled whether the namespace has the search attributes."""
    lacked = False
    while True:
        lacks = await lacks_search_attributes(client, names.SEARCH_ATTRIBUTES)
        if lacks is not None:
            searchability.note(client.namespace, task_queue, lacks=lacks)
            if lacks and not lacked:
                logger.warning(
                    "The namespace %r lacks search attributes (%s). Runs continue without them and "
                    "cannot be found by agent and status. `outlast doctor --fix` adds them.",
                    client.namespace,
                    ", ".join(names.SEARCH_ATTRIBUTES),
                )
            lacked = lacks
        await asyncio.sleep(LOOKS_EVERY.total_seconds())
