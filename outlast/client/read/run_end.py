"""The result or the error of a run that waits or has ended."""

from typing import Any

from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError

from outlast.agents.errors import AgentsException, RunCancelled
from outlast.client.read.history import failure_before_the_start
from outlast.client.results.local_definitions import LocalDefinitions
from outlast.client.results.run_result import RunResult, error_of, result_of, run_details
from outlast.contract import failures, names
from outlast.loop.state import LoopState
from outlast.loop.values import Failure


def result_or_raise(state: LoopState, definitions: LocalDefinitions, client: Any) -> RunResult:
    """Return the result of a settled run, or raise its error; update the program's context."""
    definitions.update_context(state.context)
    error = error_of_end(state, definitions)
    if error is not None:
        raise error
    return result_of(state, definitions, client=client)


def error_of_end(state: LoopState, definitions: LocalDefinitions) -> Exception | None:
    """Return the error of a settled run, or None if it has a result."""
    if state.outcome == "cancelled":
        run_data = run_details(state, definitions)
        return RunCancelled(f"The run {state.run_id} was cancelled.", run_data=run_data)
    if state.failure is not None and state.status in {"failed", "terminated", *names.RESTING}:
        return error_of(state.failure, state, definitions)
    return None


def error_of_closing(
    error: WorkflowFailureError, state: LoopState, definitions: LocalDefinitions
) -> Exception:
    """Return the exception for a failed workflow; its last cause is the failure."""
    raised = _error_of(error.cause, state, definitions)
    last = raised
    while isinstance(last.__cause__, Exception):
        last = last.__cause__
    last.__cause__ = error
    return raised


def _error_of(cause: BaseException, state: LoopState, definitions: LocalDefinitions) -> Exception:
    match cause:
        case ApplicationError():
            failure = Failure(code=cause.type or failures.INTERNAL, message=cause.message)
            return error_of(
                state.failure or failure_before_the_start(state, failure), state, definitions
            )
        case CancelledError():
            message = "The run was cancelled."
        case TerminatedError():
            failure = Failure(
                code=failures.TERMINATED, message=f"The run was terminated: {cause.message}"
            )
            return error_of(state.failure or failure, state, definitions)
        case _:
            return AgentsException(
                f"The run failed: {cause}", run_data=run_details(state, definitions)
            )
    return RunCancelled(message, run_data=run_details(state, definitions))
