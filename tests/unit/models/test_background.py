"""Responses in the background: what is sent, what is read, and what is refused."""

from collections.abc import AsyncGenerator, Generator

import pytest

from outlast import Agent, ModelRetrySettings, ModelSettings, OpenAIProvider, UserError
from outlast.agents.errors import AgentsException
from outlast.models.openai.responses import RUN_ID, ResponsesModel, with_run_id
from outlast.ports.model import (
    BackgroundModel,
    ModelError,
    ModelRequest,
    ModelResponse,
    ResponseLost,
)
from outlast.testing import ScriptedModel, run_in_memory
from tests.background_server import BackgroundServer, said

ASKED = ModelRequest(
    instructions="Think.",
    input=[{"role": "user", "content": "Why?"}],
    settings=ModelSettings(background=True, include=["message.output_text.logprobs"]),
    run_id="support-42",
)


@pytest.fixture
def server() -> Generator[BackgroundServer]:
    with BackgroundServer() as made:
        yield made


@pytest.fixture
async def provider(server: BackgroundServer) -> AsyncGenerator[OpenAIProvider]:
    made = OpenAIProvider(api_key="sk-a-key-of-a-test", base_url=server.base_url)
    yield made
    await made.aclose()


@pytest.fixture
def model(provider: OpenAIProvider) -> ResponsesModel:
    made = provider.get_model("gpt-5-pro")
    assert isinstance(made, ResponsesModel)
    assert isinstance(made, BackgroundModel)
    return made


async def test_a_response_is_begun_stored_and_read(
    model: ResponsesModel, server: BackgroundServer
) -> None:
    response_id = await model.begin_response(ASKED)
    body = server.begun[response_id]
    assert (body["background"], body["store"]) == (True, True)
    assert body["metadata"] == {RUN_ID: "support-42"}
    assert await model.read_response(response_id, ASKED) is None
    server.finish(response_id, said("Because."))
    response = await model.read_response(response_id, ASKED)
    assert response is not None
    assert (response.response_id, response.usage.total_tokens) == (response_id, 37)


async def test_a_response_that_is_gone_failed_or_cancelled_is_lost(
    model: ResponsesModel, server: BackgroundServer
) -> None:
    failed = await model.begin_response(ASKED)
    server.fail(failed)
    cancelled = await model.begin_response(ASKED)
    await model.cancel_response(cancelled)
    for response_id, again in ((failed, True), (cancelled, False), ("resp_unknown", True)):
        with pytest.raises(ResponseLost) as caught:
            await model.read_response(response_id, ASKED)
        assert caught.value.retryable is again


async def test_what_has_ended_needs_no_cancellation_and_what_is_away_does(
    model: ResponsesModel, server: BackgroundServer
) -> None:
    response_id = await model.begin_response(ASKED)
    server.finish(response_id, said("Because."))
    await model.cancel_response(response_id)
    await model.cancel_response("resp_unknown")
    server.broken = 1
    with pytest.raises(ModelError) as caught:
        await model.cancel_response(response_id)
    assert caught.value.retryable


async def test_a_response_of_nothing_is_lost_since_it_stays_as_it_is(
    model: ResponsesModel, server: BackgroundServer
) -> None:
    response_id = await model.begin_response(ASKED)
    server.finish(response_id, said(""))
    with pytest.raises(ResponseLost) as caught:
        await model.read_response(response_id, ASKED)
    assert (caught.value.code, caught.value.retryable) == ("empty_answer", True)


async def test_an_id_never_leads_to_another_path(
    model: ResponsesModel, server: BackgroundServer
) -> None:
    with pytest.raises(ResponseLost):
        await model.read_response("../models/x?y#z", ASKED)
    assert server.looks == {}


def test_metadata_of_the_program_comes_first() -> None:
    full = {f"key {at}": "x" for at in range(16)}
    assert with_run_id(full, "support-42") == full
    assert with_run_id(None, "x" * 513) == {}
    assert with_run_id({"a": "b"}, "r") == {"a": "b", RUN_ID: "r"}


async def test_in_memory_the_response_is_waited_for(
    model: ResponsesModel, server: BackgroundServer
) -> None:
    agent = Agent[None](name="Thinker", model_settings=ModelSettings(background=True))
    server.finish("resp_1", said("Because."))
    result = await run_in_memory(agent, "Why?", model=model)
    assert (result.final_output, list(server.begun)) == ("Because.", ["resp_1"])


async def test_a_model_without_a_background_says_so() -> None:
    agent = Agent[None](name="Thinker", model_settings=ModelSettings(background=True))
    with pytest.raises(AgentsException, match="makes no responses in the background"):
        await run_in_memory(agent, "Why?", model=ScriptedModel("Because."))


def test_a_response_that_is_not_stored_cannot_be_read_later() -> None:
    with pytest.raises(UserError, match="needs store"):
        ModelSettings(background=True, store=False)


class Away(ScriptedModel):
    """A model whose provider cannot be reached."""

    begun = 0

    async def begin_response(self, request: ModelRequest) -> str:
        self.begun += 1
        raise ModelError("It is away.", code="unreachable", retryable=True)

    async def read_response(self, response_id: str, request: ModelRequest) -> ModelResponse | None:
        raise AssertionError("nothing was begun")

    async def cancel_response(self, response_id: str) -> None:
        raise AssertionError("nothing was begun")


async def test_the_settings_for_retries_count_when_a_response_is_begun() -> None:
    model = Away()
    settings = ModelSettings(background=True, retry=ModelRetrySettings(max_retries=1))
    agent = Agent[None](name="Thinker", model_settings=settings)
    with pytest.raises(AgentsException, match="It is away"):
        await run_in_memory(agent, "Why?", model=model)
    assert model.begun == 2
