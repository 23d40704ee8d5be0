"""Half an answer is no answer: what a run makes of it."""

from typing import Any

import pytest

from outlast import Agent, ModelBehaviorError, ModelRefusalError, function_tool
from outlast.loop.values import JsonObject
from outlast.models import ChatCompletionsModel, ResponsesModel
from outlast.otel.attributes import Describer
from outlast.testing import SpanCollector, run_in_memory
from tests.unit.models.chat_api import completion
from tests.unit.models.model_server import ModelServer
from tests.unit.models.responses_api import message, response

NOTHING: JsonObject = completion({"content": None, "reasoning_content": "Hm."}, "length")


async def test_an_answer_of_nothing_is_asked_for_once_more(
    chat: ChatCompletionsModel, server: ModelServer
) -> None:
    server.answer(NOTHING)
    server.answer(completion({"content": "Hi."}))
    assert (await run_in_memory(Agent(name="Desk"), "Hello", model=chat)).final_output == "Hi."
    assert len(server.requests) == 2


async def test_a_second_answer_of_nothing_is_a_failure_that_says_what_to_do(
    chat: ChatCompletionsModel, server: ModelServer
) -> None:
    server.answer(NOTHING)
    server.answer(NOTHING)
    with pytest.raises(ModelBehaviorError, match=r"raise ModelSettings\(max_tokens=\)"):
        await run_in_memory(Agent(name="Desk"), "Hello", model=chat)
    assert len(server.requests) == 2


async def test_an_error_handler_answers_in_place_of_nothing(
    chat: ChatCompletionsModel, server: ModelServer
) -> None:
    def sorry(given: Any) -> str:
        assert "answered with nothing" in str(given.error)
        return "Ask me again, please."

    server.answer(NOTHING)
    server.answer(NOTHING)
    result = await run_in_memory(
        Agent(name="Desk"),
        "Hello",
        model=chat,
        error_handlers={"invalid_final_output": sorry},
    )
    assert result.final_output == "Ask me again, please."


async def test_a_filtered_answer_is_a_refusal_of_the_model(
    model: ResponsesModel, server: ModelServer
) -> None:
    details = {"reason": "content_filter"}
    half = message("Half a sen")
    server.answer(response(half, status="incomplete", incomplete_details=details))
    with pytest.raises(ModelRefusalError, match="content filter"):
        await run_in_memory(Agent(name="Desk"), "Hello", model=model)


@pytest.mark.parametrize("arguments", ["", '{"city": "Ber'])
async def test_a_call_that_the_token_limit_cut_off_does_not_run(
    chat: ChatCompletionsModel, server: ModelServer, arguments: str
) -> None:
    ran: list[str] = []

    @function_tool
    def forget(city: str = "every city") -> str:
        """Forget a city."""
        ran.append(city)
        return "Forgotten."

    def forgets(call_id: str, written: str) -> JsonObject:
        function = {"name": "forget", "arguments": written}
        return {"id": call_id, "type": "function", "function": function}

    calls = [forgets("a", '{"city": "Rome"}'), forgets("b", arguments)]
    server.answer(completion({"tool_calls": calls}, "length"))
    server.answer(completion({"content": "Done."}))
    await run_in_memory(Agent(name="Desk", tools=[forget]), "Forget Rome.", model=chat)
    assert ran == ["Rome"]
    *_, whole, cut = server.requests[-1].body["messages"]
    assert whole["content"] == "Forgotten."
    assert "cut off before its end" in cut["content"]


async def test_half_a_sentence_that_stays_says_so(
    chat: ChatCompletionsModel, server: ModelServer
) -> None:
    server.answer(completion({"content": "Half a sen"}, "length"))
    server.answer(completion({"content": "A sentence."}))
    with SpanCollector() as collector:
        cut = await run_in_memory(Agent(name="Desk"), "Hello", model=chat)
        whole = await run_in_memory(Agent(name="Desk"), "Hello", model=chat)
    assert (cut.final_output, cut.is_cut_short) == ("Half a sen", True)
    assert (whole.final_output, whole.is_cut_short) == ("A sentence.", False)
    calls = [span for span in collector.spans() if span.span_data.type == "generation"]
    assert [span.facts.get("finish_reasons") for span in calls] == [("length",), ("stop",)]
    described = Describer(include_content=False, pricing=None).describe(calls[0])
    assert described.attributes["gen_ai.response.finish_reasons"] == ("length",)
