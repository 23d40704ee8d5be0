"""Conversions between Temporal's types and ours, for the workflow."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NoReturn, TypeVar

from temporalio import workflow
from temporalio.common import (
    RawValue,
    RetryPolicy,
    SearchAttributeKey,
    SearchAttributePair,
    SearchAttributeUpdate,
    TypedSearchAttributes,
)
from temporalio.exceptions import ApplicationError

from outlast.contract import history, names
from outlast.contract.failures import USER_ERROR
from outlast.contract.records import (
    LARGEST_BYTES,
    Unreadable,
    UnreadableRecordError,
    read,
    too_large,
)
from outlast.loop.calls import ExecutionOptions
from outlast.loop.events import Event
from outlast.loop.values import Json, JsonObject
from outlast.temporal.payloads.readable import json_of, sent_bytes

T = TypeVar("T")


def typed_error(
    code: str, message: str, details: JsonObject | None = None, *, spent: JsonObject | None = None
) -> ApplicationError:
    """Return the error that fails a run or refuses an update; its type is the failure's code.

    `spent` is what a run used, for its parent and for lists of runs.
    """
    all_details = [details] if details else []
    if spent is not None:
        all_details = [details, spent]
    return ApplicationError(message, *all_details, type=code, non_retryable=True)


def received_json(value: Any) -> Any:
    """Return the JSON that the SDK delivered, or an `Unreadable`."""
    return json_of(workflow.payload_converter(), value)


def read_input(kind: type[T], payload: RawValue, what: str) -> T:
    """Return the input of a workflow.

    Raises:
        ApplicationError: it is unreadable; `what` is, such as `The errand is`.
    """
    try:
        return read(kind, received_json(payload))
    except UnreadableRecordError as error:
        raise typed_error(USER_ERROR, f"{what} unreadable: {error}") from None


def readable_update(name: str, arguments: Sequence[Json | Unreadable], at_ms: int) -> Event:
    """Return the event of an update; an unreadable update is refused.

    Raises:
        ApplicationError: the update is unreadable.
    """
    try:
        return history.updated(name, arguments, at_ms)
    except UnreadableRecordError as error:
        raise typed_error(USER_ERROR, str(error)) from None


def check_size(payload: object) -> None:
    """Refuse an update that the server would not record: its workflow task would fail for ever.

    Raises:
        ApplicationError: the update is too large.
    """
    size = sent_bytes(payload)
    if size > LARGEST_BYTES:
        raise typed_error(USER_ERROR, too_large(size))


def end_as_cancelled() -> NoReturn:
    """End the workflow as cancelled, after any kind of cancellation.

    The SDK does so for the engine's cancellation. For the signal `cancel`, the SDK has no public
    API.

    Raises:
        asyncio.CancelledError: always.
    """
    if workflow.cancellation_reason() is None:
        vars(asyncio.get_running_loop())["_cancel_reason"] = "the signal `cancel`"
    raise asyncio.CancelledError


def retry_policy(policy: ExecutionOptions) -> RetryPolicy:
    """Return how an activity is retried."""
    return RetryPolicy(
        initial_interval=timedelta(milliseconds=policy.initial_interval_ms),
        backoff_coefficient=policy.backoff,
        maximum_interval=timedelta(milliseconds=policy.maximum_interval_ms),
        maximum_attempts=policy.attempts,
    )


_KEYS: Final[dict[str, Callable[[str], SearchAttributeKey[Any]]]] = {
    "Keyword": SearchAttributeKey.for_keyword,
    "Int": SearchAttributeKey.for_int,
    "KeywordList": SearchAttributeKey.for_keyword_list,
    "Datetime": SearchAttributeKey.for_datetime,
}


def attribute_update(
    name: str, value: str | int | datetime | list[str] | None
) -> SearchAttributeUpdate[Any]:
    """Return the update of one of our search attributes; None removes it."""
    key = _KEYS[names.SEARCH_ATTRIBUTES[name]](name)
    return key.value_unset() if value is None else key.value_set(value)


NO_ATTRIBUTES = TypedSearchAttributes(
    [
        SearchAttributePair(
            SearchAttributeKey.for_keyword_list("TemporalChangeVersion"), ["outlast-unlisted"]
        )
    ]
)
"""First attributes of a history that continues one without attributes. The SDK would copy an empty
set from the history before, which the server would refuse; every namespace has this attribute."""
