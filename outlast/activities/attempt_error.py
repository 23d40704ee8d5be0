"""How a failed attempt is told to the engine: short enough that the engine keeps its message.

Of an attempt that is tried again, the server keeps 4 kB. A failure that is larger loses its message
first, the very thing that the Temporal UI should show, and stack traces alone, one for each
exception of a chain, can be larger. So one trace travels: that of what was raised, innermost frames
last. The worker's log has all of them.

Owns: `AttemptError`. Must not know: what failed, and whether it is tried again.
"""

import traceback
from typing import Any

from temporalio import activity
from temporalio.api.failure.v1 import Failure
from temporalio.converter import DefaultFailureConverter
from temporalio.exceptions import ApplicationError

KEPT_BYTES = 3_000
"""What a failure is allowed to be: less than the server keeps, which adds to it."""

FRAMES = 4
"""Innermost frames shown of each exception in the chain."""


class AttemptError(ApplicationError):
    """Fails an attempt, as `ApplicationError` does, with a stack trace of bounded size.

    Attributes:
        attempts: there are no more attempts than this, whatever the effect's policy allows.
    """

    def __init__(
        self,
        message: str,
        *details: Any,
        of: BaseException,
        attempts: int | None = None,
        **options: Any,
    ) -> None:
        """Tell of `of`, the exception that was raised. Needs to be made within an activity."""
        super().__init__(message, *details, **options)
        self.attempts = attempts
        self._told: Failure | None = None
        told = Failure()
        DefaultFailureConverter().to_failure(self, activity.payload_converter(), told)
        told.stack_trace = _trace(of, KEPT_BYTES - told.ByteSize())
        self._told = told

    @property
    def failure(self) -> Failure | None:
        """What the converter of failures sends instead of looking at the exceptions."""
        return self._told


def _trace(error: BaseException, most_bytes: int) -> str:
    """Return the stack traces of an exception and of its causes, cut where it is furthest away."""
    shown = traceback.TracebackException.from_exception(error, limit=-FRAMES)
    text = "".join(shown.format()).encode(errors="replace")
    return text[-most_bytes:].decode(errors="ignore") if most_bytes > 0 else ""
