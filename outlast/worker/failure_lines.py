"""Logs a failed attempt as one line, with the place in users' code.

The Temporal SDK logs a stack trace for every exception in the chain of causes, most of it files of
this package. The level DEBUG of the logger `outlast` logs the trace again.
"""

import asyncio
import logging
from datetime import timedelta
from typing import Final

from temporalio import activity
from temporalio.exceptions import ApplicationError

from outlast.activities.attempt_error import AttemptError, next_attempt_in
from outlast.activities.failure_words import failure_words, one_line
from outlast.agents.logs import logs_exception_texts
from outlast.contract import failures, names

_LOGGER: Final = "temporalio.activity"

_FIRST_REPEATED: Final = 4  # the first line is at once; those of a wait of hours get rarer


def log_failures_in_lines() -> None:
    """Log each failed attempt of this process as one line, from now on."""
    logger = logging.getLogger(_LOGGER)
    if not any(isinstance(installed, FailureLines) for installed in logger.filters):
        logger.addFilter(FailureLines())


class FailureLines(logging.Filter):
    """Rewrites the SDK's log record of a failed attempt; other records stay."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite the record as one line, and let it through.

        An effect that waits for a worker has a line at once, and then ever more rarely.
        """
        error = record.exc_info[1] if record.exc_info else None
        if error is None or not _is_ours():
            return True
        if isinstance(error, ApplicationError) and error.type == failures.WORKER_LACKS:
            if not _is_worth_a_line(error):
                return False
            record.msg = _line_of_wait(error)
        elif isinstance(error, asyncio.CancelledError):
            record.msg = _line_of_timeout()
        else:
            record.msg = _line(error)
        record.args = None
        shows_trace = logging.getLogger("outlast").isEnabledFor(logging.DEBUG)
        if not (shows_trace and logs_exception_texts()):
            record.exc_info = record.exc_text = None
        return True


def _is_ours() -> bool:
    return activity.in_activity() and activity.info().workflow_type == names.WORKFLOW


def _line(error: BaseException) -> str:
    most = _most_attempts(error)
    asked = None
    if isinstance(error, ApplicationError):
        text, final, asked = error.message, error.non_retryable, error.next_retry_delay
    else:
        text, final = f"{type(error).__name__}: {error}", False
    attempt = activity.info().attempt
    tries = _tries(most)
    if final and attempt != most:
        again = "" if _is_scheduled_again(error) else ", not retried"
        tries = f"attempt {attempt}{again}"
    last = final or attempt == most
    message = failure_words(text, error)
    return _log_line("failed", message, tries=tries, delay=None if last else next_attempt_in(asked))


def _is_scheduled_again(error: BaseException) -> bool:
    """Whether the run schedules the effect anew: the worker lacked something before."""
    kind = error.type if isinstance(error, ApplicationError) else None
    return kind == failures.FAILED_ON_CAPABLE_WORKER


def _is_worth_a_line(error: ApplicationError) -> bool:
    attempt = activity.info().attempt
    return error.non_retryable or (attempt >= _FIRST_REPEATED and attempt & (attempt - 1) == 0)


def _line_of_wait(error: ApplicationError) -> str:
    info = activity.info()
    what = one_line(info.activity_type.removeprefix(names.TOOL_PREFIX))
    run_id = one_line(info.workflow_id or "")
    message = failure_words(error.message, error)
    return f"outlast: {what} in {run_id} waits for a worker that can carry it out: {message}"


def _line_of_timeout() -> str:
    most = _attempts_of_policy()
    message = "no heartbeat for too long: this process or the server stood still"
    delay = None if activity.info().attempt == most else next_attempt_in(None)
    return _log_line("was stopped", message, tries=_tries(most), delay=delay)


def _tries(most: int) -> str:
    attempt = activity.info().attempt
    return f"attempt {attempt} of {most}" if most else f"attempt {attempt}"


def _log_line(what_happened: str, message: str, *, tries: str, delay: timedelta | None) -> str:
    info = activity.info()
    what = one_line(info.activity_type.removeprefix(names.TOOL_PREFIX))
    run_id = one_line(info.workflow_id or "")
    ending = "" if delay is None else f"; will be retried in {delay.total_seconds():g} s"
    return f"outlast: {what} {what_happened} in {run_id} ({tries}): {message}{ending}"


def _attempts_of_policy() -> int:
    policy = activity.info().retry_policy
    return policy.maximum_attempts if policy is not None else 0


def _most_attempts(error: BaseException) -> int:
    most = _attempts_of_policy()
    fewer = error.attempts if isinstance(error, AttemptError) else None
    return most if fewer is None else min(most or fewer, fewer)
