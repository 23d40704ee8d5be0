"""The result or the error of a run that waits or has ended."""

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


def result_or_raise(state: LoopState, known: KnownAgents, client: Any) -> RunResult:
    """Return the result of a run that waits or has ended; update the program's context.

    Raises:
        RunCancelled: the run was cancelled.
        AgentsException: the question has no answer; the subclass says why.
        Exception: an exception of user code in the run.
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
    """Return the exception for a failed workflow, with the workflow's failure as its last cause."""
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
