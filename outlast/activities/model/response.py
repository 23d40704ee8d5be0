"""Calls a model, and turns a model's mistakes into typed errors."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import TypeAlias, cast

from outlast.activities.errors import EffectError, mistake, model_code
from outlast.activities.nested_stream import NestedStream
from outlast.agents.callables import call
from outlast.agents.errors import ModelTimeoutError
from outlast.agents.usage import AnyUsage
from outlast.loop.values import JsonObject
from outlast.ports.model import (
    CompactingModel,
    Model,
    ModelRequest,
    ModelResponse,
    response_of_stream,
)
from outlast.ports.model_arguments import CallObjects, by_record

OnEvent: TypeAlias = Callable[[JsonObject], None]
"""Called with every raw event of a stream."""


async def ask(
    model: Model,
    request: ModelRequest,
    on_event: OnEvent | None,
    stream: NestedStream | None,
    *,
    of: str,
    objects: CallObjects,
) -> ModelResponse:
    """Call a model and return its response.

    `stream` receives the raw events for the `on_stream` of a nested run's tool, `on_event` for
    readers of the run; None for calls that nobody reads along.

    Raises:
        EffectError: the model failed, took too long, or returned no response.
    """
    what = f"The model {type(model).__name__} of agent {of!r}"
    limit = request.settings.timeout
    if limit is None:
        return await _answer(by_record(model, objects), request, on_event, stream, what)
    seconds = limit.total_seconds()
    bound = asyncio.timeout(seconds)
    try:
        async with bound:
            return await _answer(by_record(model, objects), request, on_event, stream, what)
    except (TimeoutError, EffectError) as error:
        if not bound.expired():
            raise
        # The model's own connection may have the same time-out, with a worse message.
        raise EffectError(
            ModelTimeoutError.code,
            f"{what} took longer than the {seconds:g} s of ModelSettings(timeout=...).",
            retryable=True,
            details={"timeout_seconds": seconds},
        ) from error


async def plain_answer(model: Model, request: ModelRequest, *, of: str) -> ModelResponse:
    """Call a model for an agent's run outside of its turns, and return the response.

    Raises:
        EffectError: the model failed, or returned no response.
    """
    what = f"The model {type(model).__name__} of agent {of!r}"
    return await _answer(by_record(model, CallObjects()), request, None, None, what)


async def compacted(model: CompactingModel, request: ModelRequest, *, of: str) -> ModelResponse:
    """Let a model's provider make the input of a request shorter, and return the response.

    Raises:
        EffectError: the provider failed, or returned no response.
    """
    what = f"compact of the model {type(model).__name__} of agent {of!r}"
    with model_code(what):
        answer = cast("object", await call(model.compact, request))
    if isinstance(answer, ModelResponse) and isinstance(cast("object", answer.usage), AnyUsage):
        return answer
    raise mistake(f"{what} returned {type(answer).__name__} instead of a ModelResponse.")


async def _answer(
    model: Model,
    request: ModelRequest,
    on_event: OnEvent | None,
    stream: NestedStream | None,
    what: str,
) -> ModelResponse:
    with model_code(what):
        if stream is not None and stream.has_callback:
            events = stream.forward(_stream(model, request, what))
            return await response_of_stream(events, on_event)
        if on_event is not None:
            return await response_of_stream(_stream(model, request, what), on_event)
        answer = cast("object", await call(model.get_response, request))
    if isinstance(answer, ModelResponse) and isinstance(cast("object", answer.usage), AnyUsage):
        return answer
    returned = type(answer if not isinstance(answer, ModelResponse) else answer.usage).__name__
    part = " with usage=" if isinstance(answer, ModelResponse) else " "
    raise mistake(
        f"{what}: get_response returned{part}{returned}: "
        "return ModelResponse(output=[...], usage=Usage(...))."
    )


def _stream(model: Model, request: ModelRequest, what: str) -> AsyncIterator[JsonObject]:
    make = cast("Callable[[ModelRequest], object] | None", getattr(model, "stream_response", None))
    events = make(request) if callable(make) else None
    if isinstance(events, AsyncIterable):
        return aiter(cast("AsyncIterable[JsonObject]", events))
    close = getattr(events, "close", None)
    if callable(close):  # a coroutine that is never awaited
        close()
    raise mistake(
        f"{what} cannot be streamed: make its stream_response an async generator of raw events "
        "(`async def` with `yield`), or run without streaming (Runner.run)."
    )
