"""The gate of signed deliveries: the worker that runs a tool checks what came for its waits.

The run's state says what was delivered, and whoever reaches the Temporal server can write it. Here,
before a tool reads a value, its proof is verified. The tool's own code says which waits need one.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from outlast.contract.delivery_proofs import delivery_proof_problem
from outlast.contract.identity import IdentityKeys, Place
from outlast.loop.actions import DeliverRecord
from outlast.loop.calls import Arrival
from outlast.loop.effects import RunTool
from outlast.ports.identity import Execution, WorkerIdentity

NONE: Final[Mapping[str, str]] = {}


async def unproven_deliveries(
    identity: WorkerIdentity,
    request: RunTool,
    execution: Execution | None,
    arrived: tuple[Arrival, ...],
) -> Mapping[str, str]:
    """Return why deliveries do not count as signed, by the names of their waits.

    Args:
        identity: what the worker checks proofs with.
        request: the call.
        execution: the execution that asks for the call, in the server's words; None in memory,
            where the process believes itself.
        arrived: what came of the call's waits, as the run recorded it.
    """
    if execution is None or not arrived:
        return NONE
    # A run without nested runs and without earlier histories is its own first execution.
    found = dict(_problems(identity.keys, request, execution, execution.execution_id, arrived))
    if not identity.keys or all(one.proof is None for one in arrived if one.name in found):
        return found
    lineage = await identity.lineage_of(execution)
    return dict(_problems(identity.keys, request, execution, lineage.chain_id, arrived))


def _problems(
    keys: IdentityKeys,
    request: RunTool,
    execution: Execution,
    chain_id: str,
    arrived: tuple[Arrival, ...],
) -> Iterator[tuple[str, str]]:
    place = Place(namespace=execution.namespace, chain_id=chain_id, run_id=execution.workflow_id)
    for one in arrived:
        if one.timed_out or one.is_default:  # no value of anybody
            continue
        record = DeliverRecord(
            question=request.question,
            turn=request.turn,
            call_id=request.call_id,
            name=one.name,
            value=one.value,
            delivery_id=one.delivery_id or "none",
            source=one.source,
            proof=one.proof,
        )
        # It has reached its run, so its age is that of then: the tool may read it much later.
        problem = delivery_proof_problem(record, place, keys, at_ms=one.at_ms)
        if problem is not None:
            yield one.name, f"The delivery {one.delivery_id!r:.80} does not count: {problem}."
