"""How a run ended, as a result or as the error that says why there is none.

Owns: the verdict on a state of the loop, and on what the engine says of a workflow that it ended.
Must not know: how either was read.
"""

from typing import Any

from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError

from outlast.agents.errors import AgentsException, RunCancelled
from outlast.client.history import failure_before_the_start
from outlast.client.known_agents import KnownAgents
from outlast.client.results import RunResult, error_of, result_of, run_details
from outlast.contract import failures
from outlast.loop.state import LoopState
from outlast.loop.values import Failure


def verdict(state: LoopState, known: KnownAgents, client: Any) -> RunResult:
    """Return what a run came to that waits or has ended; the program's context is told of it.

    Raises:
        RunCancelled: it was cancelled.
        AgentsException: what was asked could not be answered; the subclass says why.
        Exception: what users' code raised in the run.
    """
    known.give_back(state.context)
    if state.outcome == "cancelled":
        run_data = run_details(state, known)
        raise RunCancelled(f"The run {state.run_id} was cancelled.", run_data=run_data)
    if state.failure is not None and state.status in {"failed", "terminated", "idle"}:
        raise error_of(state.failure, state, known)
    return result_of(state, known, client=client)


def error_of_closing(
    error: WorkflowFailureError, state: LoopState, known: KnownAgents
) -> Exception:
    """Return what the failure of a workflow stands for; its last cause is that failure."""
    raised = _error_of(error.cause, state, known)
    last = raised
    while isinstance(last.__cause__, Exception):
        last = last.__cause__
    last.__cause__ = error
    return raised


def _error_of(cause: BaseException, state: LoopState, known: KnownAgents) -> Exception:
    match cause:
        case ApplicationError():
            failure = Failure(code=cause.type or failures.INTERNAL, message=cause.message)
            return error_of(state.failure or failure_before_the_start(state, failure), state, known)
        case CancelledError():
            message = "The run was cancelled."
        case TerminatedError():
            failure = Failure(
                code=failures.TERMINATED, message=f"The run was terminated: {cause.message}"
            )
            return error_of(state.failure or failure, state, known)
        case _:
            return AgentsException(f"The run failed: {cause}", run_data=run_details(state, known))
    return RunCancelled(message, run_data=run_details(state, known))
