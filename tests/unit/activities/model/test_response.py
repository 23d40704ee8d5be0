"""Models of users that do something else than answer."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

import pytest

from outlast.activities.errors import EffectError
from outlast.activities.model.response import ask
from outlast.activities.nested_stream import NestedStream
from outlast.agents.config.model_settings import ModelSettings
from outlast.loop.values import JsonObject
from outlast.ports.model import Model, ModelError, ModelRequest, ModelResponse
from outlast.ports.model_arguments import CallObjects
from outlast.testing import ScriptedModel
from tests.unit.activities.desk import invocation_of, model_request

REQUEST = ModelRequest(instructions=None, input=[{"role": "user", "content": "Hi."}])


class Sync:
    """Has everything, and nothing of it async."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def get_response(self, request: ModelRequest) -> object:
        del request
        return self.answer


class Leaving(Model):
    """Ends the program."""

    async def get_response(self, request: ModelRequest) -> ModelResponse:
        raise SystemExit(3)

    async def stream_response(self, request: ModelRequest) -> AsyncIterator[JsonObject]:
        yield {"type": "response.created"}
        raise SystemExit(3)


class Unstreamed:
    """Forgot the second method, but has its place."""

    async def get_response(self, request: ModelRequest) -> ModelResponse:
        raise NotImplementedError

    def stream_response(self, request: ModelRequest) -> Any: ...


class Mistaken(Unstreamed):
    """Forgot to yield."""

    async def stream_response(self, request: ModelRequest) -> Any:
        return [request]


class Thinking(Model):
    """Never answers, or says after a while that it cannot."""

    def __init__(self, gives_up_after: float | None = None) -> None:
        self.gives_up_after = gives_up_after

    async def get_response(self, request: ModelRequest) -> ModelResponse:
        try:
            async with asyncio.timeout(self.gives_up_after):
                await asyncio.Event().wait()
        except TimeoutError as error:
            raise ModelError("Too late.", code="timeout", retryable=True) from error
        raise NotImplementedError

    async def stream_response(self, request: ModelRequest) -> AsyncIterator[JsonObject]:
        yield {"type": "response.created"}
        await self.get_response(request)


async def answer_of(
    model: object, *, streams: bool = False, request: ModelRequest = REQUEST
) -> ModelResponse:
    invocation = invocation_of()
    seen: list[JsonObject] = []
    return await ask(
        cast("Model", model),
        request,
        seen.append if streams else None,
        NestedStream(invocation, model_request("Desk").effect),
        of="Desk",
        objects=CallObjects(),
    )


async def test_a_model_that_is_not_async_may_answer() -> None:
    expected = await ScriptedModel("Hi").get_response(REQUEST)
    assert await answer_of(Sync(expected)) == expected


@pytest.mark.parametrize(
    ("answer", "given"),
    [
        ("Hi", "returned str: "),
        (None, "returned NoneType: "),
        (ModelResponse(output=[], usage=cast("Any", None)), "returned with usage=NoneType: "),
    ],
)
async def test_what_is_no_answer_is_told_with_the_agent(answer: object, given: str) -> None:
    with pytest.raises(EffectError, match="model Sync of agent 'Desk': get_response") as caught:
        await answer_of(Sync(answer))
    assert given + "return ModelResponse(" in caught.value.message
    assert (caught.value.code, caught.value.retryable) == ("user_error", False)


@pytest.mark.parametrize("streams", [False, True])
async def test_a_model_that_ends_the_program_only_fails(*, streams: bool) -> None:
    with pytest.raises(EffectError, match="model Leaving of agent 'Desk' raised") as caught:
        await answer_of(Leaving(), streams=streams)
    assert "SystemExit" in caught.value.message


@pytest.mark.parametrize("model", [Unstreamed(), Mistaken(), Sync("Hi")])
async def test_a_model_that_cannot_be_read_along_says_what_it_lacks(model: object) -> None:
    with pytest.raises(
        EffectError, match="'Desk' cannot be streamed: make its stream_resp"
    ) as caught:
        await answer_of(model, streams=True)
    assert (caught.value.code, caught.value.retryable) == ("user_error", False)


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("gives_up_after", [None, 0.01])
async def test_a_model_that_takes_longer_than_its_settings_allow_is_stopped(
    streams: bool, gives_up_after: float | None
) -> None:
    """Whether it knows of the bound itself, as those behind a connection do, or not."""
    hasty = replace(REQUEST, settings=ModelSettings(timeout=0.01))
    with pytest.raises(
        EffectError, match=r"Thinking of agent 'Desk' took longer than the 0.01 s"
    ) as late:
        await answer_of(Thinking(gives_up_after), streams=streams, request=hasty)
    assert (late.value.code, late.value.retryable) == ("model_timeout", True)
    assert late.value.details == {"timeout_seconds": 0.01}


async def test_what_a_model_says_of_its_own_bound_is_told() -> None:
    with pytest.raises(EffectError, match="Too late") as failed:
        await answer_of(Thinking(0.01))
    assert failed.value.code == "model_call_failed"
