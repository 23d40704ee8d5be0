"""What proofs are checked with: keys, and the server's word about executions."""

from dataclasses import dataclass
from typing import Protocol

from outlast.contract.identity import NO_KEYS, IdentityKeys
from outlast.contract.worker_state import Lineage


class LineageReader(Protocol):
    """Asks the server about executions."""

    async def __call__(self, workflow_id: str, execution_id: str) -> Lineage:
        """Return the lineage of an execution; a `ConnectionError` if the server does not answer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """The execution that scheduled an activity, as the server names it.

    Attributes:
        execution_id: its run id, in Temporal's words.
    """

    namespace: str
    workflow_id: str
    execution_id: str


@dataclass(eq=False)
class WorkerIdentity:
    """What a worker checks proofs with; known when the worker starts.

    Attributes:
        keys: the keys that it trusts.
        lineage: asks the server about executions; None before the start.
        note_keys: the keys that sign and check the notes of calls; none: notes are not checked.
        takes_unsigned_notes: whether notes without a proof count, such as those of an older release.
    """

    keys: IdentityKeys = NO_KEYS
    lineage: LineageReader | None = None
    note_keys: tuple[bytes, ...] = ()
    takes_unsigned_notes: bool = False

    async def lineage_of(self, execution: Execution) -> Lineage:
        """Return the lineage of the execution that scheduled an activity."""
        if self.lineage is None:
            raise ConnectionError("The worker is not connected to a server yet.")
        return await self.lineage(execution.workflow_id, execution.execution_id)
