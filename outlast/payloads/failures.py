"""How an activity or a nested run failed, without Temporal's types."""

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
    """Return what the exception that a workflow catches stands for."""
    # A local activity's failure comes as it is, any other's inside of a wrapper.
    wrapped = isinstance(error, ActivityError | ChildWorkflowError)
    cause = error.cause if wrapped else error
    nested = isinstance(error, ChildWorkflowError | WorkflowAlreadyStartedError)
    return failure_of_cause(cause, nested=nested, shown=str(error))


def failure_of_cause(
    cause: BaseException | None, *, nested: bool = False, shown: str = ""
) -> EngineFailure:
    """Return what the error inside of the SDK's wrapper stands for.

    Args:
        cause: the error.
        nested: it ended a nested run; how one was stopped, only the engine knows.
        shown: the text for an error without one.
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
