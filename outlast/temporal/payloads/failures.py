"""Converts Temporal's failures of activities and nested runs to records."""

from typing import Any, cast

from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
    ChildWorkflowError,
    FailureError,
    WorkflowAlreadyStartedError,
)
from temporalio.exceptions import TimeoutError as EngineTimeoutError

from outlast.contract.failures import EngineFailure
from outlast.loop.values import JsonObject


def engine_failure(error: FailureError) -> EngineFailure:
    """Convert the exception that a workflow caught to a failure record."""
    # A local activity's failure comes directly, any other failure inside a wrapper.
    wrapped = isinstance(error, ActivityError | ChildWorkflowError)
    cause = error.cause if wrapped else error
    nested = isinstance(error, ChildWorkflowError | WorkflowAlreadyStartedError)
    return failure_of_cause(cause, nested=nested, shown=str(error))


def failure_of_cause(
    cause: BaseException | None, *, nested: bool = False, shown: str = ""
) -> EngineFailure:
    """Convert the error inside the SDK's wrapper to a failure record.

    `nested` means that it ended a nested run: then an error that is neither an application error, a
    time-out nor a cancellation gets no message. `shown` is the text for an error without a message.
    """
    match cause:
        case ApplicationError():
            details, spent, *_ = (*cause.details, None, None)
            return EngineFailure(
                kind="application",
                code=cause.type or "",
                message=cause.message,
                details=_object(details),
                spent=_object(spent),
            )
        case EngineTimeoutError():
            return EngineFailure(kind="timeout")
        case CancelledError():
            return EngineFailure(kind="cancelled")
        case FailureError() if not nested:
            return EngineFailure(kind="other", message=cause.message)
        case _:
            return EngineFailure(kind="other", message="" if nested else shown)


def _object(value: Any) -> JsonObject | None:
    return cast("JsonObject", value) if isinstance(value, dict) else None
