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

logger: Final = logging.getLogger("outlast")


async def watch_search_attributes(client: Client, state: WorkerState) -> None:
    """Check until cancelled whether the namespace has the search attributes."""
    while True:
        lacks_any = await lacks_search_attributes(client, names.SEARCH_ATTRIBUTES)
        lacks = lacks_any
        if lacks_any:  # the namespace of an older version lacks only the tenant's
            lacks = await lacks_search_attributes(client, names.WITHOUT_TENANT)
        if lacks is not None:
            if lacks_any and not lacks and not state.lacks_tenant:
                logger.warning(
                    "The namespace %r lacks the search attribute %s. New runs cannot be found by "
                    "tenant. `outlast doctor --fix` adds it.",
                    client.namespace,
                    names.ATTRIBUTE_TENANT,
                )
            if lacks and not state.lacks_attributes:
                logger.warning(
                    "The namespace %r lacks search attributes (%s). Runs continue without them and "
                    "cannot be found by agent and status. `outlast doctor --fix` adds them.",
                    client.namespace,
                    ", ".join(names.SEARCH_ATTRIBUTES),
                )
            state.lacks_attributes, state.lacks_tenant = lacks, bool(lacks_any)
        await asyncio.sleep(LOOKS_EVERY.total_seconds())
