"""Telling people who wait what is being tried again, and why.

A wrong address or key of a model is retried for minutes, which looks like hanging. Owns: asking
Temporal for attempts that failed. Must not know: how runs are watched.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from temporalio.api.failure.v1 import Failure
    from temporalio.client import Client

LOOK_EVERY = timedelta(seconds=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """An effect whose attempt failed, and which is tried again.

    Attributes:
        activity: the activity type, such as `call_model`.
        attempt: the number of the attempt that failed.
        reason: what it failed with.
    """

    activity: str
    attempt: int
    reason: str

    def __str__(self) -> str:
        return f"{self.activity}, attempt {self.attempt}: {self.reason} It is tried again."


@asynccontextmanager
async def tell_retries(
    client: "Client", run_id: str, tell: Callable[[Retry], None]
) -> AsyncGenerator[None]:
    """Call `tell` with each retry of a run while the block runs, once for each attempt seen."""
    from temporalio.service import RPCError

    async def look() -> None:
        told: set[tuple[str, int]] = set()
        while True:
            await asyncio.sleep(LOOK_EVERY.total_seconds())
            with suppress(RPCError):
                for activity_id, retry in await _retries(client, run_id):
                    if (activity_id, retry.attempt) not in told:
                        told.add((activity_id, retry.attempt))
                        tell(retry)

    looking = asyncio.create_task(look())
    try:
        yield
    finally:
        looking.cancel()


async def _retries(client: "Client", run_id: str) -> list[tuple[str, Retry]]:
    description = await client.get_workflow_handle(run_id).describe()
    return [
        (
            info.activity_id,
            Retry(
                activity=info.activity_type.name,
                attempt=info.attempt - 1,
                reason=_reason(info.last_failure),
            ),
        )
        for info in description.raw_description.pending_activities
        if info.attempt > 1 and info.HasField("last_failure")
    ]


def _reason(failure: "Failure") -> str:
    """Return what an attempt failed with; the server puts what it had to cut inside of its own."""
    if failure.HasField("server_failure_info") and failure.HasField("cause"):
        failure = failure.cause
    return failure.message
