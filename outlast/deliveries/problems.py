"""What goes wrong with a delivery, as a status and a sentence for whoever reads the sender's log."""

import json
import math
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
}
"""The status of each error, of the most special class first."""

_NOT_NOW: Final = "The run cannot take it now. Send it again, with the same delivery id."


class Refused(Exception):
    """A request is refused.

    Attributes:
        status: the HTTP status.
        code: a stable name for programs.
        message: the reason, in a sentence for people.
    """

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


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
    status, code, message = _problem_of(error)
    content = {"error": {"code": code, "message": message}}
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    if isinstance(error, HTTPException):
        headers |= error.headers or {}
    if status == 503:
        headers["Retry-After"] = str(RETRY_SECONDS)
    return JSONAnswer(content, status, headers)


def _problem_of(error: Exception) -> tuple[int, str, str]:
    match error:
        case Refused():
            return error.status, error.code, error.message
        case WaitUrlRefused():
            return _URL_STATUSES[error.reason], error.reason, str(error)
        case HTTPException():
            return error.status_code, error.detail.lower().replace(" ", "_"), f"{error.detail}."
        case TimeoutError():
            return 503, "not_now", _NOT_NOW
        case RPCError() if is_transient(error):
            return 503, "not_now", _NOT_NOW
        case _:
            pass
    status = next((one for kind, one in _STATUSES.items() if isinstance(error, kind)), 500)
    if status == 500:
        logger.error("A delivery failed", exc_info=error)
        return 500, "internal_error", "The receiver failed. Its log says why."
    if status == 503:  # the reason is about our machines, which is no matter of the sender's
        logger.warning("A delivery is refused for now: %r", error)
        return 503, "not_now", _NOT_NOW
    return status, str(getattr(error, "code", "refused")), str(error)
