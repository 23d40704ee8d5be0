"""A worker's regular check of the search attributes of its namespace."""

import asyncio
import logging
from datetime import timedelta
from typing import Final

from temporalio.client import Client

from outlast.contract import names
from outlast.contract.worker_state import WorkerState
from outlast.temporal.visibility.search_attributes import lacks_search_attributes

LOOKS_EVERY: Final = timedelta(seconds=10)
"""How long a run that needs a missing attribute is stuck, roughly."""

logger: Final = logging.getLogger("outlast")


async def watch_search_attributes(client: Client, state: WorkerState) -> None:
    """Check until cancelled whether the namespace has the search attributes."""
    while True:
        lacks_any = await lacks_search_attributes(client, names.SEARCH_ATTRIBUTES)
        lacks = lacks_any
        if lacks_any:  # the namespace of an older version lacks only these
            lacks = await lacks_search_attributes(client, names.WITHOUT_OWNERS)
        if lacks is not None:
            if lacks_any and not lacks and not state.lacks_owners:
                logger.warning(
                    "The namespace %r lacks search attributes of %s. New runs cannot be found by "
                    "tenant and customer. `outlast doctor --fix` adds them.",
                    client.namespace,
                    " or ".join(names.ATTRIBUTES_OF_OWNERS),
                )
            if lacks and not state.lacks_attributes:
                logger.warning(
                    "The namespace %r lacks search attributes (%s). Runs continue without them and "
                    "cannot be found by agent and status. `outlast doctor --fix` adds them.",
                    client.namespace,
                    ", ".join(names.SEARCH_ATTRIBUTES),
                )
            state.lacks_attributes, state.lacks_owners = lacks, bool(lacks_any)
        await asyncio.sleep(LOOKS_EVERY.total_seconds())
