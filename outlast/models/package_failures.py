"""Why a call through a gateway package failed: from what it raised to a `ModelError`.

Owns: reading the exceptions of LiteLLM, any-llm and the providers' packages below them by their
classes' names and attributes, so that none of the packages has to be imported. What a status means
is `failures.py`'s. Must not know: how the package is called.
"""

from collections.abc import Mapping
from typing import Any, cast

from outlast.loop.values import JsonObject
from outlast.models.failures import (
    Target,
    connection_failure,
    refused_request,
    reported_failure,
    request_failure,
    timeout_failure,
)
from outlast.models.json_values import as_object, as_text
from outlast.ports.model import ModelError

_STATUS_OF: Mapping[str, int] = {
    "AuthenticationError": 401,
    "InsufficientFundsError": 402,
    "ModelNotFoundError": 404,
    "ContextLengthExceededError": 400,
    "ContentFilterError": 400,
    "InvalidRequestError": 400,
    "RateLimitError": 429,
    "ProviderError": 500,
    "UpstreamProviderError": 502,
    "GatewayTimeoutError": 504,
}
"""What any-llm's classes say where the provider gave no status."""

_TIMED_OUT = frozenset({"APITimeoutError", "Timeout", "TimeoutError", "TimeoutException"})

_NOT_REACHED = frozenset(
    {"APIConnectionError", "ClientConnectionError", "NetworkError", "OSError", "ProtocolError"}
)
"""Classes, or those that they come from, of the HTTP packages and of those above them."""

_NOT_OFFERED = (ImportError, NotImplementedError)
"""Raised before anything is sent, where a provider or a package of it is not there."""


def package_failure(error: Exception, target: Target) -> ModelError:
    """Return the failure for what a gateway package raised."""
    # any-llm keeps what the provider's own package raised here.
    origin = cast("Any", getattr(error, "original_exception", None)) or error
    kind = type(error).__name__
    if kind == "MissingApiKeyError":
        return ModelError(
            f"There is no API key for {target.base_url}: {target.quote(str(error))}",
            code="no_api_key",
            retryable=False,
        )
    status = _status(error) or _status(origin)
    if _is_named(origin, _TIMED_OUT):
        if status is None:
            return timeout_failure(target)
    elif _is_named(origin, _NOT_REACHED):
        return connection_failure(origin, target)
    if status is None:
        status = _STATUS_OF.get(kind)
        if isinstance(origin, _NOT_OFFERED) or kind.startswith("Unsupported"):
            return refused_request(target, str(error))
        if status is None and isinstance(origin, TypeError | ValueError):
            return request_failure(error, target)
    report = _report(error, origin)
    return reported_failure(report, target, status=status, headers=_headers(error, origin))


def _is_named(error: object, names: frozenset[str]) -> bool:
    """Tell whether the class of an error, or one that it comes from, has one of these names."""
    return any(kind.__name__ in names for kind in type(error).__mro__)


def _status(error: object) -> int | None:
    for name in ("status_code", "code", "status"):
        value: object = getattr(error, name, None)
        if isinstance(value, str) and value.isdecimal():
            value = int(value)
        if isinstance(value, int) and 100 <= value < 600:
            return value
    return None


def _report(error: Exception, origin: object) -> JsonObject:
    """Return the error in the shape that providers give it: the words, and what it is called."""
    body = as_object(getattr(origin, "body", None)) or {}
    body = as_object(body.get("error")) or body
    words = as_text(body.get("message")) or as_text(getattr(error, "message", None)) or str(error)
    report: JsonObject = {"message": words or type(error).__name__}
    for name in ("code", "type"):
        if named := as_text(body.get(name)) or as_text(getattr(error, name, None)):
            report[name] = named
    return report


def _headers(*errors: object) -> dict[str, str]:
    """Return the headers of the answer, as far as any of the errors still has them."""
    for error in errors:
        response: object = getattr(error, "response", None)
        for held in (
            getattr(error, "litellm_response_headers", None),
            getattr(response, "headers", None),
        ):
            if isinstance(held, Mapping) and held:
                named = cast("Mapping[object, object]", held)
                return {str(name).lower(): str(value) for name, value in named.items()}
    wait = as_text(getattr(errors[0], "retry_after", None))
    return {"retry-after": wait} if wait else {}
