"""Calls LiteLLM or any-llm, and converts their responses and errors.

Exceptions of the gateway and provider packages are recognized by class names and attributes, so
that no package must be imported. `outlast.models.failures` defines the meaning of each status.
"""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Protocol, Self, cast

from outlast.agents.config.settings import ModelSettings
from outlast.agents.errors import UserError
from outlast.loop.values import JsonObject
from outlast.models.failures import (
    Target,
    bad_response,
    connection_failure,
    refused_request,
    reported_failure,
    request_failure,
    timeout_failure,
)
from outlast.models.json_values import as_object, as_text
from outlast.models.openai.connection import Reply, call_deadline, call_seconds
from outlast.ports.model import ModelError

_FIXED_FIELDS = frozenset({"model", "messages", "input", "stream"})
"""Body fields that `extra_body` cannot move out of the arguments, because packages need them."""


class PackageCall(Protocol):
    """Sends a request body through a package."""

    def __call__(self, path: str, body: JsonObject, settings: ModelSettings) -> Awaitable[object]:
        """Return the package's response object, or an iterator of them."""
        ...


class PackageConnection:
    """A connection through a package. It never retries, and holds nothing open itself."""

    def __init__(self, call: PackageCall, target: Callable[[str, str], Target]) -> None:
        """Create the connection.

        Args:
            call: sends one body.
            target: returns the destination of a call for a path and a model, for error messages.
        """
        self._call = call
        self._target = target

    def of_run(self, run_id: str | None) -> Self:
        """Return this connection."""
        del run_id
        return self

    def target(self, path: str, model: str) -> Target:
        """Return the destination of a call to this path, for error messages."""
        return self._target(path, model)

    async def post(self, target: Target, body: JsonObject, settings: ModelSettings) -> Reply:
        """Send a body and return the JSON object in the response.

        Raises:
            ModelError: the call failed, or the response is not an object or reports an error.
        """
        with _failures(target):
            async with asyncio.timeout(call_seconds(settings)):
                answer = await self._call(target.path, body, settings)
        reply = _as_json(answer)
        if reply is None:
            raise bad_response(target, f"expected an object, got {type(answer).__name__}")
        if reply.get("error"):
            raise reported_failure(reply["error"], target)
        return Reply(body=reply, request_id=None)

    async def check_key(self, target: Target) -> None:
        """Check nothing: each provider of the package has its own key."""

    async def stream(
        self,
        target: Target,
        body: JsonObject,
        settings: ModelSettings,
        *,
        is_last: Callable[[JsonObject], bool],
    ) -> AsyncGenerator[JsonObject]:
        """Send a body and yield the events in the response.

        Raises:
            ModelError: the call failed, also midway, or an event is not an object.
        """
        deadline = call_deadline(settings)
        with _failures(target):
            async with asyncio.timeout_at(deadline):
                answer = await self._call(target.path, body, settings)
        if not isinstance(answer, AsyncIterator):
            raise bad_response(target, f"expected a stream of events, got {type(answer).__name__}")
        events = cast("AsyncIterator[object]", answer)
        try:
            while (event := await _next_event(events, target, deadline)) is not None:
                yield event
                if is_last(event):
                    return
        finally:
            await close(events)


class GatewayModel(Protocol):
    """A model behind a gateway package."""

    base_url: str | None
    api_key: str | None


def gateway_target(
    model: GatewayModel, gateway: str, provider: str, *, path: str, name: str
) -> Target:
    """Return the destination of a call, for error messages.

    Args:
        model: the model object, whose class's arguments configure the call.
        gateway: the gateway's name.
        provider: the gateway's name of the provider.
        path: the path of the API.
        name: the model's name.
    """
    owner = type(model).__name__
    return Target(
        base_url=model.base_url or f"{provider} (through {gateway})",
        path=path,
        model=name,
        key=model.api_key or os.environ.get(f"{provider.upper()}_API_KEY"),
        key_from=f"the provider's key in the environment, or {owner}(api_key=...)",
        address_from=f"{owner}(base_url=...)",
    )


def check_installed(package: str, extra: str, what: str) -> None:
    """Check that a package is installed, without importing it.

    Args:
        package: the name of the imported module.
        extra: the extra of outlast that installs the package.
        what: the feature that needs the package; the error message starts with it.

    Raises:
        UserError: the package is not installed.
    """
    try:
        is_missing = find_spec(package) is None
    except ValueError:  # a program's stand-in for the package has no spec
        is_missing = False
    if is_missing:
        raise UserError(
            f"{what} needs the package {package}, which is not installed here:"
            f" pip install 'outlast[{extra}]'. Install it where the worker runs."
        )


def call_arguments(body: JsonObject, settings: ModelSettings) -> JsonObject:
    """Return the arguments for a package: the body, headers, query and time-out.

    `extra_body` has been merged into the body. The packages need it as a separate argument,
    because they refuse or drop fields that they do not know of a provider.
    """
    extra = {k: v for k, v in (settings.extra_body or {}).items() if k not in _FIXED_FIELDS}
    beside: JsonObject = {
        "extra_body": extra,
        "extra_headers": settings.extra_headers,
        "extra_query": settings.extra_query,
        "timeout": call_seconds(settings),
    }
    arguments = {name: value for name, value in body.items() if name not in extra}
    return arguments | {name: value for name, value in beside.items() if value}


async def load(package: str) -> ModuleType:
    """Import a package in a thread, because it takes seconds, and return it."""
    loaded = sys.modules.get(package)
    if loaded is not None and not getattr(loaded.__spec__, "_initializing", False):
        return loaded
    return await asyncio.to_thread(import_module, package)


async def close(closable: object) -> None:
    """Close a package's object with whichever close method it has."""
    closing: Any = getattr(closable, "aclose", None) or getattr(closable, "close", None)
    if closing is not None:
        done: object = closing()
        if isinstance(done, Awaitable):
            await done


async def _next_event(
    events: AsyncIterator[object], target: Target, deadline: float | None
) -> JsonObject | None:
    """Return the next event, or None at the end of the stream."""
    with _failures(target):
        # Only around one event, so that the time-out never cancels the consumer's code.
        async with asyncio.timeout_at(deadline):
            try:
                answer = await anext(events)
            except StopAsyncIteration:
                return None
    event = _as_json(answer)
    if event is None:
        raise bad_response(target, f"expected events of objects, got {type(answer).__name__}")
    return event


def _as_json(answer: object) -> JsonObject | None:
    """Return a package's object as JSON without None values, or None for other data."""
    dump: Any = getattr(answer, "model_dump", None)
    if dump is None:
        return as_object(answer)
    # LiteLLM's objects contain values that violate their own types, which causes warnings.
    return as_object(dump(mode="json", exclude_none=True, warnings=False))


@contextmanager
def _failures(target: Target) -> Generator[None]:
    """Convert the package's exceptions to `ModelError`.

    The cause is dropped, because it may contain the request and so the key.
    """
    try:
        yield
    except ModelError:
        raise
    except TimeoutError:
        raise timeout_failure(target) from None
    except Exception as error:  # noqa: BLE001  each provider's package has exceptions of its own
        raise package_failure(error, target) from None


# --- Exceptions of the packages --------------------------------------------------------------------

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
"""The status for any-llm's exception classes that come without one."""

_TIMED_OUT = frozenset({"APITimeoutError", "Timeout", "TimeoutError", "TimeoutException"})

_NOT_REACHED = frozenset(
    {"APIConnectionError", "ClientConnectionError", "NetworkError", "OSError", "ProtocolError"}
)
"""Exception classes of the HTTP packages and of the packages that use them; subclasses count."""

_UNAVAILABLE = (ImportError, NotImplementedError)
"""Raised before sending, if a provider or its package is not available."""


def package_failure(error: Exception, target: Target) -> ModelError:
    """Convert an exception of a gateway package to a `ModelError`."""
    # any-llm stores the original exception of the provider's package in this attribute.
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
        if isinstance(origin, _UNAVAILABLE) or kind.startswith("Unsupported"):
            return refused_request(target, str(error))
        if status is None and isinstance(origin, TypeError | ValueError):
            return request_failure(error, target)
    report = _report(error, origin)
    return reported_failure(report, target, status=status, headers=_headers(error, origin))


def _is_named(error: object, names: frozenset[str]) -> bool:
    """Whether an error's class or a base class has one of these names."""
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
    """Return the error in the providers' format, with its message and code."""
    body = as_object(getattr(origin, "body", None)) or {}
    body = as_object(body.get("error")) or body
    words = as_text(body.get("message")) or as_text(getattr(error, "message", None)) or str(error)
    report: JsonObject = {"message": words or type(error).__name__}
    for name in ("code", "type"):
        if named := as_text(body.get(name)) or as_text(getattr(error, name, None)):
            report[name] = named
    return report


def _headers(*errors: object) -> dict[str, str]:
    """Return the response's headers, if any of the errors holds them."""
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
