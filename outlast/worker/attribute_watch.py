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

_KINDS: Final = (
    (
        names.ATTRIBUTES_OF_ALL,
        "Runs continue without them and cannot be found by agent and status.",
    ),
    (names.ATTRIBUTES_OF_OWNERS, "New runs cannot be found by tenant and customer."),
    (
        names.ATTRIBUTES_OF_CASE,
        "Conversations cannot be found by team, assignee, tag and rating.",
    ),
)
"""The search attributes of each kind of run, and what is lost without one. The namespace of an older
version has those of all runs."""

logger: Final = logging.getLogger("outlast")


async def watch_search_attributes(client: Client, state: WorkerState) -> None:
    """Check until cancelled whether the namespace has the search attributes."""
    while True:
        lacks_any = await lacks_search_attributes(client, names.SEARCH_ATTRIBUTES)
        if lacks_any is not None:
            state.lacks = await _lacking(client, state.lacks) if lacks_any else frozenset()
        await asyncio.sleep(LOOKS_EVERY.total_seconds())


async def _lacking(client: Client, before: frozenset[str]) -> frozenset[str]:
    """Return the search attributes of each kind of which one is missing; log what is new."""
    found: set[str] = set()
    for kind, lost in _KINDS:
        of_kind = {one: names.SEARCH_ATTRIBUTES[one] for one in kind}
        lacks = await lacks_search_attributes(client, of_kind)
        if lacks is None:
            return before
        if not lacks:
            continue
        found |= of_kind.keys()
        if before.isdisjoint(of_kind):
            logger.warning(
                "The namespace %r lacks search attributes of %s. %s `outlast doctor --fix` adds them.",
                client.namespace,
                ", ".join(of_kind),
                lost,
            )
    return frozenset(found)
