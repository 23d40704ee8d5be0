"""The port to a language model: one request record in, one response record out.

The records between the model activity and every provider adapter. Items are in the format of
OpenAI's Responses API, whatever the provider's format.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from contextlib import aclosing
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from outlast.agents.config.model_settings import ModelSettings
from outlast.agents.errors import ModelBehaviorError
from outlast.agents.items.raw_items import as_input, as_json
from outlast.agents.tools.definition import ToolNamespace
from outlast.agents.tools.hosted import HostedTool
from outlast.agents.usage import AnyUsage, readable_usage
from outlast.agents.usage import Usage as ReadUsage
from outlast.loop.values import JsonObject, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A function the model may call: a tool or a handoff.

    `parameters` is a JSON Schema; with `strict`, the provider enforces it. A `deferred` tool is only
    shown to the model that searches for it, or for its `namespace`. `allowed_callers` and
    `output_schema` are for programs of the provider that call it.
    """

    name: str
    description: str
    parameters: JsonObject
    strict: bool = True
    deferred: bool = False
    namespace: ToolNamespace | None = None
    allowed_callers: Sequence[str] | None = None
    output_schema: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSpec:
    """The JSON Schema of the final answer; None in the request means plain text."""

    name: str
    schema: JsonObject
    strict: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """The request of one model call.

    `input` holds Responses items (dicts), oldest first, which adapters must not change.
    `hosted_tools` are the tools that are not functions, most of them run by the provider. An
    adapter for a provider with only functions refuses them. `hosted_positions` are their positions
    among all tools, in ascending order; hosted tools without a position come last. `run_id` is the
    id of the run, if there is one: an adapter may use one connection for its calls, but the
    response must not depend on it.
    """

    instructions: str | None
    input: Sequence[JsonObject]
    tools: Sequence[ToolSpec] = ()
    hosted_tools: Sequence[HostedTool] = ()
    hosted_positions: Sequence[int] = ()
    output: OutputSpec | None = None
    settings: ModelSettings = field(default_factory=ModelSettings)
    previous_response_id: str | None = None
    conversation_id: str | None = None
    prompt: JsonObject | None = None
    run_id: str | None = None

    def all_tools(self) -> list[ToolSpec | HostedTool]:
        """Return functions and hosted tools in the order in which the provider sees them."""
        tools: list[ToolSpec | HostedTool] = list(self.tools)
        for hosted, position in zip_longest(self.hosted_tools, self.hosted_positions):
            tools.insert(len(tools) if position is None else position, hosted)
        return tools


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """A model's response: Responses output items, usage and the provider's ids.

    Items may be the `openai` package's records; they are stored as dicts. Results and hooks show
    them as records (`RunResponse`), so they have no type here. `raw_usage` is the provider's own
    usage data, if available. `model` is the model that answered, as the provider names it; it is
    only told to traces.
    """

    output: Sequence[Any]
    usage: ReadUsage
    response_id: str | None = None
    request_id: str | None = None
    raw_usage: JsonObject | None = None
    model: str | None = None

    if TYPE_CHECKING:  # any usage is accepted; programs read their own type, see `RunResponse`

        def __init__(
            self,
            output: Sequence[Any],
            usage: AnyUsage,
            response_id: str | None = None,
            request_id: str | None = None,
            raw_usage: JsonObject | None = None,
            model: str | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        output: object = self.output
        if isinstance(output, list | tuple):
            items = [as_json(item) for item in cast("Sequence[object]", output)]
            object.__setattr__(self, "output", items)
        usage = cast("object", self.usage)
        if isinstance(usage, AnyUsage):  # other values are refused where the model is called
            object.__setattr__(self, "usage", readable_usage(usage))

    @property
    def raw_response(self) -> JsonObject:
        """What is kept of the provider's response, as JSON: its id, items and usage.

        The usage is the provider's own: in results with `ModelSettings(preserve_raw_usage=True)`,
        else None. The rest of a response is not kept.
        """
        written = deepcopy([as_json(item) for item in self.output])
        return {"id": self.response_id, "output": written, "usage": deepcopy(self.raw_usage)}

    def to_input_items(self) -> list[JsonObject]:
        """Return copies of the items as input for a model."""
        return deepcopy([as_input(item) for item in self.output])


@runtime_checkable
class Model(Protocol):
    """A protocol for language models.

    Implementations never retry: retries are Temporal's.

    It is called with one `ModelRequest`. A model whose `get_response` has the SDK's parameters
    (`system_instructions`, `input`, `model_settings`, `tools`, `output_schema`, `handoffs`,
    `tracing`, `previous_response_id`, `conversation_id`, `prompt`) is called with those.
    """

    def get_response(self, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, ModelResponse]:
        """Answer one request.

        Raises:
            ModelError: the provider refused, failed, or sent an invalid answer.
        """
        ...

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Answer one request as raw Responses stream events.

        The last event has the type `response.completed` and holds the whole response under
        `response`, and the provider's id of the request, if there is one, under `request_id`.
        Events may be the `openai` package's records, too.

        Raises:
            ModelError: as for `get_response`, also in the middle of the stream.
        """
        ...


@runtime_checkable
class CompactingModel(Protocol):
    """A model whose provider can make a conversation shorter, for `Compaction(by="provider")`."""

    def compact(self, request: ModelRequest) -> Coroutine[Any, Any, ModelResponse]:
        """Return a response whose items the model can read instead of the request's input.

        Raises:
            ModelError: the provider refused, failed, or sent an invalid answer.
        """
        ...


@runtime_checkable
class CheckableModel(Protocol):
    """A model that can check its key before the first call."""

    async def check_access(self) -> str:
        """Check the key, and return where the model is, such as the URL of its server.

        Raises:
            ModelError: there is no key, or the server refuses it.
        """
        ...


@runtime_checkable
class BackgroundModel(Protocol):
    """A model whose provider can make a response in the background."""

    async def begin_response(self, request: ModelRequest) -> str:
        """Begin a response, and return the provider's id of it.

        Raises:
            ModelError: the provider refused the request, or could not be reached.
        """
        ...

    async def read_response(self, response_id: str, request: ModelRequest) -> ModelResponse | None:
        """Return a response that was begun, or None while the provider makes it.

        Args:
            response_id: what `begin_response` returned.
            request: has the settings, and the hosted tools that say what the response includes.

        Raises:
            ResponseLost: it failed at the provider, or the provider does not have it.
            ModelError: the provider could not be asked.
        """
        ...

    async def cancel_response(self, response_id: str) -> None:
        """Stop a response that was begun; one that has ended stays as it is.

        Raises:
            ModelError: the provider could not be asked.
        """
        ...


@runtime_checkable
class ModelProvider(Protocol):
    """A protocol for objects that find models by name.

    A provider lives as long as its worker.
    """

    def get_model(self, model_name: str | None, /) -> Model:
        """Return the model of this name, or the provider's default for None."""
        ...

    async def aclose(self) -> None:
        """Close connections, once, when the worker stops. Does nothing by default."""
        return  # with dots, type checkers would consider it abstract


class ModelError(Exception):
    """A failed model call, with a code and whether a retry can help.

    Attributes:
        code: one of `rate_limited`, `overloaded`, `unreachable`, `timeout`, `server_error`,
            `bad_response`, `empty_answer`, `conversation_locked` (these may pass: `retryable` is
            true), `unauthorized`, `no_api_key`, `quota_exceeded`, `not_found`, `invalid_request`,
            `response_not_found` (the previous response, which the request goes on from).
        retryable: whether the same request may work later.
        retry_after: the delay that the provider asked for, if any.
        status: the HTTP status, if there was one.
        provider_code: the provider's own name of the error, such as `image_parse_error`.
        param: what of the request is wrong, such as `input[3].content[0].image_url`.
        attempts: the maximum number of attempts, if a further one is less likely to help.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        retryable: bool,
        retry_after: timedelta | None = None,
        status: int | None = None,
        provider_code: str = "",
        param: str = "",
        attempts: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.retryable = retryable
        self.retry_after = retry_after
        self.status = status
        self.provider_code = provider_code
        self.param = param
        self.attempts = attempts


class ResponseLost(ModelError):
    """A response in the background will not come; `retryable` says whether to begin another."""


_FAILURES = frozenset({"error", "response.error", "response.failed", "response.incomplete"})
"""The events with which a stream of the Responses API ends, other than a whole response."""


async def response_of_stream(
    events: AsyncIterator[JsonObject], on_event: Callable[[JsonObject], None] | None = None
) -> ModelResponse:
    """Read the stream of `Model.stream_response` to its end, and return the response.

    The stream is closed, whatever happens. `on_event` is called with every event.

    Raises:
        ModelError: the stream raised it, or ended without a response.
        ModelBehaviorError: the stream ended with the event of a failure.
    """
    if isinstance(events, AsyncGenerator):
        async with aclosing(cast("AsyncGenerator[JsonObject]", events)) as closed_at_the_end:
            return await _last_response(closed_at_the_end, on_event)
    return await _last_response(events, on_event)


def usage_of(value: object) -> Usage:
    """Return the usage in a response object; missing counts are zero."""
    usage = _object(value)
    input_tokens = _count(usage.get("input_tokens"))
    output_tokens = _count(usage.get("output_tokens"))
    input_details = _object(usage.get("input_tokens_details"))
    return Usage(
        requests=1,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        total_tokens=_count(usage.get("total_tokens")) or input_tokens + output_tokens,
        cached_tokens=_count(input_details.get("cached_tokens")),
        cache_write_tokens=_count(input_details.get("cache_write_tokens")),
        reasoning_tokens=_count(
            _object(usage.get("output_tokens_details")).get("reasoning_tokens")
        ),
    )


async def _last_response(
    events: AsyncIterator[JsonObject], on_event: Callable[[JsonObject], None] | None
) -> ModelResponse:
    response: JsonObject | None = None
    request_id: object = None
    done: list[object] = []
    async for raw in events:
        event: JsonObject = as_json(raw)
        if event.get("type") == "response.completed":
            response = _object(event.get("response"))
            record = getattr(raw, "response", None)  # of the openai package
            request_id = event.get("request_id") or getattr(record, "_request_id", None)
        elif event.get("type") == "response.output_item.done":
            done.append(event.get("item"))
        if on_event is not None:
            on_event(event)
        if event.get("type") in _FAILURES:  # of a program's model: those here raise ModelError
            raise ModelBehaviorError(_failure_of(event))
    if response is None:
        message = "The model's stream ended before the answer was complete."
        raise ModelError(message, code="bad_response", retryable=True)
    output: Any = response.get("output")
    if output == []:
        output = done  # some servers send items during the stream, and none at the end
    if not isinstance(output, list) or not all(
        isinstance(item, dict) for item in cast("list[Any]", output)
    ):
        message = "The model's stream ended in a response without a list of items."
        raise ModelError(message, code="bad_response", retryable=True)
    response_id, usage = response.get("id"), response.get("usage")
    return ModelResponse(
        output=cast("list[JsonObject]", output),
        usage=usage_of(usage),
        response_id=response_id if isinstance(response_id, str) else None,
        request_id=request_id if isinstance(request_id, str) else None,
        raw_usage=_object(response.get("raw_usage", usage)) or None,
    )


def _failure_of(event: JsonObject) -> str:
    error = _object(_object(event.get("response")).get("error")) or event
    said = f": {error['message']!s:.500}" if error.get("message") else "."
    return f"The model's stream ended with the event {event['type']!r}{said}"


def _object(value: object) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _count(value: object) -> int:
    return value if type(value) is int and value > 0 else 0
