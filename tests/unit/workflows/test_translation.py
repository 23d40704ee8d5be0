"""Between Temporal's own types and ours: no failure of the engine gets lost or its meaning bent."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.common import SearchAttributeKey
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
    ChildWorkflowError,
    FailureError,
    RetryState,
    ServerError,
    TerminatedError,
    TimeoutType,
    WorkflowAlreadyStartedError,
)
from temporalio.exceptions import TimeoutError as EngineTimeoutError

from outlast.contract import names
from outlast.contract.failures import EngineFailure
from outlast.loop.calls import ExecutionOptions
from outlast.temporal.payloads.attributes import first_attributes
from outlast.temporal.payloads.failures import engine_failure
from outlast.workflows.translation import (
    attribute_update,
    retry_policy,
    typed_error,
)


def activity(cause: FailureError) -> ActivityError:
    error = ActivityError(
        "Activity task failed",
        scheduled_event_id=5,
        started_event_id=6,
        identity="w",
        activity_type="tool:f",
        activity_id="3",
        retry_state=RetryState.MAXIMUM_ATTEMPTS_REACHED,
    )
    error.__cause__ = cause
    return error


def nested(cause: FailureError) -> ChildWorkflowError:
    error = ChildWorkflowError(
        "Child Workflow execution failed",
        namespace="default",
        workflow_id="r/f-3",
        run_id="x",
        workflow_type="AgentRun",
        initiated_event_id=5,
        started_event_id=6,
        retry_state=None,
    )
    error.__cause__ = cause
    return error


def as_it_is(cause: FailureError) -> FailureError:
    """As a local activity's failure comes."""
    return cause


WRAPPED = pytest.mark.parametrize("wrapped", [activity, nested, as_it_is])


@WRAPPED
def test_a_typed_error_keeps_its_type_message_and_details(wrapped: Any) -> None:
    error = typed_error("quota", "No money.", {"a": 1})
    assert error.non_retryable
    assert engine_failure(wrapped(error)) == EngineFailure(
        kind="application", code="quota", message="No money.", details={"a": 1}
    )


@pytest.mark.parametrize("details", [{"a": 1}, None])
def test_what_a_nested_run_has_spent_comes_with_its_failure(details: Any) -> None:
    error = typed_error("quota", "No money.", details, spent={"requests": 2})
    assert engine_failure(nested(error)) == EngineFailure(
        kind="application",
        code="quota",
        message="No money.",
        details=details,
        spent={"requests": 2},
    )


@WRAPPED
@pytest.mark.parametrize("details", [(), ("text",), (None,), ([1],)])
def test_details_that_are_no_object_are_none(wrapped: Any, details: tuple[Any, ...]) -> None:
    failure = engine_failure(wrapped(ApplicationError("Oh.", *details)))
    assert failure == EngineFailure(kind="application", message="Oh.")


@WRAPPED
def test_a_time_out_is_one_whatever_it_says(wrapped: Any) -> None:
    error = EngineTimeoutError("x", type=TimeoutType.START_TO_CLOSE, last_heartbeat_details=[])
    assert engine_failure(wrapped(error)) == EngineFailure(kind="timeout")


@WRAPPED
def test_a_cancellation_is_one(wrapped: Any) -> None:
    assert engine_failure(wrapped(CancelledError("x"))) == EngineFailure(kind="cancelled")


@pytest.mark.parametrize("wrapped", [activity, as_it_is])
def test_any_other_failure_of_an_activity_says_what_the_server_said(wrapped: Any) -> None:
    failure = engine_failure(wrapped(ServerError("The server said no.")))
    assert failure == EngineFailure(kind="other", message="The server said no.")


def test_how_a_nested_run_was_stopped_is_not_for_the_model_to_read() -> None:
    assert engine_failure(nested(TerminatedError("by an operator"))) == EngineFailure(kind="other")
    taken = WorkflowAlreadyStartedError("r/f-3", "AgentRun")
    assert engine_failure(taken) == EngineFailure(kind="other")


def test_a_failure_without_a_cause_says_what_it_can() -> None:
    alone = activity(ServerError("x"))
    alone.__cause__ = None
    assert engine_failure(alone) == EngineFailure(kind="other", message="Activity task failed")


def test_retries_are_those_of_the_policy() -> None:
    policy = ExecutionOptions(
        attempts=4, initial_interval_ms=250, backoff=1.5, maximum_interval_ms=9_000
    )
    retry = retry_policy(policy)
    assert (retry.maximum_attempts, retry.backoff_coefficient) == (4, 1.5)
    assert retry.initial_interval == timedelta(milliseconds=250)
    assert retry.maximum_interval == timedelta(seconds=9)


def test_an_error_without_details_has_none() -> None:
    assert typed_error("user_error", "No.").details == ()
    assert typed_error("user_error", "No.", {}).details == ()


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        (names.ATTRIBUTE_STATUS, "waiting", SearchAttributeKey.for_keyword),
        (names.ATTRIBUTE_STATUS, None, SearchAttributeKey.for_keyword),
        (names.ATTRIBUTE_APPROVALS, 3, SearchAttributeKey.for_int),
        (names.ATTRIBUTE_GROUPS, ["billing"], SearchAttributeKey.for_keyword_list),
        (names.ATTRIBUTE_GROUPS, None, SearchAttributeKey.for_keyword_list),
        (names.ATTRIBUTE_DUE, datetime(2026, 1, 1, tzinfo=UTC), SearchAttributeKey.for_datetime),
        (names.ATTRIBUTE_DUE, None, SearchAttributeKey.for_datetime),
    ],
)
def test_an_attribute_is_updated_as_what_it_is_registered(name: str, value: Any, kind: Any) -> None:
    update = attribute_update(name, value)
    assert (update.key, update.value) == (kind(name), value)


def test_a_nested_run_starts_with_the_attributes_that_it_takes_to_be_there() -> None:
    first: Any = first_attributes("Billing")
    pairs = {pair.key.name: pair.value for pair in first.search_attributes}
    assert pairs == {
        names.ATTRIBUTE_AGENT: "Billing",
        names.ATTRIBUTE_APPROVALS: 0,
    }
