"""Between Temporal's own types and ours, for the workflow.

Owns: the typed failures of runs and updates, retries, search
attributes. Must not know: when they are needed.
"""

import asyncio
from datetime import timedelta
from typing import Any, NoReturn

from temporalio import workflow
from temporalio.common import (
    RetryPolicy,
    SearchAttributeKey,
    SearchAttributePair,
    SearchAttributeUpdate,
    TypedSearchAttributes,
)
from temporalio.exceptions import ApplicationError

from outlast.contract import history
from outlast.contract.failures import USER_ERROR
from outlast.contract.records import LARGEST_BYTES, UnreadableRecordError, too_large
from outlast.loop.calls import Policy
from outlast.loop.events import Event
from outlast.loop.values import Json, JsonObject
from outlast.payloads.readable import sent_bytes


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


def check_size(payload: object) -> None:
    """Refuse an update that the server would not record: its workflow task would fail for ever.

    Raises:
        ApplicationError: it is too large.
    """
    size = sent_bytes(payload)
    if size > LARGEST_BYTES:
        raise typed_error(USER_ERROR, too_large(size))


def end_as_cancelled() -> NoReturn:
    """End the workflow as cancelled, whoever asked for it, and in which way.

    The SDK does so where the engine asked. A person may have sent the signal `cancel` instead; for
    that, the SDK has no public means.

    Raises:
        asyncio.CancelledError: always.
    """
    if workflow.cancellation_reason() is None:
        vars(asyncio.get_running_loop())["_cancel_reason"] = "the signal `cancel`"
    raise asyncio.CancelledError


def retry_policy(policy: Policy) -> RetryPolicy:
    """Return how an activity is retried."""
    return RetryPolicy(
        initial_interval=timedelta(milliseconds=policy.initial_interval_ms),
        backoff_coefficient=policy.backoff,
        maximum_interval=timedelta(milliseconds=policy.maximum_interval_ms),
        maximum_attempts=policy.attempts,
    )


def attribute_update(name: str, value: str | int | None) -> SearchAttributeUpdate[Any]:
    """Return the update of one search attribute; None takes it away."""
    if isinstance(value, int):
        return SearchAttributeKey.for_int(name).value_set(value)
    key = SearchAttributeKey.for_keyword(name)
    return key.value_unset() if value is None else key.value_set(value)


NO_ATTRIBUTES = TypedSearchAttributes(
    [
        SearchAttributePair(
            SearchAttributeKey.for_keyword_list("TemporalChangeVersion"), ["outlast-unlisted"]
        )
    ]
)
"""What a history that continues one without attributes starts with. The SDK takes none at all to
mean those of the history before, which the server would refuse; this one every namespace has."""
