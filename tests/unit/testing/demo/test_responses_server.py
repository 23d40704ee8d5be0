"""The scripted server over HTTP, asked by the real OpenAI client."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from time import monotonic
from typing import Any

import openai
import pytest
from openai.types.responses import Response

from outlast.agents.errors import ServerUnavailable
from outlast.loop.values import JsonObject
from outlast.testing.demo.responses_server import (
    InvalidRequest,
    ResponsesServer,
    function_call,
    message,
)


def script(body: JsonObject) -> list[JsonObject]:
    """Answer by what is asked."""
    match body["input"]:
        case "call":
            return [function_call("look_up", {"id": "A-17"}), function_call("look_up", {"id": "ü"})]
        case "refuse":
            raise InvalidRequest("Not this.")
        case _:
            return [message("Good morning to you")]


@pytest.fixture(scope="module")
def model() -> Iterator[ResponsesServer]:
    with ResponsesServer(script) as model:
        yield model


@pytest.fixture(scope="module")
async def client(model: ResponsesServer) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=model.base_url, api_key="scripted", max_retries=0
    ) as client:
        yield client


def assert_valid(value: Any, kind: type[openai.BaseModel]) -> None:
    """Check what the client itself only assumes: that the JSON fits its types."""
    kind.model_validate(value.to_dict(mode="json"))


@pytest.mark.parametrize("words", ["call", "Hello"])
async def test_a_stream_has_the_same_answer_as_json(client: openai.AsyncOpenAI, words: str):
    async with client.responses.stream(model="any", input=words) as stream:
        events = [event async for event in stream]
        final = await stream.get_final_response()
    whole = await client.responses.create(model="any", input=words)

    assert [event.type for event in events][:2] == ["response.created", "response.in_progress"]
    assert events[-1].type == "response.completed"
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert final.output_text == whole.output_text
    assert [item.type for item in final.output] == [item.type for item in whole.output]
    assert final.usage == whole.usage
    assert whole.model == "any"
    assert_valid(whole, Response)


async def test_every_event_of_a_stream_fits_the_clients_types(client: openai.AsyncOpenAI):
    for words in ("call", "Hello"):
        async for event in await client.responses.create(model="any", input=words, stream=True):
            assert_valid(event, type(event))


async def test_a_refusal_is_the_clients_error(client: openai.AsyncOpenAI):
    with pytest.raises(openai.BadRequestError, match="Not this") as caught:
        await client.responses.create(model="any", input="refuse")
    assert caught.value.type == "invalid_request_error"
    assert str(caught.value.request_id).startswith("req_")
    with pytest.raises(openai.BadRequestError, match="could not parse the JSON body"):
        await client.post("/responses", content=b"{", cast_to=Response)
    with pytest.raises(openai.NotFoundError, match=r"Invalid URL \(POST /v1/chat/completions\)"):
        await client.chat.completions.create(model="any", messages=[])


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_takes_its_delay(*, stream: bool):
    delay = timedelta(milliseconds=150)
    with ResponsesServer(script, delay=delay) as model:
        async with openai.AsyncOpenAI(base_url=model.base_url, api_key="scripted") as client:
            started = monotonic()
            if stream:
                events = await client.responses.create(model="any", input="Hello", stream=True)
                assert len([event async for event in events]) > 5
            else:
                await client.responses.create(model="any", input="Hello")
            assert monotonic() - started >= delay.total_seconds()


async def test_a_streamed_answer_takes_its_pace_for_each_word():
    with ResponsesServer(script, pace=timedelta(milliseconds=30)) as model:
        async with openai.AsyncOpenAI(base_url=model.base_url, api_key="scripted") as client:
            started = monotonic()
            events = await client.responses.create(model="a", input="Hi", stream=True)
            arrivals = [
                monotonic() async for one in events if one.type == "response.output_text.delta"
            ]
    assert len(arrivals) == 4
    # From the request on: a busy machine may hold the first word up, and not the others.
    assert arrivals[-1] - started >= 4 * 0.03


async def test_a_client_that_hangs_up_is_no_error(capfd: pytest.CaptureFixture[str]):
    with ResponsesServer(script, delay=timedelta(milliseconds=200)) as model:
        async with openai.AsyncOpenAI(base_url=model.base_url, api_key="scripted") as client:
            with pytest.raises(openai.APITimeoutError):
                await client.with_options(max_retries=0, timeout=0.05).responses.create(
                    model="any", input="Hello"
                )
            await asyncio.sleep(0.4)
    assert capfd.readouterr().err == ""


def test_a_port_in_use_is_named(model: ResponsesServer):
    port = int(model.base_url.split(":")[2].split("/")[0])
    with pytest.raises(ServerUnavailable, match=f"Port {port} .* 0 takes a free one"):
        ResponsesServer(script, port=port)
