"""How an effect fails, and whether trying again can help.

Owns: `EffectError` and the one table from exceptions of user code to retry or not.
"""

import json
from datetime import timedelta

from outlast.agents.errors import AgentsException
from outlast.contract import failures
from outlast.loop.values import Failure, JsonObject
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


USER_CODE_ATTEMPTS = 3
"""How often user code is tried inside an effect whose policy is made for something slower."""

LONGEST_MESSAGE = 4_000
"""Characters of a failure's message. Messages go into history and before people."""

LONGEST_MESSAGE_BYTES = 12_000
"""The same, as JSON: of control characters, fewer."""


class EffectError(Exception):
    """An effect failed.

    Attributes:
        code: stable name of the failure.
        message: what happened, for people.
        retryable: whether another attempt may work.
        retry_after: when the next attempt makes sense, if something said so.
        details: what programs may want to know further.
        attempts: do not try more often than this, whatever the effect's policy allows.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        retryable: bool,
        retry_after: timedelta | None = None,
        details: JsonObject | None = None,
        attempts: int | None = None,
    ) -> None:
        # Whatever an exception says: half a character cannot travel, and ten megabytes should not.
        message = cut(message)
        super().__init__(message)
        self.code = code
        self.message = message
        self.retryable = retryable
        self.retry_after = retry_after
        self.details = None if details is None else _short_details(details)
        self.attempts = attempts


def lacking(message: str) -> EffectError:
    """Return the failure of an effect that needs what this worker does not have.

    Another worker may have it: during a deploy, old and new ones share a queue.
    """
    return EffectError(failures.WORKER_LACKS, message, retryable=True)


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
    failure = failure_of(what, error)
    return EffectError(
        failure.code,
        failure.message,
        retryable=is_retryable(error),
        details=failure.details,
        attempts=USER_CODE_ATTEMPTS,
    )


def failure_of(what: str, error: Exception) -> Failure:
    """Return an exception of user code as the failure of a run.

    An error of ours says by itself what is wrong. Of any other the class and text are told, too,
    so that the program that waits for the run can raise the same.
    """
    if isinstance(error, AgentsException):
        return Failure(code=error.code, message=cut(str(error)))
    kind = type(error)
    # What it was made of, so that the one made of it says the same: a KeyError quotes its key.
    text = error.args[0] if len(error.args) == 1 and isinstance(error.args[0], str) else str(error)
    details = {"exception": f"{kind.__module__}:{kind.__qualname__}", "text": cut(text)}
    message = cut(f"{what} raised {kind.__name__}: {error}")
    return Failure(code=failures.USER_ERROR, message=message, details=details)


def cut(text: str) -> str:
    """Return a message short enough to travel, without half characters."""
    whole = text[:LONGEST_MESSAGE].encode(errors="replace").decode()
    return fitting(whole, LONGEST_MESSAGE_BYTES)


def fitting(text: str, most_bytes: int) -> str:
    """Return as much of the beginning of a text as fits, counted as the JSON that travels.

    A control character is six bytes of JSON, and so is any character that is not ASCII.
    """
    written = json.dumps(text)
    if len(written) <= most_bytes:
        return text
    end = max(most_bytes - 2, 0)
    written = written[1 : end + 1]
    for cut_off in range(13):  # no character is longer, and an escape must not be halved
        try:
            kept: str = json.loads(f'"{written[: len(written) - cut_off]}"')
            kept.encode()
        except (ValueError, UnicodeEncodeError):
            continue
        return kept
    return ""


def _short_details(details: JsonObject) -> JsonObject:
    """Return details that fit: of those that do not, the short ones and the beginnings of texts."""
    if len(json.dumps(details, default=repr)) <= LONGEST_MESSAGE_BYTES * 2:
        return details
    short = {key: cut(one) if isinstance(one, str) else one for key, one in details.items()}
    most = LONGEST_MESSAGE_BYTES
    return {key: one for key, one in short.items() if len(json.dumps(one, default=repr)) <= most}


def is_retryable(error: BaseException) -> bool:
    """Whether trying user code again can help."""
    return not isinstance(error, PROGRAMMING_ERRORS)
