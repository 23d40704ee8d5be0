"""The port to a model: what adapters implement and what they may raise."""

from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any, cast

import pytest
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseOutputMessage,
    ResponseOutputText,
)

from outlast.agents.config.model_settings import ModelSettings
from outlast.agents.errors import ModelBehaviorError
from outlast.loop.values import JsonObject, Usage
from outlast.models.openai.provider import OpenAIProvider
from outlast.ports.model import (
    Model,
    ModelError,
    ModelProvider,
    ModelRequest,
    ModelResponse,
    response_of_stream,
    usage_of,
)
from outlast.testing import ScriptedModel


def test_a_request_needs_instructions_and_input_only() -> None:
    request = ModelRequest(instructions=None, input=[])
    assert (request.tools, request.output, request.settings) == ((), None, ModelSettings())
    assert (request.previous_response_id, request.conversation_id, request.prompt) == (
        None,
        None,
        None,
    )


def test_a_model_may_answer_with_the_records_of_the_openai_package() -> None:
    text = ResponseOutputText(type="output_text", text="hi", annotations=[])
    message = ResponseOutputMessage(
        id="m", type="message", role="assistant", status="completed", content=[text]
    )
    call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
    response = ModelResponse(output=cast("Any", [message, call]), usage=Usage())
    assert response.output == [message.model_dump(mode="json", exclude_unset=True), call]
    assert ModelResponse(output=cast("Any", [5]), usage=Usage()).output == [5]


def test_an_error_says_what_to_do_next() -> None:
    wait = timedelta(seconds=3)
    error = ModelError("Busy.", code="overloaded", retryable=True, retry_after=wait, status=503)
    assert str(error) == error.message == "Busy."
    assert (error.code, error.retryable, error.retry_after, error.status) == (
        "overloaded",
        True,
        wait,
        503,
    )


@pytest.mark.parametrize("provider", [OpenAIProvider, ScriptedModel])
def test_what_finds_models_is_recognised_as_a_provider(provider: type) -> None:
    assert isinstance(provider(), ModelProvider)


@pytest.mark.parametrize("thing", [object(), "gpt-5", None, ModelResponse])
def test_what_does_not_is_not(thing: object) -> None:
    assert not isinstance(thing, ModelProvider)


ITEM: JsonObject = {"type": "message", "role": "assistant", "content": []}
CALL: JsonObject = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
USAGE: JsonObject = {
    "input_tokens": 7,
    "output_tokens": 5,
    "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2},
    "output_tokens_details": {"reasoning_tokens": 2},
}


class Stream:
    """A stream that notes whether it was closed."""

    def __init__(self, *events: JsonObject | Exception) -> None:
        self._events = events
        self.closed = False

    async def __call__(self) -> AsyncGenerator[JsonObject]:
        try:
            for event in self._events:
                if isinstance(event, Exception):
                    raise event
                yield event
        finally:
            self.closed = True


async def test_a_stream_comes_to_the_answer_at_its_end() -> None:
    first: JsonObject = {"type": "response.output_text.delta", "delta": "h"}
    last: JsonObject = {
        "type": "response.completed",
        "response": {"id": "r1", "output": [ITEM], "usage": USAGE},
    }
    seen: list[JsonObject] = []
    response = await response_of_stream(Stream(first, last)(), seen.append)
    assert seen == [first, last]
    assert response == ModelResponse(
        output=[ITEM],
        usage=Usage(
            requests=1,
            input_tokens=7,
            output_tokens=5,
            total_tokens=12,
            cached_tokens=3,
            cache_write_tokens=2,
            reasoning_tokens=2,
        ),
        response_id="r1",
        raw_usage=USAGE,
    )


async def test_a_stream_may_be_of_the_records_of_the_openai_package() -> None:
    whole = Response(
        id="r1",
        created_at=0,
        model="m",
        object="response",
        output=[],
        parallel_tool_calls=False,
        tool_choice="auto",
        tools=[],
    )
    whole._request_id = "req_1"
    last = ResponseCompletedEvent(type="response.completed", sequence_number=0, response=whole)
    seen: list[JsonObject] = []
    response = await response_of_stream(Stream(cast("Any", last))(), seen.append)
    assert (response.response_id, response.request_id, response.output) == ("r1", "req_1", [])
    assert seen == [last.model_dump(mode="json", exclude_unset=True)]


@pytest.mark.parametrize(
    "events",
    [
        [],
        [{"type": "response.output_text.delta", "delta": "h"}],
        [{"type": "response.completed"}],
        [{"type": "response.completed", "response": {"output": "text"}}],
        [{"type": "response.completed", "response": {"output": ["text"]}}],
    ],
)
async def test_a_stream_without_an_answer_is_a_bad_response(events: list[JsonObject]) -> None:
    with pytest.raises(ModelError) as caught:
        await response_of_stream(Stream(*events)())
    assert (caught.value.code, caught.value.retryable) == ("bad_response", True)


@pytest.mark.parametrize(("at_the_end", "answer"), [([], [ITEM, CALL]), ([ITEM], [ITEM])])
async def test_items_that_a_stream_gives_on_its_way_only_are_the_answer(
    at_the_end: list[JsonObject], answer: list[JsonObject]
) -> None:
    given = [{"type": "response.output_item.done", "item": item} for item in (ITEM, CALL)]
    last = {"type": "response.completed", "response": {"output": at_the_end}}
    response = await response_of_stream(Stream(*given, last)())
    assert response.output == answer


async def test_a_failing_stream_is_closed() -> None:
    busy = ModelError("Busy.", code="overloaded", retryable=True)
    stream = Stream({"type": "response.created"}, busy)
    with pytest.raises(ModelError, match="Busy"):
        await response_of_stream(stream())
    assert stream.closed

    def refuse(_event: JsonObject) -> None:
        raise RuntimeError("no room")

    stream = Stream({"type": "response.created"}, {"type": "response.in_progress"})
    with pytest.raises(RuntimeError, match="no room"):
        await response_of_stream(stream(), refuse)
    assert stream.closed


async def test_a_stream_may_be_any_iterator() -> None:
    class Once:
        """An iterator that cannot be closed."""

        def __init__(self) -> None:
            self.left: list[JsonObject] = [
                {"type": "response.completed", "response": {"output": [ITEM]}}
            ]

        def __aiter__(self) -> "Once":
            return self

        async def __anext__(self) -> JsonObject:
            if not self.left:
                raise StopAsyncIteration
            return self.left.pop()

    assert (await response_of_stream(Once())).output == [ITEM]


@pytest.mark.parametrize(
    ("value", "usage"),
    [
        (None, Usage(requests=1)),
        ("many", Usage(requests=1)),
        ({"input_tokens": True, "output_tokens": -4}, Usage(requests=1)),
        ({"input_tokens_details": 5, "total_tokens": 9}, Usage(requests=1, total_tokens=9)),
    ],
)
def test_what_is_not_counted_is_nothing(value: object, usage: Usage) -> None:
    assert usage_of(value) == usage


async def test_a_provider_that_inherits_the_port_need_not_close_anything() -> None:
    class House(ModelProvider):
        def get_model(self, model_name: str | None) -> Model:
            return ScriptedModel([])

    house = House()
    assert isinstance(house, ModelProvider)
    await house.aclose()


def test_the_items_of_a_response_become_input_without_being_shared() -> None:
    response = ModelResponse(output=[{"type": "message", "content": []}], usage=Usage())
    (item,) = response.to_input_items()
    item["content"].append("more")
    assert response.to_input_items() == [{"type": "message", "content": []}]


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ({"type": "error", "message": "no credit"}, "the event 'error': no credit"),
        (
            {"type": "response.failed", "response": {"error": {"message": "broken"}}},
            "the event 'response.failed': broken",
        ),
        ({"type": "response.incomplete", "response": {}}, "the event 'response.incomplete'."),
    ],
)
async def test_a_stream_that_says_that_it_failed_is_not_tried_again(
    event: JsonObject, words: str
) -> None:
    seen: list[JsonObject] = []
    with pytest.raises(ModelBehaviorError) as caught:
        await response_of_stream(Stream(event)(), seen.append)
    assert words in str(caught.value)
    assert seen == [event]
