"""What a worker shares with the workflows that it hosts, within its process.

A request that is too large for history is passed here: the workflow offers the object that it
holds, and the activity takes it out. The table holds weak references only, so it never keeps a
request alive and never needs cleaning. A miss is normal (another process, an evicted workflow):
the activity then fetches the request from the workflow by query.
"""

from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from outlast.contract.effects import EffectRequest

INLINE_BYTES = 2_000
"""Requests up to this size are written into history, so that short runs read well in the UI."""


class OfferedRequests:
    """The requests that the workflows of a worker hold, for its activities."""

    def __init__(self) -> None:
        self._requests: WeakValueDictionary[tuple[str, int], EffectRequest[Any]] = (
            WeakValueDictionary()
        )

    def offer(self, run_id: str, effect: int, request: EffectRequest[Any]) -> None:
        """Make a request available; the caller must keep it alive until the effect is answered.

        `run_id` is Temporal's run id, which is unique.
        """
        self._requests[run_id, effect] = request

    def take(self, run_id: str, effect: int) -> EffectRequest[Any] | None:
        """Return the request, or None when the worker does not hold it."""
        return self._requests.get((run_id, effect))


@dataclass(eq=False)
class WorkerState:
    """The state of one worker that its workflows see.

    Attributes:
        requests: large requests, on their way to activities.
        lacks_attributes: the worker's namespace lacked search attributes at the last check.
        lacks_tenant: it lacked the one of tenants, which only runs with a tenant need.
    """

    requests: OfferedRequests = field(default_factory=OfferedRequests)
    lacks_attributes: bool = False
    lacks_tenant: bool = False
