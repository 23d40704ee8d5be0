"""The port to a language model: one request record in, one response record out.

Owns: the vocabulary between the model activity and every provider adapter. Items are in the
format of OpenAI's Responses API, whatever the provider speaks. Must not know: Temporal, HTTP,
any provider's package.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol, runtime_checkable

from outlast.agents.settings import ModelSettings
from outlast.loop.values import JsonObject, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A function the model may call: a tool or a handoff.

    `parameters` is a JSON Schema; `strict` asks the provider to hold the model to it.
    """

    name: str
    description: str
    parameters: JsonObject
    strict: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSpec:
    """The JSON Schema that the final answer has to fit; None on the request means plain text."""

    name: str
    schema: JsonObject
    strict: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """Everything one model call needs.

    `input` holds Responses items (dicts), oldest first, and is never changed by an adapter.
    """

    instructions: str | None
    input: Sequence[JsonObject]
    tools: Sequence[ToolSpec] = ()
    output: OutputSpec | None = None
    settings: ModelSettings = field(default_factory=ModelSettings)
    previous_response_id: str | None = None
    conversation_id: str | None = None
    prompt: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResponse:
    """What the model answered: Responses output items, usage, and the provider's ids."""

    output: Sequence[JsonObject]
    usage: Usage
    response_id: str | None = None
    request_id: str | None = None


class Model(Protocol):
    """A language model. Implementations never retry: retries are Temporal's."""

    async def get_response(self, request: ModelRequest) -> ModelResponse:
        """Answer one request.

        Raises:
            ModelError: the provider refused, failed, or answered junk.
        """
        ...

    def stream_response(self, request: ModelRequest) -> AsyncIterator[JsonObject]:
        """Answer one request as raw Responses stream events.

        The last event has the type `response.completed` and holds the whole response under
        `response`.

        Raises:
            ModelError: as for `get_response`, also in the middle of the stream.
        """
        ...


@runtime_checkable
class ModelProvider(Protocol):
    """Finds models by name. One lives as long as its worker."""

    def get_model(self, name: str | None) -> Model:
        """Return the model of this name, or the provider's default for None."""
        ...

    async def aclose(self) -> None:
        """Close connections. Called once, when the worker stops."""
        ...


class ModelError(Exception):
    """A model call that failed, told apart by what the caller should do next.

    Attributes:
        code: one of `rate_limited`, `overloaded`, `unreachable`, `timeout`, `server_error`,
            `bad_response`, `conversation_locked` (these may pass: `retryable` is true),
            `unauthorized`, `no_api_key`, `quota_exceeded`, `not_found`, `invalid_request`.
        retryable: whether the same request may work later.
        retry_after: how long the provider asked to wait, if it did.
        status: the HTTP status, if there was one.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        retryable: bool,
        retry_after: timedelta | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.retryable = retryable
        self.retry_after = retry_after
        self.status = status
