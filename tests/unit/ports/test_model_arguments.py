"""Models are called with one record or with the SDK's arguments, whichever they take."""

# ruff: noqa: A002  the arguments are called what the SDK calls them

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, cast

import pytest
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseOutputMessage,
    ResponseOutputText,
)

import outlast
from outlast import Agent, ModelResponse, ModelSettings, ModelTracing, Usage, function_tool, handoff
from outlast.agents.schemas.agent_output import output_schema_of
from outlast.agents.tools.hosted import WebSearchTool
from outlast.loop.values import JsonObject
from outlast.ports.model import ModelRequest
from outlast.ports.model_arguments import CallObjects, by_record
from outlast.testing import ScriptedModel, call, run_in_memory, run_in_memory_streamed


@function_tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"Rain in {city}."


OTHER = Agent[Any](name="Other")


def message(text: str) -> ResponseOutputMessage:
    part = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(
        id="m1", type="message", role="assistant", status="completed", content=[part]
    )


class Recorded(outlast.Model):
    """A model as programs for the SDK write it."""

    def __init__(self, *replies: list[Any]) -> None:
        self.replies = list(replies)
        self.asked: list[dict[str, Any]] = []

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[Any],
        model_settings: ModelSettings,
        tools: list[Any],
        output_schema: Any,
        handoffs: list[Any],
        tracing: ModelTracing,
        *,
        previous_response_id: str | None,
        conversation_id: str | None,
        prompt: Any,
    ) -> ModelResponse:
        self.asked.append({name: value for name, value in locals().items() if name != "self"})
        return ModelResponse(self.replies.pop(0), Usage(requests=1), "resp-1")

    async def stream_response(
        self, system_instructions: str | None, input: Any, *others: Any, **named: Any
    ) -> AsyncIterator[Any]:
        self.asked.append({"system_instructions": system_instructions, "input": input, **named})
        response = Response.model_construct(
            id="resp-1", output=self.replies.pop(0), usage=None, object="response"
        )
        yield ResponseCompletedEvent(
            type="response.completed", sequence_number=0, response=response
        )


async def test_a_model_that_takes_arguments_answers_a_run() -> None:
    model = Recorded([call("weather", "c1", city="Bremen")], [message("It rains.")])
    agent = Agent[Any](
        name="A", instructions="Be brief.", tools=[weather], handoffs=[handoff(OTHER)]
    )
    result = await run_in_memory(agent, "Weather?", model=model)
    first, second = model.asked
    assert result.final_output == "It rains."
    assert first["system_instructions"] == "Be brief."
    assert first["input"] == [{"role": "user", "content": "Weather?"}]
    assert first["tools"] == [weather]
    assert [one.tool_name for one in first["handoffs"]] == ["transfer_to_other"]
    assert (first["output_schema"], first["tracing"]) == (None, ModelTracing.DISABLED)
    assert isinstance(first["model_settings"], ModelSettings)
    assert second["input"][-1]["output"] == "Rain in Bremen."
    assert result.raw_responses[0].response_id == "resp-1"


async def test_it_is_read_along_as_any_other() -> None:
    model = Recorded([message("It rains.")])
    streamed = run_in_memory_streamed(Agent[Any](name="A"), "Weather?", model=model)
    kinds = [event.type async for event in streamed.stream_events()]
    assert streamed.final_output == "It rains."
    assert "raw_response_event" in kinds
    assert model.asked[0]["conversation_id"] is None


async def test_a_model_that_gets_a_schema_may_use_it() -> None:
    model = Recorded([message('{"response": 7}')])
    result = await run_in_memory(Agent[Any](name="A", output_type=int), "How many?", model=model)
    schema = model.asked[0]["output_schema"]
    assert (result.final_output, schema.validate_json('{"response": 8}')) == (7, 8)


async def test_what_it_changes_in_its_input_stays_its_own() -> None:
    class Forgetful:
        async def get_response(
            self, system_instructions: str | None, input: list[Any], **named: Any
        ) -> ModelResponse:
            input.clear()
            return ModelResponse([message("Hi.")], Usage(), None)

    given = [{"role": "user", "content": "Hi"}]
    model = by_record(cast("outlast.Model", Forgetful()), CallObjects())
    await model.get_response(ModelRequest(instructions=None, input=given))
    assert given == [{"role": "user", "content": "Hi"}]


def arguments(**changed: Any) -> dict[str, Any]:
    """Return what a program calls a model with."""
    plain: dict[str, Any] = {
        "system_instructions": "Be brief.",
        "input": "Hi",
        "model_settings": ModelSettings(temperature=0.5),
        "tools": [WebSearchTool(), weather],
        "output_schema": output_schema_of(int),
        "handoffs": [handoff(OTHER)],
        "tracing": ModelTracing.DISABLED,
        "previous_response_id": "resp-0",
        "conversation_id": None,
        "prompt": None,
    }
    return plain | changed


async def test_our_models_take_arguments_and_answer_with_typed_items() -> None:
    seen: list[ModelRequest] = []

    def answer(request: ModelRequest) -> list[JsonObject]:
        seen.append(request)
        return [message("Hello.").model_dump()]

    response = await ScriptedModel(answer).get_response(**arguments())
    (request,) = seen
    assert isinstance(response.output[0], ResponseOutputMessage)
    assert request.input == [{"role": "user", "content": "Hi"}]
    assert (request.instructions, request.previous_response_id) == ("Be brief.", "resp-0")
    assert [tool.name for tool in request.tools] == ["weather", "transfer_to_other"]
    assert [type(tool) for tool in request.hosted_tools] == [WebSearchTool]
    assert [tool.name for tool in request.all_tools()] == [
        "web_search",
        "weather",
        "transfer_to_other",
    ]
    assert request.output is not None
    assert request.output.schema["properties"].keys() == {"response"}
    assert request.settings.temperature == 0.5


async def test_our_streams_of_a_call_in_arguments_have_typed_events() -> None:
    *leading, last, conversation, prompt = arguments().values()
    events = ScriptedModel("Hello there.").stream_response(
        *leading, previous_response_id=last, conversation_id=conversation, prompt=prompt
    )
    texts = [event.delta async for event in events if event.type == "response.output_text.delta"]
    assert "".join(texts) == "Hello there."


async def test_a_model_may_pass_a_call_on_to_one_of_ours() -> None:
    class Passing(Recorded):
        def __init__(self, inner: ScriptedModel) -> None:
            super().__init__()
            self.inner = inner

        async def get_response(self, *args: Any, **named: Any) -> ModelResponse:
            return await self.inner.get_response(*args, **named)

        async def stream_response(self, *args: Any, **named: Any) -> AsyncGenerator[Any]:
            async for event in self.inner.stream_response(*args, **named):
                yield event

    class Renamed(Passing):
        async def get_response(
            self, system_instructions: str | None, *args: Any, **named: Any
        ) -> ModelResponse:
            return await super().get_response(system_instructions, *args, **named)

    for kind in (Passing, Renamed):
        model = kind(ScriptedModel([call("weather", "c1", city="Ulm")], "Rain."))
        agent = Agent[Any](name="A", tools=[weather])
        assert (await run_in_memory(agent, "Weather?", model=model)).final_output == "Rain."
        again = kind(ScriptedModel([call("weather", "c1", city="Ulm")], "Rain."))
        streamed = run_in_memory_streamed(agent, "Weather?", model=again)
        assert [event async for event in streamed.stream_events()]
        assert streamed.final_output == "Rain."


async def test_a_model_may_pass_a_call_on_to_one_that_takes_arguments() -> None:
    class Passing:
        def __init__(self, inner: Recorded) -> None:
            self.inner = inner

        async def get_response(self, *args: Any, **named: Any) -> ModelResponse:
            return await self.inner.get_response(*args, **named)

        def stream_response(self, *args: Any, **named: Any) -> AsyncIterator[Any]:
            return self.inner.stream_response(*args, **named)

    inner = Recorded([message("Rain.")], [message("Sun.")])
    agent = Agent[Any](name="A", instructions="Be brief.")
    assert (await run_in_memory(agent, "Weather?", model=Passing(inner))).final_output == "Rain."
    streamed = run_in_memory_streamed(agent, "And now?", model=Passing(inner))
    assert [event async for event in streamed.stream_events()]
    assert streamed.final_output == "Sun."
    assert [asked["system_instructions"] for asked in inner.asked] == ["Be brief."] * 2


async def test_a_call_with_something_else_is_told_what_is_missing() -> None:
    with pytest.raises(TypeError, match=r"one ModelRequest, or as the SDK's.*'input'"):
        await ScriptedModel("Never.").get_response("Hi")


def test_what_may_be_told_of_a_call() -> None:
    assert ModelTracing.DISABLED.is_disabled()
    assert ModelTracing.ENABLED.include_data()
    assert not ModelTracing.ENABLED_WITHOUT_DATA.include_data()
    assert not ModelTracing.ENABLED_WITHOUT_DATA.is_disabled()
