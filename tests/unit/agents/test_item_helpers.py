"""Reading text out of items."""

from typing import Any

import pytest
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputRefusal,
    ResponseOutputText,
)

from outlast.agents.agent import Agent
from outlast.agents.errors import ModelBehaviorError, UserError
from outlast.agents.items.item_helpers import ItemHelpers
from outlast.agents.items.run_items import InputItem, MessageOutputItem, RunItem, ToolCallItem

AGENT = Agent[Any](name="A")


def text(words: str) -> ResponseOutputText:
    return ResponseOutputText(type="output_text", text=words, annotations=[])


def refusal(words: str) -> ResponseOutputRefusal:
    return ResponseOutputRefusal(type="refusal", refusal=words)


def message(*parts: Any) -> ResponseOutputMessage:
    return ResponseOutputMessage(
        type="message", id="m", role="assistant", status="completed", content=list(parts)
    )


@pytest.mark.parametrize("is_dict", [False, True])
@pytest.mark.parametrize(
    ("parts", "last", "last_text", "all_text", "refused"),
    [
        ((text("a"), text("b")), "b", "b", "ab", None),
        ((text("a"), refusal("no")), "no", None, "a", "no"),
        ((refusal("no"), refusal(" way")), " way", None, None, "no way"),
        ((refusal("no"), text("a")), "a", "a", "a", "no"),
        ((text(""),), "", "", None, None),
        ((), "", None, None, None),
    ],
)
def test_text_and_refusals_are_read_of_a_message(
    is_dict: bool, parts: Any, last: str, last_text: Any, all_text: Any, refused: Any
) -> None:
    given: Any = message(*parts)
    if is_dict:
        given = given.model_dump()
    assert ItemHelpers.extract_last_content(given) == last
    assert ItemHelpers.extract_last_text(given) == last_text
    assert ItemHelpers.extract_text(given) == all_text
    assert ItemHelpers.extract_refusal(given) == refused


def test_a_message_may_be_a_plain_string_in_a_dict() -> None:
    given = {"role": "assistant", "content": "Hello"}
    assert ItemHelpers.extract_last_content(given) == "Hello"
    assert ItemHelpers.extract_text(given) == "Hello"


def test_what_is_no_message_has_no_text() -> None:
    call = ResponseFunctionToolCall(type="function_call", name="f", call_id="c", arguments="{}")
    assert ItemHelpers.extract_last_content(call) == ""
    assert ItemHelpers.extract_last_text(call) is None
    assert ItemHelpers.extract_text(call) is None


def test_a_part_that_is_neither_text_nor_refusal_is_an_error() -> None:
    given = {"type": "message", "role": "assistant", "content": [{"type": "sound"}]}
    with pytest.raises(ModelBehaviorError, match="ends with 'sound'"):
        ItemHelpers.extract_last_content(given)


def test_a_string_is_one_user_message_and_a_list_is_copied() -> None:
    assert ItemHelpers.input_to_new_input_list("Hi") == [{"role": "user", "content": "Hi"}]
    given: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "input_text"}]}]
    taken = ItemHelpers.input_to_new_input_list(given)
    taken[0]["content"].append("more")
    assert given == [{"role": "user", "content": [{"type": "input_text"}]}]


def test_the_text_of_a_run_is_that_of_its_messages() -> None:
    items: list[RunItem] = [
        InputItem(agent=None, raw_item={"role": "user", "content": "Hi"}),
        MessageOutputItem(agent=AGENT, raw_item=message(text("One. "), refusal("x"))),
        ToolCallItem(agent=AGENT, raw_item={"type": "function_call", "name": "f"}),
        MessageOutputItem(agent=AGENT, raw_item=message(text("Two."))),
    ]
    assert ItemHelpers.text_message_outputs(items) == "One. Two."
    assert ItemHelpers.text_message_output(items[3]) == "Two."  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "written"), [("found", "found"), ({"a": 1}, '{"a":1}'), (None, "null")]
)
def test_the_answer_to_a_call_is_written_as_a_tools_result_is(value: object, written: str) -> None:
    call = ResponseFunctionToolCall(type="function_call", name="f", call_id="c", arguments="{}")
    expected = {"type": "function_call_output", "call_id": "c", "output": written}
    assert ItemHelpers.tool_call_output_item(call, value) == expected
    assert ItemHelpers.tool_call_output_item(call.model_dump(), value) == expected


def test_an_answer_that_cannot_be_written_is_an_error_that_names_the_tool() -> None:
    with pytest.raises(UserError, match="look_up"):
        ItemHelpers.tool_call_output_item({"name": "look_up", "call_id": "c"}, object())
