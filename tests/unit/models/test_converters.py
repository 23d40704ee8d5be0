"""The SDK's converters give what the models themselves send and read."""

from collections.abc import AsyncIterator
from importlib import import_module
from typing import Any

import pytest
from openai import omit
from openai.types.chat import ChatCompletionMessage

from outlast import (
    Agent,
    AgentOutputSchema,
    ModelBehaviorError,
    ToolSearchTool,
    UserError,
    function_tool,
    handoff,
    tool_namespace,
)
from outlast.models.openai.chat_converter import ChatCmplStreamHandler
from outlast.models.openai.chat_converter import Converter as ChatConverter
from outlast.models.openai.responses_converter import Converter as ResponsesConverter


def test_the_sdk_names_of_the_modules() -> None:
    for name, converter in (
        ("chatcmpl_converter", ChatConverter),
        ("openai_responses", ResponsesConverter),
    ):
        assert import_module(f"outlast.models.{name}").Converter is converter


@function_tool
def weather(city: str) -> str:
    """Tell the weather."""
    return city


TRANSFER = handoff(Agent(name="Billing"))


def test_the_tools_of_responses() -> None:
    converted = ResponsesConverter.convert_tools([weather], [TRANSFER])
    assert [tool["name"] for tool in converted.tools] == ["weather", "transfer_to_billing"]
    assert converted.includes == []
    assert ResponsesConverter.convert_tool_choice(None) is omit
    choice = ResponsesConverter.convert_tool_choice("weather", tools=[weather])
    assert choice == {"type": "function", "name": "weather"}
    with pytest.raises(UserError, match="deferred tool 'late'"):
        ResponsesConverter.convert_tools(
            [function_tool(lambda: "", name_override="late", defer_loading=True)]
        )


def test_the_answer_format() -> None:
    schema = AgentOutputSchema(list[int])
    assert ResponsesConverter.get_response_format(AgentOutputSchema(str)) is omit
    assert ResponsesConverter.get_response_format(schema)["format"]["type"] == "json_schema"
    assert ChatConverter.convert_response_format(None) is omit
    assert ChatConverter.convert_response_format(schema)["json_schema"]["strict"] is True


def test_the_tools_of_chat_completions() -> None:
    assert ChatConverter.tool_to_openai(weather)["function"]["name"] == "weather"
    assert ChatConverter.convert_handoff_tool(TRANSFER)["function"]["name"] == (
        "transfer_to_billing"
    )
    assert ChatConverter.convert_tool_choice("auto") == "auto"
    late = function_tool(lambda: "", name_override="late", defer_loading=True)
    for tool in (late, object()):
        with pytest.raises(UserError, match="Use the Responses API"):
            ChatConverter.tool_to_openai(tool)


def test_messages_of_items_and_items_of_messages() -> None:
    message = ChatCompletionMessage.model_validate(
        {
            "role": "assistant",
            "content": "Let me look.",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "weather", "arguments": '{"city":"Oslo"}'},
                }
            ],
        }
    )
    items = ChatConverter.message_to_output_items(message)
    assert [item.type for item in items] == ["message", "function_call"]
    messages = ChatConverter.items_to_messages([{"role": "user", "content": "Hi"}, *items])
    assert [sent["role"] for sent in messages] == ["user", "assistant"]
    assert messages[1]["tool_calls"][0]["id"] == "c1"
    assert ChatConverter.items_to_messages("Hi") == [{"role": "user", "content": "Hi"}]
    assert ChatConverter.message_to_output_items({"role": "assistant"}) == []


@pytest.mark.parametrize("item", [{"type": "item_reference", "id": "1"}, 3])
def test_an_item_without_an_equivalent_is_refused(item: Any) -> None:
    with pytest.raises(UserError):
        ChatConverter.items_to_messages([item])
    with pytest.raises(UserError, match="Audio"):
        ChatConverter.message_to_output_items({"audio": {"id": "a"}})


def test_the_content_of_a_message() -> None:
    text = {"type": "input_text", "text": "a"}
    image = {"type": "input_image", "image_url": "data:,"}
    assert [part["type"] for part in ChatConverter.extract_all_content([text, image])] == [
        "text",
        "image_url",
    ]
    assert ChatConverter.extract_text_content([text, image]) == [{"type": "text", "text": "a"}]
    message = {"type": "message", "role": "user", "content": "a"}
    assert ChatConverter.maybe_input_message(message) == message
    assert ChatConverter.maybe_input_message(3) is None


async def test_a_stream_of_chat_completions_as_typed_events() -> None:
    async def chunks(*deltas: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        for delta in deltas:
            yield {"id": "c", "choices": [{"index": 0, "delta": delta}]}

    stream = chunks({"content": "Hel"}, {"content": "lo"})
    events = [event async for event in ChatCmplStreamHandler.handle_stream({"tools": []}, stream)]
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == "Hello"
    assert events[-1].type == "response.completed"
    assert events[-1].response.output[0].content[0].text == "Hello"
    assert events[-1].response.tools == []
    nameless = chunks({"tool_calls": [{"index": 0, "id": "1", "function": {}}]})
    with pytest.raises(ModelBehaviorError, match="without naming it"):
        _ = [event async for event in ChatCmplStreamHandler.handle_stream({}, nameless)]


@function_tool(defer_loading=True)
def rain() -> str:
    """Look up the rain."""
    return ""


@pytest.mark.parametrize(
    ("choice", "tools", "problem"),
    [
        ("tool_search", [rain, ToolSearchTool()], r"cannot force ToolSearchTool\(\)"),
        ("tool_search", [weather], r"requires ToolSearchTool\(\) or a real top-level function"),
        ("required", [rain], r"Add ToolSearchTool\(\)"),
        ("rain", [rain], "deferred-loading function tools"),
        ("crm", tool_namespace(name="crm", description="CRM", tools=[weather]), "tool_namespace"),
        ("weather", tool_namespace(name="crm", description="CRM", tools=[weather]), "function in"),
    ],
)
def test_a_choice_that_the_provider_cannot_make_is_refused(
    choice: str, tools: list[Any], problem: str
) -> None:
    with pytest.raises(UserError, match=problem):
        ResponsesConverter.convert_tool_choice(choice, tools=tools)


def test_a_function_may_have_the_name_of_the_search() -> None:
    named = function_tool(lambda: "", name_override="tool_search")
    choice = ResponsesConverter.convert_tool_choice("tool_search", tools=[named, ToolSearchTool()])
    assert choice == {"type": "function", "name": "tool_search"}


def test_the_settings_of_the_sdks_converter_are_taken() -> None:
    message = {"role": "assistant", "content": "hi", "reasoning_content": "hm"}
    items = ChatConverter.message_to_output_items(message, provider_data={"model": "m"})
    assert ChatConverter.items_to_messages(items, "m", True, should_replay_reasoning_content=None)
    custom = {"id": "c", "type": "custom", "custom": {"name": "sql", "input": "x"}}
    calls = {"role": "assistant", "tool_calls": [custom]}
    assert ChatConverter.message_to_output_items(calls) == []
    with pytest.raises(UserError, match="Custom tool calls are not supported"):
        ChatConverter.message_to_output_items(calls, strict_feature_validation=True)
