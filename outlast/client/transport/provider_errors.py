"""The exceptions of the `openai` package for failures of model calls.

Where a program has imported the package, a failed call is an exception of both, so that the
program's handlers, such as for `openai.RateLimitError`, work.
"""

import sys
from functools import cache
from types import ModuleType
from typing import Any, Final

from outlast.agents.errors import AgentsException, ModelCallFailed, ModelTimeoutError
from outlast.loop.values import JsonObject

_BY_STATUS: Final = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    409: "ConflictError",
    422: "UnprocessableEntityError",
    429: "RateLimitError",
}
"""Any other status from 500 on is `InternalServerError`, below `APIStatusError`."""

_BY_REASON: Final = {
    "conversation_locked": 409,
    "invalid_request": 400,
    "not_found": 404,
    "overloaded": 503,
    "quota_exceeded": 429,
    "rate_limited": 429,
    "server_error": 500,
    "unauthorized": 401,
}
"""The status of failures that come without one, such as those of events over a WebSocket."""

_WITHOUT_RESPONSE: Final = {"timeout": "APITimeoutError", "unreachable": "APIConnectionError"}


def as_openai_error(error: AgentsException) -> AgentsException:
    """Return the exception of a failed model call, also as one of the `openai` package.

    It is returned unchanged if the package is not imported, and so nobody can catch its exceptions.
    Its `response` has the status and the `retry-after` of the provider's, but no body.
    """
    openai = sys.modules.get("openai")
    if openai is None or not isinstance(error, ModelCallFailed | ModelTimeoutError):
        return error
    details = error.details or {}
    reason = details.get("reason")
    status = details.get("status")
    if isinstance(error, ModelTimeoutError):
        reason = "timeout"
    if not isinstance(status, int) or not 100 <= status <= 599:
        status = _BY_REASON.get(str(reason))
    name = _WITHOUT_RESPONSE.get(str(reason)) if status is None else _name_of(status)
    kind = getattr(openai, name or "APIError", None)
    if kind is None:
        return error
    made = _both(type(error), kind)(error.message, run_data=error.run_data)
    vars(made).update(vars(error))
    _fill(made, openai, status, details)
    return made


def openai_error(kind: type[Exception], message: str) -> Exception | None:
    """Create the package's exception that a program's own model raised; None for other classes."""
    openai = sys.modules.get("openai")
    if openai is None or not issubclass(kind, openai.APIError):
        return None
    made: Any = kind.__new__(kind)
    Exception.__init__(made, message)
    status = getattr(kind, "status_code", None)
    if status is None and issubclass(kind, openai.InternalServerError):
        status = 500
    _fill(made, openai, status, {})
    made.message = message
    return made


def _name_of(status: int) -> str:
    usual = "InternalServerError" if status >= 500 else "APIStatusError"
    return _BY_STATUS.get(status, usual)


@cache
def _both(ours: type[AgentsException], theirs: type[Exception]) -> type[AgentsException]:
    def initialize(self: Any, message: str = "", *, run_data: Any = None) -> None:
        Exception.__init__(self, message)
        self.message = message
        self.run_data = run_data

    def reduce(self: Any) -> Any:
        plain = ours(self.message, run_data=self.run_data)
        plain.details = self.details
        return as_openai_error, (plain,)

    names = {
        "__module__": ours.__module__,
        "__qualname__": ours.__qualname__,
        "__doc__": ours.__doc__,
    }
    return type(
        ours.__name__, (ours, theirs), names | {"__init__": initialize, "__reduce__": reduce}
    )


def _fill(error: Any, openai: ModuleType, status: int | None, details: JsonObject) -> None:
    import httpx2

    error.request = httpx2.Request("POST", "https://model-provider.invalid")
    error.body = error.param = error.type = None
    if not isinstance(error, openai.APIStatusError):
        return
    seconds = details.get("retry_after_seconds")
    headers = {} if seconds is None else {"retry-after": f"{seconds:g}"}
    error.response = httpx2.Response(status or 500, headers=headers, request=error.request)
    error.status_code, error.request_id = error.response.status_code, None
