"""What a worker shares with the workflows that it hosts, within its process.

A request that is too large for history is passed here: the workflow offers the object that it
holds, and the activity takes it out. The table holds weak references only, so it never keeps a
request alive and never needs cleaning. A miss is normal (another process, an evicted workflow):
the activity then fetches the request from the workflow by query.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakValueDictionary

from outlast.contract.effects import EffectRequest
from outlast.edges.newest import keep_newest

INLINE_BYTES = 2_000
"""Requests up to this size are written into history, so that short runs read well in the UI."""


MOST_LINEAGES: Final = 10_000
"""How many executions' places a worker knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The place of an execution among others, in the server's words.

    Attributes:
        chain_id: the first execution of the run, or of the run that all others are nested in.
        parent_id: the workflow id of the run that started this one as nested; empty without one.
    """

    chain_id: str
    parent_id: str = ""


class Lineages:
    """The places of the executions that a worker hosts, as their workflows know them."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Lineage] = OrderedDict()

    def note(self, execution_id: str, first_id: str, parent: tuple[str, str] | None) -> None:
        """Note an execution: its own id, that of the first of its chain, and its parent's ids.

        The parent's ids are those of its workflow and of its execution. A nested run belongs to the
        chain of its parent; where this worker does not know it, the server has to be asked.
        """
        if parent is None:
            self._keep(execution_id, Lineage(chain_id=first_id))
            return
        workflow_id, parent_execution = parent
        outer = self._known.get(parent_execution)
        if outer is not None:
            self._keep(execution_id, Lineage(chain_id=outer.chain_id, parent_id=workflow_id))

    def get(self, execution_id: str) -> Lineage | None:
        """Return the place of an execution, if its workflow has been in this worker."""
        return self._known.get(execution_id)

    def _keep(self, execution_id: str, lineage: Lineage) -> None:
        keep_newest(self._known, execution_id, lineage, MOST_LINEAGES)


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


def _nothing(_namespace: str, _chain_id: str) -> None:
    pass


@dataclass(eq=False)
class WorkerState:
    """The state of one worker that its workflows see.

    Attributes:
        requests: large requests, on their way to activities.
        lineages: which run each execution belongs to.
        on_end: called with the namespace and the first execution of a run whose workflow ends.
        lacks: the search attributes that the worker's namespace may have lacked at the last check.
    """

    requests: OfferedRequests = field(default_factory=OfferedRequests)
    lineages: Lineages = field(default_factory=Lineages)
    on_end: Callable[[str, str], None] = field(default=_nothing, repr=False)
    lacks: frozenset[str] = frozenset()
