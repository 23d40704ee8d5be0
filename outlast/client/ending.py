"""How a run ended, as a result or as the error that says why there is none.

Owns: the verdict on a state of the loop, and on what the engine says of a workflow that it ended.
Must not know: how either was read.
"""

from dataclasses import replace
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError

from outlast.agents.errors import AgentsException, RunCancelled
from outlast.client.known_agents import KnownAgents
from outlast.client.results import RunResult, error_of, result_of, run_details
from outlast.contract import failures
from outlast.loop.state import RunState
from outlast.loop.values import Failure

_TIMED_OUT = "The engine ended the run: it took longer than it may."


def as_left(state: RunState, closed_by: HistoryEvent | None) -> RunState:
    """Return a run as the engine left it; one that it ended past the loop waits for nobody.

    Args:
        state: the last state of the loop.
        closed_by: the record that ended the run, if one has.
    """
    if closed_by is None or state.outcome is not None:
        return state
    approvals = tuple(
        replace(request, status="cancelled") if request.status == "pending" else request
        for request in state.approvals
    )
    left = replace(state, phase="closed", pending=(), nested=(), approvals=approvals)
    match closed_by.event_type:
        case (
            EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED
            | EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED
        ):
            return replace(left, outcome="cancelled")
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT:
            failure = Failure(code=failures.INTERNAL, message=_TIMED_OUT)
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
            lost = closed_by.workflow_execution_failed_event_attributes.failure
            code = lost.application_failure_info.type or failures.INTERNAL
            failure = state.failure or _before_the_start(
                state, Failure(code=code, message=lost.message)
            )
        case _:  # it continues in another history
            return state
    return replace(left, outcome="failed", failure=failure)


def verdict(state: RunState, known: KnownAgents, client: Any) -> RunResult:
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
    if state.failure is not None and state.status in {"failed", "idle"}:
        raise error_of(state.failure, state, known)
    return result_of(state, known, client=client)


def error_of_closing(error: WorkflowFailureError, state: RunState, known: KnownAgents) -> Exception:
    """Return what the failure of a workflow stands for; its last cause is that failure."""
    raised = _error_of(error.cause, state, known)
    last = raised
    while isinstance(last.__cause__, Exception):
        last = last.__cause__
    last.__cause__ = error
    return raised


def _error_of(cause: BaseException, state: RunState, known: KnownAgents) -> Exception:
    match cause:
        case ApplicationError():
            failure = Failure(code=cause.type or failures.INTERNAL, message=cause.message)
            return error_of(state.failure or _before_the_start(state, failure), state, known)
        case CancelledError():
            message = "The run was cancelled."
        case TerminatedError():
            message = f"The run was terminated: {cause.message}"
        case _:
            return AgentsException(f"The run failed: {cause}", run_data=run_details(state, known))
    return RunCancelled(message, run_data=run_details(state, known))


def _before_the_start(state: RunState, failure: Failure) -> Failure:
    """Return the failure of a run; one that the SDK failed before it began has an unreadable input."""
    if state.phase != "new" or failure.code in failures.CODES:
        return failure
    message = f"The run's input is unreadable: {failure.message}"
    return replace(failure, code=failures.USER_ERROR, message=message)
