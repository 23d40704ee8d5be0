"""What a script's terminal shows of attempts that failed: a line each, in words.

By itself the engine logs three stack traces for each of them, most of it our own files.

Owns: the words, and where they take the place of the engine's. Must not know: runs, workers.
"""

import asyncio
import logging
import sysconfig
import traceback
from pathlib import Path
from typing import Final

from temporalio import activity
from temporalio.exceptions import ApplicationError

from outlast.activities.attempt_error import AttemptError
from outlast.contract import names

_NOT_THE_USERS: Final = (
    Path(__file__).parents[1],
    *(Path(sysconfig.get_path(which)) for which in ("stdlib", "purelib", "platlib")),
)
_LOGGERS: Final = ("temporalio.activity",)

_installed = False


def speak_in_lines() -> None:
    """Have failed attempts told in a line each, in this process. A second call does nothing.

    The stack traces come back with the level DEBUG of the logger `outlast`.
    """
    global _installed  # noqa: PLW0603  loggers are the process's, too
    if _installed:
        return
    _installed = True
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(FailureLines())


class FailureLines(logging.Filter):
    """Rewrites the engine's record of an attempt that failed."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Make a line of the record, and leave every other record as it is."""
        error = record.exc_info[1] if record.exc_info else None
        if not activity.in_activity():
            return True
        if isinstance(error, ApplicationError):
            record.msg = _line(error)
        elif isinstance(error, asyncio.CancelledError):
            record.msg = _line_of_silence()
        else:
            return True
        record.args = None
        if not logging.getLogger("outlast").isEnabledFor(logging.DEBUG):
            record.exc_info = None
        return True


def _line(error: ApplicationError) -> str:
    most = _most_attempts(error)
    message = error.message.rstrip(".") + _place(error)
    last = error.non_retryable or activity.info().attempt == most
    return _told("failed", message, most=most, last=last)


def _line_of_silence() -> str:
    """Tell of an attempt that the engine stopped, although nobody cancelled the run."""
    most = _attempts_of_policy()
    message = "nothing was heard of it for too long: this process or the server stood still"
    return _told("was stopped", message, most=most, last=activity.info().attempt == most)


def _told(what_happened: str, message: str, *, most: int, last: bool) -> str:
    info = activity.info()
    tries = f"attempt {info.attempt} of {most}" if most else f"attempt {info.attempt}"
    what = info.activity_type.removeprefix(names.TOOL_PREFIX)
    ending = "" if last else "; it is tried again"
    return f"outlast: {what} {what_happened} in {info.workflow_id} ({tries}): {message}{ending}"


def _attempts_of_policy() -> int:
    policy = activity.info().retry_policy
    return policy.maximum_attempts if policy is not None else 0


def _most_attempts(error: ApplicationError) -> int:
    """Return how often this may be tried, or 0 where nothing says so."""
    most = _attempts_of_policy()
    fewer = error.attempts if isinstance(error, AttemptError) else None
    return most if fewer is None else min(most or fewer, fewer)


def _place(error: BaseException) -> str:
    """Return which line of the user's own files raised, or nothing where none did."""
    first = error
    while first.__cause__ is not None:
        first = first.__cause__
    frames = traceback.extract_tb(first.__traceback__)
    for frame in reversed(frames):
        path = Path(frame.filename)
        if not any(path.is_relative_to(place) for place in _NOT_THE_USERS):
            return f" [{path.name}:{frame.lineno}]"
    return ""
