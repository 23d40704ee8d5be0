"""The offline model over HTTP, asked by the real OpenAI client."""

import asyncio
import json
import signal
import socket
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from time import monotonic
from typing import Any

import openai
import pytest
from openai.types.responses import (
    Response,
    ResponseFunctionToolCall,
    ResponseInputParam,
    ResponseOutputMessage,
    ToolParam,
)

from outlast.agents.errors import ServerUnavailable, UserError
from outlast.dev.offline_model import MODEL_NAME, OfflineModel, main

TOOLS: list[ToolParam] = [
    {
        "type": "function",
        "name": "look_up_order",
        "description": "Look up an order.",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"order_id": {"type": "string"}},
            "required": ["order_id"],
            "additionalProperties": False,
        },
    }
]


@pytest.fixture(scope="module")
async def model() -> AsyncIterator[OfflineModel]:
    async with OfflineModel() as model:
        yield model


@pytest.fixture(scope="module")
async def client(model: OfflineModel) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=model.base_url, api_key="offline", max_retries=0
    ) as client:
        yield client


async def ask(client: openai.AsyncOpenAI, conversation: ResponseInputParam) -> Response:
    return await client.responses.create(
        model="any", instructions="Help.", input=conversation, tools=TOOLS
    )


def assert_valid(value: Any, kind: type[openai.BaseModel]) -> None:
    """Check what the client itself only assumes: that the JSON fits its types."""
    kind.model_validate(value.to_dict(mode="json"))


async def test_a_conversation_over_http(client: openai.AsyncOpenAI):
    conversation: ResponseInputParam = [{"role": "user", "content": "Where are A-17 and B-2?"}]
    first = await ask(client, conversation)
    assert_valid(first, Response)
    calls = [item for item in first.output if isinstance(item, ResponseFunctionToolCall)]
    assert [call.arguments for call in calls] == ['{"order_id": "A-17"}', '{"order_id": "B-2"}']
    assert len({call.call_id for call in calls}) == 2
    for call in calls:
        conversation.append(
            {
                "type": "function_call",
                "call_id": call.call_id,
                "name": call.name,
                "arguments": call.arguments,
            }
        )
    for call in calls:
        output = json.dumps({"status": f"shipped with {call.arguments[14:-2]}"})
        conversation.append(
            {"type": "function_call_output", "call_id": call.call_id, "output": output}
        )
    second = await ask(client, conversation)
    assert_valid(second, Response)
    assert second.output_text == ("Order A-17 is shipped with A-17. Order B-2 is shipped with B-2.")
    assert isinstance(second.output[0], ResponseOutputMessage)
    assert second.model == "any"
    assert second.status == "completed"
    assert second.usage is not None
    assert first.usage is not None
    assert second.usage.input_tokens > first.usage.input_tokens
    assert second.id != first.id


@pytest.mark.parametrize("words", ["Where is A-17?", "Hello"])
async def test_a_stream_tells_the_same_answer(client: openai.AsyncOpenAI, words: str):
    async with client.responses.stream(model="any", input=words, tools=TOOLS) as stream:
        events = [event async for event in stream]
        final = await stream.get_final_response()
    kinds = [event.type for event in events]
    assert kinds[:3] == ["response.created", "response.in_progress", "response.output_item.added"]
    assert kinds[-2:] == ["response.output_item.done", "response.completed"]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    complete = await client.responses.create(model="any", input=words, tools=TOOLS)
    assert final.output_text == complete.output_text
    assert [item.type for item in final.output] == [item.type for item in complete.output]
    assert final.usage == complete.usage


async def test_every_event_of_a_stream_fits_the_clients_types(client: openai.AsyncOpenAI):
    for words in ("Where is A-17?", "Hello"):
        stream = await client.responses.create(model="any", input=words, tools=TOOLS, stream=True)
        async for event in stream:
            assert_valid(event, type(event))


async def test_a_refusal_is_the_clients_error(client: openai.AsyncOpenAI):
    with pytest.raises(openai.BadRequestError, match="No tool output found") as caught:
        await ask(
            client,
            [{"type": "function_call", "call_id": "c", "name": "look_up_order", "arguments": "{}"}],
        )
    assert caught.value.type == "invalid_request_error"
    assert caught.value.request_id is not None
    assert caught.value.request_id.startswith("req_")


async def test_a_body_that_is_no_json_is_refused(client: openai.AsyncOpenAI):
    with pytest.raises(openai.BadRequestError, match="could not parse the JSON body"):
        await client.post("/responses", content=b"{", cast_to=Response)


async def test_an_unknown_address_is_not_found(client: openai.AsyncOpenAI):
    with pytest.raises(openai.NotFoundError, match=r"Invalid URL \(POST /v1/chat/completions\)"):
        await client.chat.completions.create(
            model="any", messages=[{"role": "user", "content": "Hello"}]
        )


async def test_models_are_listed(client: openai.AsyncOpenAI):
    assert [model.id async for model in client.models.list()] == [MODEL_NAME]
    assert (await client.models.retrieve("gpt-5")).id == "gpt-5"


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_takes_the_time_it_is_told_to(*, stream: bool):
    delay = timedelta(milliseconds=150)
    async with (
        OfflineModel(delay=delay) as model,
        openai.AsyncOpenAI(base_url=model.base_url, api_key="offline") as client,
    ):
        started = monotonic()
        if stream:
            events = await client.responses.create(model="any", input="Hello", stream=True)
            assert len([event async for event in events]) > 10
        else:
            await client.responses.create(model="any", input="Hello")
        assert monotonic() - started >= delay.total_seconds()


async def test_starting_and_stopping_twice_is_harmless():
    model = OfflineModel()
    with pytest.raises(UserError, match="await its start"):
        _ = model.base_url
    await model.start()
    url = model.base_url
    await model.start()
    assert model.base_url == url
    await model.stop()
    await model.stop()
    await model.start()
    await model.stop()


async def test_a_port_in_use_is_named(model: OfflineModel):
    port = int(model.base_url.split(":")[2].split("/")[0])
    with pytest.raises(ServerUnavailable, match=f"Port {port} .* 0 takes a free one"):
        await OfflineModel(port=port).start()


def test_the_command_fails_with_a_sentence_when_its_port_is_in_use(
    capsys: pytest.CaptureFixture[str],
):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert main(["--port", str(taken.getsockname()[1])]) == 1
    assert "Choose another port" in capsys.readouterr().err


@pytest.mark.parametrize("end", ["signal", "end of input"])
async def test_the_command_prints_its_address_and_ends_when_told(end: str):
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "outlast.dev.offline_model", "--delay-ms", "5", "--until-eof"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    base_url = (await process.stdout.readline()).decode().strip()
    async with openai.AsyncOpenAI(base_url=base_url, api_key="offline") as client:
        assert (await client.responses.create(model="any", input="Hello")).output_text
    if end == "signal":
        process.send_signal(signal.SIGTERM)
    else:
        process.stdin.close()
    _, errors = await process.communicate()
    assert (process.returncode, errors) == (0, b"")
