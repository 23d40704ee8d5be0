"""What goes wrong in a request, as a status and a sentence; what a sender of deliveries reads of it."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, cast

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from temporalio.service import RPCError

from outlast.agents import errors
from outlast.agents.context.wait_urls import WaitUrlRefused
from outlast.agents.logs import get_logger
from outlast.client.transport.delivered_value import ValueTooLarge
from outlast.client.transport.outages import is_transient

logger: Final = get_logger(__name__)

RETRY_SECONDS: Final = 5
NO_STORE: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}

_URL_STATUSES: Final = {"malformed": 400, "forged": 403, "expired": 410}

_STATUSES: Final[dict[type[Exception], int]] = {
    errors.RunNotFound: 404,
    errors.RunClosed: 409,
    errors.DeliveryRefused: 409,
    ValueTooLarge: 413,
    errors.UserError: 400,
    # What a sender repeats: the run takes it later.
    errors.RunBusy: 503,
    errors.ContentUnavailable: 503,
    errors.ServerUnavailable: 503,
    errors.AgentsException: 503,
    TimeoutError: 503,
}
"""The status of each error of a delivery, of the most special class first."""

_NOT_NOW: Final = "The run cannot take it now. Send it again, with the same delivery id."


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a request failed: what every form of answer shows.

    Attributes:
        status: the HTTP status.
        code: a stable name for programs.
        message: the reason, in a sentence for people.
        headers: further headers of the answer.
    """

    status: int
    code: str
    message: str
    headers: dict[str, str] = field(default_factory=dict[str, str])


class Refused(Exception):
    """A request is refused; the arguments are those of its `Problem`."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


def problem_in(
    error: Exception, statuses: Mapping[type[Exception], int], codes: Mapping[type[Exception], str]
) -> Problem | None:
    """Return the problem that an error stands for; None for an error that nobody expects.

    Args:
        error: the error.
        statuses: the status of each kind of error, of the most special class first.
        codes: the codes of errors that have none themselves.
    """
    match error:
        case Refused():
            return Problem(error.status, error.code, error.message)
        case HTTPException():
            words = str(getattr(error, "words", f"{error.detail}."))
            code = error.detail.lower().replace(" ", "_")
            return Problem(error.status_code, code, words, {**(error.headers or {})})
        case RPCError() if is_transient(error):
            message = "The Temporal server does not answer. Try again in a moment."
            return Problem(503, "server_unavailable", message)
        case _:
            status = next((one for kind, one in statuses.items() if isinstance(error, kind)), None)
            code = codes.get(type(error)) or str(getattr(error, "code", "refused"))
            return None if status is None else Problem(status, code, str(error))


class JSONAnswer(JSONResponse):
    """JSON in ASCII: what others wrote may have half a character, which no UTF-8 has."""

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return json_text(content).encode()


def json_text(content: Any, *, ascii_only: bool = True) -> str:
    """Return JSON; NaN and infinities, which others may send and JSON has not, are null."""
    write = partial(json.dumps, ensure_ascii=ascii_only, allow_nan=False, separators=(",", ":"))
    try:
        return write(content)
    except ValueError:
        return write(_finite(content))


def _finite(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return None
        case dict():
            return {name: _finite(one) for name, one in cast("dict[str, Any]", value).items()}
        case list() | tuple():
            return [_finite(one) for one in cast("list[Any]", value)]
        case _:
            return value


def answer_of(error: Exception) -> JSONAnswer:
    """Return the answer for an error; nothing of an unexpected one is shown."""
    if isinstance(error, WaitUrlRefused):
        error = Refused(_URL_STATUSES[error.reason], error.reason, str(error))
    problem = problem_in(error, _STATUSES, {})
    if problem is None:
        logger.error("A delivery failed", exc_info=error)
        problem = Problem(500, "internal_error", "The receiver failed. Its log says why.")
    if problem.status == 503 and not isinstance(error, Refused):
        # The reason is about our machines, which is no matter of the sender's.
        logger.warning("A delivery is refused for now: %r", error)
        problem = Problem(503, "not_now", _NOT_NOW)
    headers = NO_STORE | problem.headers
    if problem.status == 503:
        headers["Retry-After"] = str(RETRY_SECONDS)
    return error_answer(problem, headers)


def error_answer(problem: Problem, headers: Mapping[str, str]) -> JSONAnswer:
    """Return a problem as JSON."""
    content = {"error": {"code": problem.code, "message": problem.message}}
    return JSONAnswer(content, problem.status, headers)
