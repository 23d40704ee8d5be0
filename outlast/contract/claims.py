"""Requests by claim: what is too large for history is handed over in the process.

Owns: the table of requests that are in flight in this process. A worker's workflow puts the very
object here that it keeps alive itself; the activity takes it from here. The table holds weak
references only, so it never keeps a request alive and never needs cleaning. A miss is normal
(another process, an evicted workflow): the activity then asks the workflow by query.
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
        run_id: Temporal's run id, which no two runs share.
        effect: the number of the effect.
        request: has to be kept alive by the caller until the effect is answered.
    """
    _requests[run_id, effect] = request


def take(run_id: str, effect: int) -> EffectRequest[Any] | None:
    """Return the request, or None when it is not in this process."""
    return _requests.get((run_id, effect))
