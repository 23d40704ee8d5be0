"""How an effect fails, and whether a retry can help."""

import json
from datetime import timedelta

from outlast.agents.errors import AgentsException, UserError
from outlast.agents.installed_sdk import sdk_names
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
"""Exceptions that mean wrong user code, which a retry would not fix."""

MISTAKES_OF_MODELS = (ArithmeticError, LookupError, ValueError)
"""Exceptions that mean wrong code in a model, which gets the same request at each attempt."""

BROKEN_RESPONSES = (json.JSONDecodeError, UnicodeDecodeError)
"""Exceptions of code that reads a response which is not whole."""

USER_CODE_ATTEMPTS = 3
"""Attempts of user code inside an effect whose policy allows more."""

LONGEST_MESSAGE = 4_000
"""The maximum length of a failure's message, in characters. Messages are recorded and shown."""

LONGEST_MESSAGE_BYTES = 12_000
"""The maximum length of a failure's message, in bytes of JSON."""


class EffectError(Exception):
    """An effect failed.

    Attributes:
        retryable: whether a retry may help.
        retry_after: the delay before the next attempt, if the provider set one.
        details: further data for programs.
        attempts: the maximum number of attempts, even if the effect's policy allows more.
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
        # A message may hold lone surrogates, which cannot be sent, or be megabytes long.
        message = cut(message)
        super().__init__(message)
        self.code = code
        self.message = message
        self.retryable = retryable
        self.retry_after = retry_after
        self.details: JsonObject | None = None if details is None else _short_details(details)
        self.attempts = attempts

    @property
    def error_type(self) -> str:
        """The kind of the failure, as spans tell it: an HTTP status, a provider's reason, a code."""
        details = self.details or {}
        return str(details.get("status") or details.get("reason") or self.code)


def lacking(message: str) -> EffectError:
    """Return the failure of an effect that needs something which this worker lacks.

    Another worker may have it: during a deploy, old and new workers share a queue.
    """
    return EffectError(failures.WORKER_LACKS, message, retryable=True)


def tool_is_gone(name: str) -> str:
    """Return what the model reads about a call of a tool that nobody has any more."""
    return not_carried_out(f"The tool {name} no longer exists.")


def not_carried_out(why: str) -> str:
    """Return what the model reads about a call that nobody could carry out."""
    return f"{why} The call was not carried out."


class worker_lookup:  # noqa: N801  it reads as the function that it stands for
    """Turn the error of a name that this worker does not know into `lacking`.

    A class, since every effect enters several: a generator costs five times as much.
    """

    def __enter__(self) -> None:
        """Begin to look something up."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Raise `lacking` in place of a `UserError`."""
        if isinstance(error, UserError):
            raise lacking(str(error)) from error


class user_code:  # noqa: N801  a class for the same reason
    """Turn an exception of the user code `what` into the failure of the effect."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        """Begin to call user code, which may raise anything."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Raise the failure of the effect in place of any other exception."""
        if isinstance(error, Exception) and not isinstance(error, EffectError):
            raise of_user_code(self._what, error) from error


class model_code(user_code):  # noqa: N801  likewise
    """Turn an exception of a program's own model or provider into the failure of the effect.

    `besides` is an error that the caller handles.
    """

    def __init__(self, what: str, besides: type[Exception] | tuple[()] = ()) -> None:
        super().__init__(what)
        self._besides = besides

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Raise the failure of the effect in place of any other exception."""
        if error is None or isinstance(error, self._besides):
            return
        if isinstance(error, ModelError):
            raise of_model(error) from error
        if isinstance(error, SystemExit):  # would end the worker's task, and be retried for ever
            raise mistake(f"{self._what} raised SystemExit: {error}") from error
        if isinstance(error, Exception) and not isinstance(error, EffectError):
            raise of_model_code(self._what, error) from error


def mistake(message: str) -> EffectError:
    """Return the failure of an effect that no retry helps, because user code is wrong."""
    return EffectError(failures.USER_ERROR, message, retryable=False)


def of_model(error: ModelError) -> EffectError:
    """Return the failure of an effect from a provider's error."""
    details: JsonObject = {"reason": error.code}
    if error.status is not None:
        details["status"] = error.status
    for name in ("provider_code", "param"):
        if value := getattr(error, name, ""):  # an error class of the user's may not have it
            details[name] = value
    if error.retry_after is not None:
        details["retry_after_seconds"] = error.retry_after.total_seconds()
    return EffectError(
        # An error handler may answer in place of an empty answer.
        failures.INVALID_OUTPUT if error.code == "empty_answer" else failures.MODEL_CALL_FAILED,
        error.message,
        retryable=error.retryable,
        retry_after=error.retry_after,
        details=details,
        attempts=error.attempts,
    )


def of_user_code(what: str, error: Exception) -> EffectError:
    """Return the failure of an effect after an exception in the user code `what`."""
    failure = failure_of(what, error)
    return EffectError(
        failure.code,
        failure.message,
        retryable=is_retryable(error),
        details=failure.details,
        attempts=USER_CODE_ATTEMPTS,
    )


def of_model_code(what: str, error: Exception) -> EffectError:
    """Return the failure of an effect after an exception in a program's own model or provider.

    A mistake in its code ends the call at once, as in the SDK: each attempt may be paid for. A
    response that came broken may be whole the next time.
    """
    failed = of_user_code(what, error)
    if isinstance(error, MISTAKES_OF_MODELS) and not isinstance(error, BROKEN_RESPONSES):
        failed.retryable = False
    return failed


def failure_of(what: str, error: Exception) -> Failure:
    """Return the failure of a run from an exception of user code.

    An error of outlast has its own message. For any other, the details hold the class and text, so
    that the waiting program can raise the same exception.
    """
    if isinstance(error, AgentsException):
        return Failure(code=error.code, message=cut(str(error)))
    kind = type(error)
    # Recreate from the argument: str() of a KeyError quotes its key.
    text = error.args[0] if len(error.args) == 1 and isinstance(error.args[0], str) else str(error)
    details = {"exception": f"{kind.__module__}:{kind.__qualname__}", "text": cut(text)}
    message = cut(f"{what} raised {kind.__name__}: {error}")
    return Failure(code=failures.USER_ERROR, message=message, details=details)


def cut(text: str) -> str:
    """Return a message short enough to send, without lone surrogates."""
    whole = text[:LONGEST_MESSAGE].encode(errors="replace").decode()
    return fitting(whole, LONGEST_MESSAGE_BYTES)


def fits_surely(text: str, most_bytes: int) -> bool:
    """Whether a text certainly fits: a character takes at most 12 bytes in JSON."""
    return 12 * len(text) + 2 <= most_bytes


def fitting(text: str, most_bytes: int) -> str:
    """Return the longest beginning of a text that fits, measured as JSON.

    Control characters and characters outside ASCII take six bytes in JSON.
    """
    if fits_surely(text, most_bytes):
        return text
    written = json.dumps(text)
    if len(written) <= most_bytes:
        return text
    end = max(most_bytes - 2, 0)
    written = written[1 : end + 1]
    for cut_off in range(13):  # an escape has at most 12 bytes and must not be cut
        try:
            kept: str = json.loads(f'"{written[: len(written) - cut_off]}"')
            kept.encode()
        except (ValueError, UnicodeEncodeError):
            continue
        return kept
    return ""


def _short_details(details: JsonObject) -> JsonObject:
    if len(json.dumps(details, default=repr)) <= LONGEST_MESSAGE_BYTES * 2:
        return details
    short = {key: cut(value) if isinstance(value, str) else value for key, value in details.items()}
    most = LONGEST_MESSAGE_BYTES
    return {
        key: value for key, value in short.items() if len(json.dumps(value, default=repr)) <= most
    }


def is_retryable(error: BaseException) -> bool:
    """Whether a retry of user code can help."""
    is_sdks = "AgentsException" in sdk_names(error)  # its counterpart of ours
    return not isinstance(error, PROGRAMMING_ERRORS) and not is_sdks
