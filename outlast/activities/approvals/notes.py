"""The gate of notes: the worker that runs a tool signs what the tool has noted, and checks it later.

What `ctx.once` has returned, and the task of an MCP server, come from the run's state when a call
runs again. Whoever reaches the Temporal server can write it. So where a worker has delivery keys, a
tool reads only notes that a worker with these keys has signed for this very call.
"""

from dataclasses import replace
from typing import Final

from outlast.activities.errors import EffectError, lacking
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.context.wait_urls import KEYS_VARIABLE, UNSIGNED_VARIABLE
from outlast.agents.logs import get_logger
from outlast.contract import failures
from outlast.contract.identity import Place
from outlast.contract.note_proofs import NotedCall, NoteProblem, notes_problem, notes_proof
from outlast.loop.calls import OutsideWait
from outlast.loop.effects import CleanUp, RunTool
from outlast.ports.identity import Execution, WorkerIdentity

logger: Final = get_logger(__name__)


async def signed_notes(
    worker: WorkerDeps, request: RunTool, execution: Execution | None, wait: OutsideWait
) -> OutsideWait:
    """Return a wait with the proof of its notes, if it has notes and the worker has keys."""
    identity = worker.identity
    if wait.done is None or identity is None or not identity.note_keys or execution is None:
        return wait
    call = await _noted_call(worker, identity, request, execution)
    return replace(wait, done_proof=notes_proof(wait.done, call, identity.note_keys))


async def refused_notes(
    worker: WorkerDeps, request: RunTool, execution: Execution | None, *, is_last: bool
) -> str | None:
    """Return why the tool of a call must not run again, for people and the model; None if it may.

    The function of a `once` whose result does not count is not called again, since it may have had
    its effect.

    Args:
        worker: the worker.
        request: the call, with the notes that the run has.
        execution: the execution that asks for the call, in the server's words; None in memory,
            where the process believes itself.
        is_last: no other worker will be asked.

    Raises:
        EffectError: this worker cannot check the notes; another one may.
    """
    identity = worker.identity
    if request.done is None or identity is None or not identity.note_keys or execution is None:
        return None
    if request.done_proof is None and identity.takes_unsigned_notes:
        return None
    call = await _noted_call(worker, identity, request, execution)
    problem = notes_problem(request.done, request.done_proof, call, identity.note_keys)
    if problem is None:
        return None
    words = _words(request, problem)
    logger.warning("call %s of run %s: %s", request.call_id, execution.workflow_id, words)
    if isinstance(request, CleanUp):
        raise EffectError(failures.TOOL_FAILED, words, retryable=False)
    if problem == "forged" or is_last:
        return words
    raise lacking(words)


async def _noted_call(
    worker: WorkerDeps, identity: WorkerIdentity, request: RunTool, execution: Execution
) -> NotedCall:
    key = worker.key
    chain_id = key.chain_id if key else (await identity.lineage_of(execution)).chain_id
    return NotedCall(
        place=Place(namespace=execution.namespace, chain_id=chain_id, run_id=execution.workflow_id),
        question=request.question,
        turn=request.turn,
        agent=request.agent,
        tool=request.name,
        source=request.source,
        call_id=request.call_id,
        arguments=request.arguments,
    )


def _words(request: RunTool, problem: NoteProblem) -> str:
    tool = request.name
    if problem == "no proof":
        return (
            f"The tool {tool} does not run again: what it noted before it waited has no proof. The "
            f"worker that wrote it had no {KEYS_VARIABLE}, or an older release, or somebody else "
            f"wrote it. Until such calls have ended, {UNSIGNED_VARIABLE}=accept lets workers take "
            "them."
        )
    if problem == "unknown key":
        return (
            f"The tool {tool} does not run again: what it noted before it waited is signed with a "
            f"key that is not in this worker's {KEYS_VARIABLE}. Add the key, or keep the old one "
            "until such calls have ended."
        )
    return (
        f"The tool {tool} did not run again: what it noted before it waited was written for another "
        "call, or by somebody else. Its first part may have had its effect: look before you call "
        "it again."
    )
