"""How a namespace is, in a few figures: the process that counts passes them on to desks.

They are in the heartbeats of its lease, so a desk reads them with one call, and counts nothing itself.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Final

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from outlast.contract import names, records
from outlast.edges.clock import now_ms
from outlast.loop.values import JsonObject
from outlast.monitor.counts import Counts, Queue

FRESH: Final = timedelta(seconds=45)
"""How long what a process counted counts as present: it counts every 15 seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueHealth:
    """A task queue.

    Attributes:
        name: its name.
        workers: how many workers poll it.
        versions: how many of them have each version.
        tasks: how many tasks no worker has taken.
        age_seconds: how long the oldest of them has waited.
    """

    name: str
    workers: int
    versions: Mapping[str, int] = field(default_factory=dict[str, int])
    tasks: int = 0
    age_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How a namespace is.

    Attributes:
        at_ms: when it was counted, in milliseconds since the epoch.
        since_ms: since when failing models are noted, up to an hour.
        answers: whether the server answers; without it, nothing else is known.
        queues: the task queues of open runs.
        model_errors: how many runs had a failing model call in the last hour.
        kept: how many runs have a decision or a delivery that no worker has taken.
        overdue: how many runs have a request whose deadline nothing has acted on.
        is_whole: whether each open run was looked at.
    """

    at_ms: int
    since_ms: int = 0
    answers: bool = True
    queues: tuple[QueueHealth, ...] = ()
    model_errors: int = 0
    kept: int = 0
    overdue: int = 0
    is_whole: bool = True

    def record(self) -> JsonObject:
        """Return it as JSON."""
        return asdict(self)


def health_of(counts: Counts) -> Health:
    """Return the figures of what was counted."""
    return Health(
        at_ms=counts.at_ms,
        since_ms=counts.since_ms,
        queues=tuple(_queue(name, one) for name, one in sorted(counts.queues.items())),
        model_errors=counts.model_errors,
        kept=counts.troubles.get("kept", 0),
        overdue=sum(one.overdue for one in counts.by_risk.values()),
        is_whole=counts.looked_at >= counts.open,
    )


def _queue(name: str, queue: Queue) -> QueueHealth:
    waiting = [one for (_, version), one in queue.backlog.items() if not version]
    return QueueHealth(
        name=name,
        workers=min(queue.workers.values(), default=0),
        versions=queue.versions,
        tasks=sum(one.tasks for one in waiting),
        age_seconds=max((one.age_seconds for one in queue.backlog.values()), default=0.0),
    )


async def reported_health(client: Client) -> Health | None:
    """Return what the process that counts this namespace says; None if there is none.

    Raises:
        RPCError: the server does not answer.
    """
    try:
        found = await client.get_workflow_handle(names.MONITOR_QUEUE).describe()
        for one in found.raw_description.pending_activities:
            details = await client.data_converter.decode(list(one.heartbeat_details.payloads))
            health = records.read(Health, details[0]) if details else None
            if health is not None and now_ms() - health.at_ms < FRESH / timedelta(milliseconds=1):
                return health
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
    except Exception:  # noqa: BLE001  a codec is users' code, and another version's record may differ
        return None
    return None
