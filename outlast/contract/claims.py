"""Requests that are too large for history, passed within the process.

A worker's workflow puts the request object that it holds into this table, and the activity takes
it out. The table holds weak references only, so it never keeps a request alive and never needs
cleaning. A miss is normal (another process, an evicted workflow): the activity then fetches the
request from the workflow by query.
"""

from typing import Any
from weakref import WeakValueDictionary

from outlast.contract.effects import EffectRequest

INLINE_BYTES = 2_000
"""Requests up to this size are written into history, so that short runs read well in the UI."""

_requests: WeakValueDictionary[tuple[str, int], EffectRequest[Any]] = WeakValueDictionary()


def offer(run_id: str, effect: int, request: EffectRequest[Any]) -> None:
    """Make a request available to activities of this process.

    Args:
        run_id: Temporal's run id, which is unique.
        effect: the number of the effect.
        request: the caller must keep it alive until the effect is answered.
    """
    _requests[run_id, effect] = request


def take(run_id: str, effect: int) -> EffectRequest[Any] | None:
    """Return the request, or None when it is not in this process."""
    return _requests.get((run_id, effect))
