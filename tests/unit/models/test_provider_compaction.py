"""Conversations that their model's provider makes shorter, with the real client over HTTP."""

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from openai import AsyncOpenAI

from outlast import Agent, Compaction, UserError, function_tool
from outlast.agents.errors import AgentsException
from outlast.loop.values import JsonObject
from outlast.models.openai.chat_request import chat_body
from outlast.models.openai.responses import OpenAIResponsesModel
from outlast.models.openai.responses_websocket import OpenAIResponsesWSModel
from outlast.ports.model import CompactingModel, ModelError, ModelRequest
from outlast.testing import ScriptedModel, run_in_memory
from outlast.views.run import loop_state
from tests.unit.models.model_server import ModelServer

OPAQUE: JsonObject = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA-opaque"}
KEPT: JsonObject = {
    "type": "message",
    "id": "msg_1",
    "role": "user",
    "status": "completed",
    "content": [{"type": "input_text", "text": "Read it.", "annotations": None}],
}
PAGE = "It says that the order A-17 is late. " * 20


@function_tool
def read_page(number: int) -> str:
    """Read a page."""
    return f"Page {number}: {PAGE}"


@pytest.fixture
async def model(server: ModelServer) -> AsyncIterator[OpenAIResponsesModel]:
    async with AsyncOpenAI(api_key="sk-test", base_url=server.base_url) as client:
        yield OpenAIResponsesModel("gpt-5.4", client)


def reply(*output: JsonObject, kind: str = "response", tokens: int = 15) -> JsonObject:
    usage = {"input_tokens": tokens - 5, "output_tokens": 5, "total_tokens": tokens}
    ids = {"id": "resp_1", "object": kind, "created_at": 1}
    return {**ids, "output": list(output), "usage": usage}


def page_call(number: int) -> JsonObject:
    ids = {"id": f"fc_{number}", "call_id": f"c{number}", "name": "read_page"}
    return {"type": "function_call", **ids, "arguments": f'{{"number": {number}}}'}


def said(text: str) -> JsonObject:
    content: list[JsonObject] = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_9", "role": "assistant", "content": content}


def reader(of: Any, **fields: Any) -> Agent[Any]:
    given: dict[str, Any] = {"window": 16, "by": "provider", **fields}
    return Agent(name="Reader", model=of, tools=[read_page], compaction=Compaction(**given))


async def read_pages(
    server: ModelServer, of: Any, *compacted: JsonObject, status: int = 200, **fields: Any
) -> Any:
    """Read three pages; the third reply fills the window, so that the fourth call waits."""
    server.answer(reply(page_call(0), tokens=5))
    server.answer(reply(page_call(1), tokens=5))
    server.answer(reply(page_call(2)))
    made = reply(*compacted, kind="response.compaction", tokens=7)
    missing = {"error": {"message": "There is no such path."}}
    server.answer(made if compacted else missing, status=status)
    server.answer(reply(said("Done."), tokens=5))
    return await run_in_memory(reader(of, **fields), "Read it.", model=cast("Any", None))


async def test_the_model_reads_what_its_provider_made_of_the_older_part(
    server: ModelServer, model: OpenAIResponsesModel
) -> None:
    result = await read_pages(server, model, KEPT, OPAQUE)
    assert result.final_output == "Done."
    assert [one.path for one in server.requests][3:] == ["/v1/responses/compact", "/v1/responses"]
    compact, last = (one.body for one in server.requests[3:])
    assert compact["model"] == "gpt-5.4"
    assert compact.keys() == {"model", "input"}
    assert [one.get("type", "message") for one in compact["input"]] == [
        "message",
        "function_call",
        "function_call_output",
    ]
    kept = {**KEPT, "content": [{"type": "input_text", "text": "Read it."}]}
    assert last["input"][:2] == [kept, OPAQUE]
    assert [one["type"] for one in last["input"][2:]] == [
        "function_call",
        "function_call_output",
    ] * 2
    assert "Page 0" in str(result.to_input_list()), "people read all of it"
    [made] = loop_state(result.snapshot).compaction.made
    assert (made.model, made.usage.total_tokens) == ("OpenAIResponsesModel", 7)
    assert result.usage.total_tokens == 5 + 5 + 15 + 7 + 5


async def test_another_model_of_the_provider_may_do_it(
    server: ModelServer, model: OpenAIResponsesModel
) -> None:
    async with AsyncOpenAI(api_key="sk-test", base_url=server.base_url) as client:
        small = OpenAIResponsesModel("gpt-5.4-mini", client)
        await read_pages(server, model, KEPT, OPAQUE, model=small)
    assert server.requests[3].body["model"] == "gpt-5.4-mini"


async def test_a_model_over_websockets_does_it_over_http(server: ModelServer) -> None:
    server.answer(reply(KEPT, OPAQUE, kind="response.compaction"))
    async with AsyncOpenAI(api_key="sk-test", base_url=server.base_url) as client:
        socket = OpenAIResponsesWSModel("gpt-5.4", client)
        asked = ModelRequest(instructions=None, input=[{"role": "user", "content": "Hi"}])
        made = await socket.compact(asked)
    assert isinstance(socket, CompactingModel)
    assert made.output[-1] == OPAQUE
    assert server.request.path == "/v1/responses/compact"


@pytest.mark.parametrize("body", [{}, {"output": []}, {"output": [{"no": "type"}]}, []])
async def test_an_answer_that_makes_no_sense_is_an_error(
    server: ModelServer, model: OpenAIResponsesModel, body: Any
) -> None:
    server.answer(body)
    with pytest.raises(ModelError) as caught:
        await model.compact(
            ModelRequest(instructions=None, input=[{"role": "user", "content": "Hi"}])
        )
    assert caught.value.code == "bad_response"


@pytest.mark.parametrize("status", [404, 400])
async def test_a_server_that_does_not_have_it_stops_nothing(
    server: ModelServer, model: OpenAIResponsesModel, status: int
) -> None:
    result = await read_pages(server, model, status=status)
    assert result.final_output == "Done."
    assert "Page 0" in str(server.requests[-1].body["input"])
    [ignored] = result.snapshot.ignored
    assert "There is no such path." in ignored.why


async def test_more_than_a_run_carries_is_not_used_and_paid(
    server: ModelServer, model: OpenAIResponsesModel
) -> None:
    huge = {**OPAQUE, "encrypted_content": "x" * 200_000}
    result = await read_pages(server, model, huge)
    assert "more than the 200,000 that a run carries" in result.snapshot.ignored[0].why
    assert "Page 0" in str(server.requests[-1].body["input"])
    assert result.usage.total_tokens == 5 + 5 + 15 + 7 + 5


def no_words(_context: Any, _items: Any) -> str:
    return ""


# --- Models that do not have it --------------------------------------------------------------------


def test_a_model_without_it_is_refused_with_the_definition() -> None:
    with pytest.raises(UserError, match="Agent 'Reader': compaction: the provider of Scripted"):
        reader(ScriptedModel("Hi."))
    with pytest.raises(UserError, match="Compaction: model: the provider of ScriptedModel"):
        reader("gpt-5.4", model=ScriptedModel("Hi."))
    with pytest.raises(UserError, match="the provider decides what it keeps"):
        reader("gpt-5.4", instructions="Be short.")
    with pytest.raises(UserError, match="the provider decides what it keeps"):
        reader("gpt-5.4", summarize=no_words)
    with pytest.raises(UserError, match="by must be one of 'model', 'provider', not 'openai'"):
        reader("gpt-5.4", by="openai")


async def test_a_name_of_a_model_without_it_is_refused_before_the_first_call() -> None:
    model = ScriptedModel("Hi.")
    with pytest.raises(AgentsException, match="makes no conversation shorter"):
        await run_in_memory(reader("some-name"), "Read it.", model=model)
    assert model.requests == []


def test_a_model_of_another_provider_reads_that_something_is_left_out() -> None:
    body = chat_body(ModelRequest(instructions=None, input=[KEPT, OPAQUE]), "other")
    left_out = {"role": "user", "content": "(The earlier part of this conversation is left out.)"}
    assert body["messages"][1:] == [left_out]
