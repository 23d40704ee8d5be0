"""Model calls with the SDK's arguments instead of one request record, in both directions."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from enum import Enum
from functools import wraps
from inspect import signature
from typing import Any, TypeAlias, TypeGuard, cast

from outlast.agents.callables import call, takes_model_arguments
from outlast.agents.config.model_settings import ModelSettings
from outlast.agents.handoffs.handoff import Handoff
from outlast.agents.installed_sdk import (
    is_sdk_model,
    response_parts,
    sdk_model_arguments,
    sdk_names,
)
from outlast.agents.items.raw_items import as_json
from outlast.agents.items.typed_events import typed_event
from outlast.agents.schemas.agent_output import AgentOutputSchemaBase
from outlast.agents.schemas.provider_names import provider_name
from outlast.agents.tools.definition import FunctionTool
from outlast.agents.tools.hosted import HostedTool
from outlast.agents.tools.local import LocalTool
from outlast.loop.values import JsonObject
from outlast.ports.model import (
    Model,
    ModelRequest,
    ModelResponse,
    OutputSpec,
    ToolSpec,
)
from outlast.ports.run_response import RunResponse

OUTPUT_NAME = "final_output"
"""The output schema's name in a request. A type's own name, such as `list[int]`, may be invalid."""


class ModelTracing(Enum):
    """Tells a model that traces its own calls whether it may."""

    DISABLED = 0
    ENABLED = 1
    ENABLED_WITHOUT_DATA = 2

    def is_disabled(self) -> bool:
        """Whether tracing is disabled."""
        return self is ModelTracing.DISABLED

    def include_data(self) -> bool:
        """Whether inputs and outputs may be traced, as well."""
        return self is ModelTracing.ENABLED


@dataclass(frozen=True, slots=True, kw_only=True)
class CallObjects:
    """The objects that a request record only describes."""

    tools: Sequence[FunctionTool | HostedTool] = ()
    handoffs: Sequence[Handoff] = ()
    output_schema: AgentOutputSchemaBase | None = None
    tracing: ModelTracing = ModelTracing.DISABLED


def by_record(model: Model, objects: CallObjects) -> Model:
    """Return a model that takes a request record, wrapping one that takes arguments."""
    return _SpreadModel(model, objects) if takes_model_arguments(model) else model


class _SpreadModel:
    """Passes the SDK's arguments to a model that expects them."""

    def __init__(self, model: Any, objects: CallObjects) -> None:
        self._model = model
        self._objects = objects

    async def get_response(self, request: ModelRequest) -> ModelResponse:
        answer = await call(self._model.get_response, **self._leading(request), **_others(request))
        if "ModelResponse" in sdk_names(answer):
            return ModelResponse(**response_parts(answer))
        if not isinstance(answer, RunResponse):
            return answer
        return ModelResponse(  # the items of our own models are typed here
            answer.to_input_items(),
            answer.usage,
            answer.response_id,
            answer.request_id,
            answer.raw_usage,
        )

    def stream_response(self, request: ModelRequest) -> AsyncIterator[JsonObject]:
        # Models often rename parameters that they ignore, so the first ones are positional.
        return self._model.stream_response(*self._leading(request).values(), **_others(request))

    def _leading(self, request: ModelRequest) -> dict[str, Any]:
        leading: dict[str, Any] = {
            "system_instructions": request.instructions,
            "input": deepcopy(list(request.input)),
            "model_settings": request.settings,
            "tools": list(self._objects.tools),
            "output_schema": self._objects.output_schema,
            "handoffs": list(self._objects.handoffs),
            "tracing": self._objects.tracing,
        }
        return sdk_model_arguments(leading) if is_sdk_model(self._model) else leading


def _others(request: ModelRequest) -> dict[str, Any]:
    return {
        "previous_response_id": request.previous_response_id,
        "conversation_id": request.conversation_id,
        "prompt": request.prompt,
    }


# --- Calls with the SDK's arguments -------------------------------------------------------------

Answering: TypeAlias = Callable[[Any, ModelRequest], Coroutine[Any, Any, ModelResponse]]
Streaming: TypeAlias = Callable[[Any, ModelRequest], AsyncGenerator[JsonObject]]


def answers_both_forms(answer: Answering) -> Callable[..., Coroutine[Any, Any, ModelResponse]]:
    """Let `get_response(request)` also take arguments, and return typed items then."""

    @wraps(answer)
    async def get_response(self: Any, *args: Any, **kwargs: Any) -> ModelResponse:
        request = _only_record(args, kwargs)
        if request is not None:
            return await answer(self, request)
        return RunResponse.of(await answer(self, _request(args, kwargs)))

    return get_response


def streams_both_forms(stream: Streaming) -> Callable[..., AsyncGenerator[Any]]:
    """Let `stream_response(request)` also take arguments; its events are then typed."""

    @wraps(stream)
    def stream_response(self: Any, *args: Any, **kwargs: Any) -> AsyncGenerator[Any]:
        request = _only_record(args, kwargs)
        if request is not None:
            return stream(self, request)
        return _typed(stream(self, _request(args, kwargs)))

    return stream_response


async def _typed(events: AsyncGenerator[JsonObject]) -> AsyncGenerator[Any]:
    try:
        async for event in events:
            yield typed_event(event)
    finally:
        await events.aclose()


def _only_record(args: Sequence[Any], kwargs: dict[str, Any]) -> ModelRequest | None:
    arguments = [*args, *kwargs.values()]
    return arguments[0] if len(arguments) == 1 and isinstance(arguments[0], ModelRequest) else None


def _request(args: Sequence[Any], kwargs: dict[str, Any]) -> ModelRequest:
    try:
        arguments = signature(model_request).bind(*args, **kwargs)
    except TypeError as error:
        message = f"A model is called with one ModelRequest, or as the SDK's models are: {error}."
        raise TypeError(message) from None
    return model_request(*arguments.args, **arguments.kwargs)


def model_request(  # noqa: PLR0913  as many as there are
    system_instructions: str | None,
    input: str | Sequence[Any],  # noqa: A002  its name in the SDK
    model_settings: ModelSettings,
    tools: Sequence[FunctionTool | HostedTool],
    output_schema: AgentOutputSchemaBase | None,
    handoffs: Sequence[Handoff],
    tracing: ModelTracing,
    *,
    previous_response_id: str | None = None,
    conversation_id: str | None = None,
    prompt: Any = None,
) -> ModelRequest:
    """Return the request record for the SDK's arguments of a model call."""
    del tracing  # the caller traces the call
    items = [{"role": "user", "content": input}] if isinstance(input, str) else list(input)
    hosted = [position for position, tool in enumerate(tools) if not is_function(tool)]
    return ModelRequest(
        instructions=system_instructions,
        input=[as_json(item) for item in items],
        tools=function_specs(tools, handoffs),
        hosted_tools=[cast("HostedTool", tools[position]) for position in hosted],
        hosted_positions=hosted,
        output=output_spec(output_schema),
        settings=model_settings,
        previous_response_id=previous_response_id,
        conversation_id=conversation_id,
        prompt=prompt,
    )


# --- Descriptions of objects for the provider ---------------------------------------------------


def function_specs(tools: Iterable[object], handoffs: Iterable[Handoff]) -> list[ToolSpec]:
    """Return the specifications of function tools and handoffs."""
    functions = [
        ToolSpec(
            name=provider_name(tool.name),
            description=tool.description,
            parameters=tool.params_json_schema,
            strict=tool.strict_json_schema,
            deferred=tool.defer_loading,
            namespace=tool.namespace,
            allowed_callers=tool.allowed_callers,
            output_schema=tool.output_json_schema,
        )
        for tool in tools
        if is_function(tool)
    ]
    return functions + [
        ToolSpec(
            name=provider_name(entry.tool_name),
            description=entry.tool_description,
            parameters=entry.input_json_schema,
            strict=entry.strict_json_schema,
        )
        for entry in handoffs
    ]


def output_spec(schema: AgentOutputSchemaBase | None) -> OutputSpec | None:
    """Return the specification of an output type; None for plain text."""
    if schema is None or schema.is_plain_text():
        return None
    return OutputSpec(
        name=OUTPUT_NAME, schema=schema.json_schema(), strict=schema.is_strict_json_schema()
    )


def is_function(tool: object) -> TypeGuard[FunctionTool]:
    """Whether a tool is sent as a function; local tools have their own entries."""
    return isinstance(tool, FunctionTool) and not isinstance(tool, LocalTool)
