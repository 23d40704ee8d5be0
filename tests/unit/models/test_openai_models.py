"""Models behind a client of the caller's own."""

import pytest
from openai import AsyncOpenAI

from outlast.agents.agent import Agent
from outlast.models import OpenAIChatCompletionsModel, OpenAIResponsesModel
from outlast.ports.model import ModelRequest
from tests.unit.models.model_server import ModelServer

ASK = ModelRequest(instructions=None, input=[{"role": "user", "content": "hello"}])


@pytest.mark.parametrize(
    ("kind", "path", "answer"),
    [
        (OpenAIResponsesModel, "/v1/responses", {"output": []}),
        (
            OpenAIChatCompletionsModel,
            "/v1/chat/completions",
            {"choices": [{"message": {"role": "assistant", "content": "hi"}}]},
        ),
    ],
)
async def test_it_asks_through_the_client_that_it_is_given(
    server: ModelServer,
    kind: type[OpenAIResponsesModel | OpenAIChatCompletionsModel],
    path: str,
    answer: object,
) -> None:
    async with AsyncOpenAI(base_url=server.base_url, api_key="sk-own") as client:
        model = kind(model="gpt-x", openai_client=client)
        assert Agent(name="A", model=model).model.model == "gpt-x"
        server.answer(answer)
        await model.get_response(ASK)
    assert (server.request.path, server.request.body["model"]) == (path, "gpt-x")
    assert server.request.headers["authorization"] == "Bearer sk-own"
