"""What goes wrong in a request, as a status and a sentence."""

from typing import Final

from outlast.agents import errors
from outlast.agents.logs import get_logger
from outlast.deliveries.problems import RETRY_SECONDS, Problem, problem_in
from outlast.edges.bodies import BodyRefused
from outlast.search.index import SearchUnavailable
from outlast.serve.cursor import InvalidCursor
from outlast.serve.feed import TooManyReaders
from outlast.serve.tokens import TokenRefused

logger: Final = get_logger(__name__)

_STATUSES: Final[dict[type[Exception], int]] = {
    BodyRefused: 413,
    InvalidCursor: 400,
    TokenRefused: 401,
    errors.IdentityRefused: 403,
    errors.RunNotFound: 404,
    errors.ScheduleNotFound: 404,
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
    SearchUnavailable: 503,
    errors.AgentsException: 409,
}
"""The status of each error, of the most special class first."""

_CODES: Final[dict[type[Exception], str]] = {
    BodyRefused: "content_too_large",
    InvalidCursor: "invalid_cursor",
    TooManyReaders: "too_many_readers",
}


def problem_of(error: Exception) -> Problem:
    """Return the problem that an error stands for; nothing of an unexpected error is shown."""
    problem = problem_in(error, _STATUSES, _CODES)
    if problem is None:
        logger.error("A request failed", exc_info=error)
        return Problem(500, "internal_error", "The desk failed. Its log says why.")
    if problem.status in {429, 503}:
        problem.headers.setdefault("Retry-After", str(RETRY_SECONDS))
    if problem.status == 401:
        problem.headers.setdefault("WWW-Authenticate", "Bearer")
    return problem
