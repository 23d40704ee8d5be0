"""Models through LiteLLM, which is imported on first use.

LiteLLM's exceptions are recognized by class names and attributes, so that nothing imports the
package before the first call.
"""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Self, TypeAlias, cast

from outlast.agents.config.model_settings import ModelSettings
from outlast.agents.errors import UserError
from outlast.agents.json_values import as_object, as_text, is_mapping
from outlast.loop.values import JsonObject
from outlast.models.defaults import get_default_model
from outlast.models.failures import (
    Target,
    bad_response,
    connection_failure,
    refused_request,
    reported_failure,
    request_failure,
    timeout_failure,
)
from outlast.models.openai.chat_completions import ChatCompletionsModel
from outlast.models.openai.connection import Reply, call_deadline, call_seconds
from outlast.models.openai.server_events import WholeText
from outlast.ports.model import ModelError

_PREFIX = "litellm/"
_END = object()

_FIXED_FIELDS = frozenset({"model", "messages", "stream"})
"""Body fields that `extra_body` cannot move out of the arguments, because LiteLLM needs them."""


class LitellmModel(ChatCompletionsModel):
    """A model behind LiteLLM: `LitellmModel("anthropic/claude-sonnet-4-5")`.

    Attributes:
        model: LiteLLM's name of the model: the provider, a slash, the provider's name.
        base_url: the provider's URL; None means LiteLLM's default.
        api_key: the key; None means the environment variable that LiteLLM reads.
    """

    def __init__(self, model: str, base_url: str | None = None, api_key: str | None = None) -> None:
        try:
            is_missing = find_spec("litellm") is None
        except ValueError:  # a program's stand-in for the package has no spec
            is_missing = False
        if is_missing:
            raise UserError(
                f"The model {model!r} of LiteLLM needs the package litellm, which is not installed"
                " here: pip install 'outlast[litellm]'. Install it where the worker runs."
            )
        connection = LitellmConnection(self._call, self._target)
        super().__init__(model, connection, rich_outputs=True)
        self.model = model
        self.base_url = base_url
        self.api_key = api_key

    async def _call(self, body: JsonObject, settings: ModelSettings) -> object:
        litellm = await _load("litellm")
        arguments: JsonObject = {"api_key": self.api_key, "base_url": self.base_url}
        if "tools" in body:
            # Otherwise LiteLLM looks for MCP tools, with packages that only its proxy installs.
            arguments["_skip_mcp_handler"] = True
        arguments |= call_arguments(body, settings)
        # Disables LiteLLM's own retries and those of the provider's package.
        return await litellm.acompletion(**arguments | {"num_retries": 0, "max_retries": 0})

    def _target(self, path: str, model: str) -> Target:
        provider = model.partition("/")[0] if "/" in model else "LiteLLM's choice"
        return Target(
            base_url=self.base_url or f"{provider} (through LiteLLM)",
            path=path,
            model=model,
            key=self.api_key or os.environ.get(f"{provider.upper()}_API_KEY"),
            key_from="the provider's key in the environment, or LitellmModel(api_key=...)",
            address_from="LitellmModel(base_url=...)",
        )


class LitellmProvider:
    """Finds models by LiteLLM's names, with the keys of the environment."""

    def get_model(self, model_name: str | None) -> LitellmModel:
        """Return the model of this name, or the default model for None.

        Raises:
            UserError: LiteLLM is not installed.
        """
        return LitellmModel((model_name or get_default_model()).removeprefix(_PREFIX))

    async def aclose(self) -> None:
        """Do nothing: LiteLLM shares its connections and closes them itself."""


LitellmCall: TypeAlias = Callable[[JsonObject, ModelSettings], Awaitable[object]]
"""Sends a request body, and returns LiteLLM's response object or an iterator of them."""


class LitellmConnection:
    """A `ModelConnection` through LiteLLM. It holds nothing open itself."""

    def __init__(self, call: LitellmCall, target: Callable[[str, str], Target]) -> None:
        self._call = call
        self.target = target

    def over_http(self) -> Self:
        """Return this connection."""
        return self

    async def post(self, target: Target, body: JsonObject, settings: ModelSettings) -> Reply:
        """Send a body and return the response, or raise a `ModelError`."""
        with _failures(target):
            async with asyncio.timeout(call_seconds(settings)):
                answer = await self._call(body, settings)
        reply = _as_json(answer, WholeText())
        if reply is None:
            raise bad_response(target, f"expected an object, got {type(answer).__name__}")
        if reply.get("error"):
            raise reported_failure(reply["error"], target)
        return Reply(body=reply, request_id=None)

    async def check_key(self, target: Target) -> None:
        """Check nothing: each of LiteLLM's providers has its own key."""

    async def stream(
        self,
        target: Target,
        body: JsonObject,
        settings: ModelSettings,
        *,
        is_last: Callable[[JsonObject], bool],
    ) -> AsyncGenerator[JsonObject]:
        """Send a body and yield the events in the response; may raise a `ModelError`."""
        deadline = call_deadline(settings)
        with _failures(target):
            async with asyncio.timeout_at(deadline):
                answer = await self._call(body, settings)
        if not isinstance(answer, AsyncIterator):
            raise bad_response(target, f"expected a stream of events, got {type(answer).__name__}")
        events = cast("AsyncIterator[object]", answer)
        whole_text = WholeText()
        try:
            while (event := await _next_event(events, target, deadline, whole_text)) is not None:
                yield event
                if is_last(event):
                    return
        finally:
            close: Any = getattr(events, "aclose", None)
            if close is not None:
                await close()


def call_arguments(body: JsonObject, settings: ModelSettings) -> JsonObject:
    """Return the arguments of LiteLLM's call: the body, headers, query and time-out.

    LiteLLM needs `extra_body` as a separate argument: it refuses or drops fields that it does not
    know of a provider.
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


async def _load(package: str) -> Any:
    """Import a package in a thread, because it takes seconds, and return it."""
    loaded = sys.modules.get(package)
    if loaded is not None and not getattr(loaded.__spec__, "_initializing", False):
        return loaded
    return await asyncio.to_thread(import_module, package)


async def _next_event(
    events: AsyncIterator[object], target: Target, deadline: float | None, whole_text: WholeText
) -> JsonObject | None:
    with _failures(target):
        # Only around one event, so that the time-out never cancels the consumer's code.
        async with asyncio.timeout_at(deadline):
            answer = await anext(events, _END)
    event = _as_json(answer, whole_text)
    if event is None and answer is not _END:
        raise bad_response(target, f"expected events of objects, got {type(answer).__name__}")
    if event and event.get("error"):
        raise reported_failure(event["error"], target)
    return event


def _as_json(answer: object, whole_text: WholeText) -> JsonObject | None:
    dump: Any = getattr(answer, "model_dump", None)
    if dump is not None:
        # LiteLLM's objects contain values that violate their own types, which causes warnings.
        answer = dump(mode="json", exclude_none=True, warnings=False)
    return as_object(whole_text.of(answer))


@contextmanager
def _failures(target: Target) -> Generator[None]:
    """Convert exceptions to `ModelError`, without their cause: it may contain the key."""
    try:
        yield
    except TimeoutError:
        raise timeout_failure(target) from None
    except Exception as error:  # noqa: BLE001  each provider has exceptions of its own
        raise litellm_failure(error, target) from None


_TIMED_OUT = frozenset({"APITimeoutError", "Timeout", "TimeoutException"})

_NOT_REACHED = frozenset({"APIConnectionError", "ClientConnectionError", "NetworkError", "OSError"})
"""Exception classes of the HTTP packages and of the packages that use them; subclasses count."""


def litellm_failure(error: Exception, target: Target) -> ModelError:
    """Convert an exception of LiteLLM, or of what it calls, to a `ModelError`."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    status: object = getattr(error, "status_code", None)
    if not isinstance(status, int):
        status = None
    if kinds & _TIMED_OUT:
        if status is None:
            return timeout_failure(target)
    elif kinds & _NOT_REACHED:
        return connection_failure(error, target)
    if status is None and isinstance(error, ImportError | NotImplementedError):
        # Raised before sending, if a provider or its package is not available.
        return refused_request(target, str(error))
    if status is None and isinstance(error, TypeError | ValueError):
        return request_failure(error, target)
    return reported_failure(_report(error), target, status=status, headers=_headers(error))


def _report(error: Exception) -> JsonObject:
    body = as_object(getattr(error, "body", None)) or {}
    body = as_object(body.get("error")) or body
    words = as_text(body.get("message")) or as_text(getattr(error, "message", None)) or str(error)
    report: JsonObject = {"message": words or type(error).__name__}
    for name in ("code", "type"):
        if named := as_text(body.get(name)) or as_text(getattr(error, name, None)):
            report[name] = named
    return report


def _headers(error: Exception) -> dict[str, str]:
    response: object = getattr(error, "response", None)
    headers: object = getattr(error, "litellm_response_headers", None)
    for held in (headers, getattr(response, "headers", None)):
        if is_mapping(held) and held:
            return {str(name).lower(): str(value) for name, value in held.items()}
    return {}
