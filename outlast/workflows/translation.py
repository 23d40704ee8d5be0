"""Between Temporal's own types and ours, for the workflow.

Owns: what Temporal's exceptions mean, the typed failures of runs and updates, retries, search
attributes. Must not know: when they are needed.
"""

from datetime import timedelta
from typing import Any, cast

from temporalio.common import (
    RetryPolicy,
    SearchAttributeKey,
    SearchAttributePair,
    SearchAttributeUpdate,
    TypedSearchAttributes,
)
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
    ChildWorkflowError,
    FailureError,
    WorkflowAlreadyStartedError,
)
from temporalio.exceptions import (
    TimeoutError as EngineTimeoutError,
)

from outlast.contract import history, names
from outlast.contract.failures import USER_ERROR, EngineFailure
from outlast.contract.records import UnreadableRecordError
from outlast.loop.calls import Policy
from outlast.loop.events import Event
from outlast.loop.values import Json, JsonObject


def typed_error(
    code: str, message: str, details: JsonObject | None = None, *, spent: JsonObject | None = None
) -> ApplicationError:
    """Return the error that fails a run, or refuses an update: its type is the failure's code.

    `spent` is what a nested run has used, for the run that asked.
    """
    said = [details] if details else []
    if spent is not None:
        said = [details, spent]
    return ApplicationError(message, *said, type=code, non_retryable=True)


def readable_update(name: str, payload: Json) -> Event:
    """Return the event of an update, which is refused where it cannot be read.

    Raises:
        ApplicationError: it cannot.
    """
    try:
        return history.updated(name, [payload], 0)
    except UnreadableRecordError as error:
        raise typed_error(USER_ERROR, str(error)) from None


def engine_failure(error: FailureError) -> EngineFailure:
    """Return how an activity or a nested run failed, without Temporal's types."""
    # A local activity's failure comes as it is, any other's inside of a wrapper.
    wrapped = isinstance(error, ActivityError | ChildWorkflowError)
    cause = error.cause if wrapped else error
    nested = isinstance(error, ChildWorkflowError | WorkflowAlreadyStartedError)
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
        case FailureError() if not nested:  # how a nested run was stopped, only the engine knows
            return EngineFailure(kind="other", message=cause.message)
        case _:
            return EngineFailure(kind="other", message="" if nested else str(error))


def retry_policy(policy: Policy) -> RetryPolicy:
    """Return how an activity is retried."""
    return RetryPolicy(
        initial_interval=timedelta(milliseconds=policy.initial_interval_ms),
        backoff_coefficient=policy.backoff,
        maximum_interval=timedelta(milliseconds=policy.maximum_interval_ms),
        maximum_attempts=policy.attempts,
    )


def attribute_update(name: str, value: str | int) -> SearchAttributeUpdate[Any]:
    """Return the update of one search attribute."""
    if isinstance(value, int):
        return SearchAttributeKey.for_int(name).value_set(value)
    return SearchAttributeKey.for_keyword(name).value_set(value)


def first_attributes(agent: str) -> TypedSearchAttributes:
    """Return what a run takes to be there already when it starts, so that it need not write it."""
    return TypedSearchAttributes(
        [
            SearchAttributePair(SearchAttributeKey.for_keyword(names.ATTRIBUTE_AGENT), agent),
            SearchAttributePair(SearchAttributeKey.for_keyword(names.ATTRIBUTE_STATUS), "running"),
            SearchAttributePair(SearchAttributeKey.for_int(names.ATTRIBUTE_APPROVALS), 0),
        ]
    )


def _object(value: Any) -> JsonObject | None:
    return cast("JsonObject", value) if isinstance(value, dict) else None
