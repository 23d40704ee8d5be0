"""How an effect fails, and whether trying again can help.

Owns: `EffectError` and the one table from exceptions of user code to retry or not.
"""

from datetime import timedelta

from outlast.agents.errors import AgentsException
from outlast.contract import failures
from outlast.loop.values import JsonObject
from outlast.ports.model import ModelError

PROGRAMMING_ERRORS = (
    AgentsException,
    AssertionError,
    AttributeError,
    ImportError,
    NameError,
    NotImplementedError,
    SyntaxError,
    TypeError,
)
"""What user code raises when it is wrong, so that another try would fail the same way."""


LONGEST_MESSAGE = 4_000
"""Characters of a failure's message. Messages go into history and before people."""


class EffectError(Exception):
    """An effect failed.

    Attributes:
        code: stable name of the failure.
        message: what happened, for people.
        retryable: whether another attempt may work.
        retry_after: when the next attempt makes sense, if something said so.
        details: what programs may want to know further.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        retryable: bool,
        retry_after: timedelta | None = None,
        details: JsonObject | None = None,
    ) -> None:
        # Whatever an exception says: half a character cannot travel, and ten megabytes should not.
        message = message[:LONGEST_MESSAGE].encode(errors="replace").decode()
        super().__init__(message)
        self.code = code
        self.message = message
        self.retryable = retryable
        self.retry_after = retry_after
        self.details = details


def of_model(error: ModelError) -> EffectError:
    """Return a provider's failure as an effect's."""
    details: JsonObject = {"reason": error.code}
    if error.status is not None:
        details["status"] = error.status
    return EffectError(
        failures.MODEL_CALL_FAILED,
        error.message,
        retryable=error.retryable,
        retry_after=error.retry_after,
        details=details,
    )


def of_user_code(what: str, error: Exception) -> EffectError:
    """Return an exception of user code as an effect's failure; `what` names the callable."""
    code = error.code if isinstance(error, AgentsException) else failures.USER_ERROR
    return EffectError(
        code,
        f"{what} raised {type(error).__name__}: {error}",
        retryable=is_retryable(error),
    )


def is_retryable(error: BaseException) -> bool:
    """Whether trying user code again can help."""
    return not isinstance(error, PROGRAMMING_ERRORS)
