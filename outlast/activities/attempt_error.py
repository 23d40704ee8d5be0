"""The error of a failed attempt, small enough for the server to keep its message.

The server keeps 4 kB of the failure of an attempt that is retried. It first drops the message of a
larger failure, and the stack traces of a chain of exceptions can exceed the limit. So only the
trace of the original exception is sent, with the innermost frames last. The worker's log has all
traces.
"""

import traceback
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.api.failure.v1 import Failure
from temporalio.converter import DefaultFailureConverter
from temporalio.exceptions import ApplicationError

KEPT_BYTES = 3_000
"""The maximum size of a failure; the server keeps more, but adds to it."""

FRAMES = 4
"""The number of innermost frames shown for each exception in the chain."""


class AttemptError(ApplicationError):
    """Fails an attempt like `ApplicationError`, with a stack trace of limited size.

    Attributes:
        attempts: the maximum number of attempts, even if the effect's policy allows more.
    """

    def __init__(
        self,
        message: str,
        *details: Any,
        of: BaseException,
        attempts: int | None = None,
        **options: Any,
    ) -> None:
        """Describe `of`, the exception that was raised. Only for use within an activity."""
        super().__init__(message, *details, **options)
        self.attempts = attempts
        self._bounded: Failure | None = None
        failure = Failure()
        DefaultFailureConverter().to_failure(self, activity.payload_converter(), failure)
        failure.stack_trace = _trace(of, KEPT_BYTES - failure.ByteSize())
        self._bounded = failure

    @property
    def failure(self) -> Failure | None:
        """The failure that the converter sends instead of the exceptions."""
        return self._bounded


def _trace(error: BaseException, most_bytes: int) -> str:
    shown = traceback.TracebackException.from_exception(error, limit=-FRAMES)
    text = "".join(shown.format()).encode(errors="replace")
    return text[max(len(text) - most_bytes, 0) :].decode(errors="ignore")


def next_attempt_in(asked: timedelta | None) -> timedelta:
    """Return how long after the present attempt the next one begins."""
    info = activity.info()
    policy = info.retry_policy
    if asked is not None or policy is None:
        return asked or timedelta(0)
    longest = policy.maximum_interval or 100 * policy.initial_interval
    delay = policy.initial_interval
    for _ in range(info.attempt - 1):
        if delay >= longest:
            break
        delay *= policy.backoff_coefficient
    return min(delay, longest)
