"""What goes wrong in a request, as a status and a sentence."""

from dataclasses import dataclass, field
from typing import Final

from starlette.exceptions import HTTPException
from temporalio.service import RPCError

from outlast.agents import errors
from outlast.agents.logs import get_logger
from outlast.bodies import BodyRefused
from outlast.client.transport.outages import is_transient
from outlast.deliveries.problems import Refused
from outlast.serve.cursor import InvalidCursor
from outlast.serve.feed import TooManyReaders
from outlast.serve.tokens import TokenRefused

logger: Final = get_logger(__name__)

_STATUSES: Final[dict[type[Exception], int]] = {
    InvalidCursor: 400,
    TokenRefused: 401,
    errors.IdentityRefused: 403,
    errors.RunNotFound: 404,
    errors.RunAlreadyStarted: 409,
    errors.RunBusy: 429,
    errors.RunClosed: 409,
    errors.RunCancelled: 409,
    errors.RunTerminated: 409,
    errors.DecisionRefused: 409,
    errors.DeliveryRefused: 409,
    errors.ConversationFull: 409,
    errors.UserError: 400,
    TooManyReaders: 429,
    errors.ContentUnavailable: 503,
    errors.ServerUnavailable: 503,
    errors.AgentsException: 409,
}
"""The status of each error, of the most special class first."""

_RETRY_SECONDS: Final = "5"


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


def problem_of(error: Exception) -> Problem:
    """Return the problem that an error stands for; nothing of an unexpected error is shown."""
    match error:
        case Refused():
            problem = Problem(error.status, error.code, error.message)
        case HTTPException():
            code = error.detail.lower().replace(" ", "_")
            words = str(getattr(error, "words", f"{error.detail}."))
            problem = Problem(error.status_code, code, words, {**(error.headers or {})})
        case BodyRefused():
            problem = Problem(413, "content_too_large", str(error))
        case RPCError() if is_transient(error):
            message = "The Temporal server does not answer. Try again in a moment."
            problem = Problem(503, "server_unavailable", message)
        case _:
            status = next((one for kind, one in _STATUSES.items() if isinstance(error, kind)), 500)
            if status == 500:
                logger.error("A request failed", exc_info=error)
                return Problem(500, "internal_error", "The desk failed. Its log says why.")
            problem = Problem(status, _code_of(error), str(error))
    if problem.status in {429, 503}:
        problem.headers.setdefault("Retry-After", _RETRY_SECONDS)
    if problem.status == 401:
        problem.headers.setdefault("WWW-Authenticate", "Bearer")
    return problem


def _code_of(error: Exception) -> str:
    match error:
        case InvalidCursor():
            return "invalid_cursor"
        case TooManyReaders():
            return "too_many_readers"
        case _:
            return str(getattr(error, "code", "internal_error"))
