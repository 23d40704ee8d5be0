"""A client that has only the `create` methods, as programs' tests pass it."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

from openai import omit

from outlast import ModelSettings
from outlast.models import OpenAIChatCompletionsModel, OpenAIResponsesModel
from outlast.ports.model import ModelRequest

MESSAGE: dict[str, Any] = {
    "type": "message",
    "id": "m1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "ok", "annotations": []}],
}
RESPONSE: dict[str, Any] = {"id": "r1", "status": "completed", "output": [MESSAGE]}


class Methods:
    """Answers each call of `create`, and keeps its arguments."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.sent: dict[str, Any] = {}

    async def create(self, **sent: Any) -> Any:
        self.sent = sent
        return self.answer


def request() -> ModelRequest:
    settings = ModelSettings(temperature=0.5, extra_headers={"x-tenant": "a"}, timeout=3)
    return ModelRequest(
        instructions="Be brief.", input=[{"role": "user", "content": "Hi"}], settings=settings
    )


async def test_responses_by_the_create_method() -> None:
    methods = Methods(SimpleNamespace(**RESPONSE))
    model = OpenAIResponsesModel("m", SimpleNamespace(responses=methods))  # pyright: ignore[reportArgumentType]
    response = await model.get_response(request())
    assert response.output == [MESSAGE]
    assert methods.sent["temperature"] == 0.5
    assert methods.sent["extra_headers"] == {"x-tenant": "a"}
    assert methods.sent["timeout"].read == 3


async def test_chat_completions_by_the_create_method() -> None:
    said = {"role": "assistant", "content": "ok"}
    methods = Methods({"id": "c", "choices": [{"index": 0, "message": said}]})
    client: Any = SimpleNamespace(chat=SimpleNamespace(completions=methods))
    response = await OpenAIChatCompletionsModel("m", client).get_response(request())
    assert response.output[0]["content"][0]["text"] == "ok"
    assert methods.sent["messages"][0] == {"role": "system", "content": "Be brief."}


async def test_a_stream_by_the_create_method() -> None:
    async def events() -> AsyncIterator[Any]:
        yield {"type": "response.created"}
        yield {"type": "response.completed", "response": RESPONSE}

    methods = Methods(events())
    client: Any = SimpleNamespace(responses=methods)
    streamed = [
        event async for event in OpenAIResponsesModel("m", client).stream_response(request())
    ]
    assert [event["type"] for event in streamed] == ["response.created", "response.completed"]
    assert methods.sent["stream"] is True


async def test_a_prompt_chooses_the_model_unless_it_is_explicit() -> None:
    for explicit in (True, False):
        methods = Methods(RESPONSE)
        client: Any = SimpleNamespace(responses=methods)
        model = OpenAIResponsesModel("m", client, model_is_explicit=explicit)
        await model.get_response(ModelRequest(instructions=None, input=[], prompt={"id": "p"}))
        assert (methods.sent["model"] is omit) is not explicit
        assert methods.sent["tools"] is omit
        assert methods.sent["extra_body"] is None
