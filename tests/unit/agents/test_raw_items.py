"""The raw form of an item: JSON for the run, a typed object for whoever looks."""

import json
import subprocess
import sys
from copy import deepcopy
from typing import Any

import pytest
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputRefusal,
    ResponseOutputText,
    response_function_web_search,
    response_reasoning_item,
)

from outlast.agents.errors import UserError
from outlast.agents.items import raw_items
from outlast.agents.items.raw_items import HeldRaw, as_input, copies, in_written_order
from outlast.loop.values import JsonObject

MESSAGE: dict[str, Any] = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Hello.", "annotations": []}],
}

CLASSES = {
    "function_call": "ResponseFunctionToolCall",
    "reasoning": "ResponseReasoningItem",
    "custom_tool_call": "ResponseCustomToolCall",
    "computer_call": "ResponseComputerToolCall",
    "file_search_call": "ResponseFileSearchToolCall",
    "web_search_call": "ResponseFunctionWebSearch",
    "code_interpreter_call": "ResponseCodeInterpreterToolCall",
    "image_generation_call": "ImageGenerationCall",
    "local_shell_call": "LocalShellCall",
    "shell_call": "ResponseFunctionShellToolCall",
    "apply_patch_call": "ResponseApplyPatchToolCall",
    "mcp_call": "McpCall",
    "mcp_list_tools": "McpListTools",
    "mcp_approval_request": "McpApprovalRequest",
    "tool_search_call": "ResponseToolSearchCall",
    "tool_search_output": "ResponseToolSearchOutputItem",
}


def test_what_a_model_wrote_is_shown_as_the_typed_object_all_the_way_down() -> None:
    shown = HeldRaw(MESSAGE).shown()
    assert isinstance(shown, ResponseOutputMessage)
    assert (shown.id, shown.role, shown.content[0].type) == ("msg_1", "assistant", "output_text")
    part = shown.content[0]
    assert isinstance(part, ResponseOutputText)
    assert part.text == "Hello."


@pytest.mark.parametrize(("kind", "name"), CLASSES.items())
def test_every_type_that_a_model_writes_has_its_class(kind: str, name: str) -> None:
    shown = HeldRaw({"type": kind, "id": "x_1"}).shown()
    assert (type(shown).__name__, shown.type, shown.id) == (name, kind, "x_1")


@pytest.mark.parametrize(
    "raw",
    [
        {"role": "user", "content": "Hi"},
        {"type": "message", "role": "user", "content": "Hi"},
        {"type": "function_call_output", "call_id": "c", "output": "1"},
        {"type": "mcp_approval_response", "approval_request_id": "a", "approve": True},
        {"type": "of_tomorrow", "x": 1},
    ],
)
def test_what_programs_write_stays_a_dict(raw: dict[str, Any]) -> None:
    held = HeldRaw(raw)
    assert held.shown() == raw
    assert held.value() is raw


def test_looking_changes_nothing() -> None:
    raw = deepcopy(MESSAGE)
    raw["of_tomorrow"] = {"kept": [1, None]}
    held = HeldRaw(raw)
    assert held.shown() is held.shown()
    assert held.value() is raw


def test_what_is_changed_in_what_is_shown_is_what_the_item_says() -> None:
    before = deepcopy(MESSAGE)
    held = HeldRaw(MESSAGE)
    held.shown().content[0].text = "Bye."
    assert held.value()["content"] == [{"type": "output_text", "text": "Bye.", "annotations": []}]
    assert before == MESSAGE, "the run's own object is not touched"


def test_what_is_changed_in_a_shown_dict_does_not_reach_the_run() -> None:
    raw = {"type": "function_call_output", "call_id": "c", "output": [{"text": "1"}]}
    held = HeldRaw(raw)
    held.shown()["output"][0]["text"] = "2"
    assert raw["output"] == [{"text": "1"}]
    assert held.value()["output"] == [{"text": "2"}]


def test_a_typed_object_may_be_given() -> None:
    call = ResponseFunctionToolCall(
        type="function_call", name="look_up", call_id="c", arguments='{"a":1}'
    )
    held = HeldRaw(call)
    assert held.shown() is call
    assert held.value() == {
        "type": "function_call",
        "name": "look_up",
        "call_id": "c",
        "arguments": '{"a":1}',
    }


@pytest.mark.parametrize("given", [None, "text", [MESSAGE]])
def test_anything_else_is_refused(given: object) -> None:
    with pytest.raises(UserError, match=r"raw_item is .*\. Use a dict in the format"):
        HeldRaw(given)


def test_the_provider_package_is_loaded_when_somebody_looks_and_not_before() -> None:
    program = (
        "import sys\n"
        "from outlast.agents.items.raw_items import HeldRaw\n"
        "held = HeldRaw({'type': 'function_call', 'name': 'f'})\n"
        "held.value()\n"
        "before = 'openai' in sys.modules\n"
        "print(before, held.shown().name, 'openai' in sys.modules)\n"
    )
    done = subprocess.run(  # a process of its own: this one has long loaded it
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "f", "True"]


def test_what_only_replies_may_have_is_no_part_of_an_input() -> None:
    chunk = {"stdout": "hi", "stderr": "", "created_by": "p"}
    raw: JsonObject = {"type": "shell_call_output", "call_id": "c", "output": [chunk]}
    raw["created_by"] = "p"
    assert as_input(raw) == {
        "type": "shell_call_output",
        "call_id": "c",
        "output": [{"stdout": "hi", "stderr": ""}],
    }
    assert chunk["created_by"] == raw.pop("created_by") == "p"
    assert as_input(raw)["output"] == [{"stdout": "hi", "stderr": ""}]
    call: JsonObject = {"type": "apply_patch_call", "created_by": "p", "call_id": "c"}
    assert as_input(call) == {"type": "apply_patch_call", "call_id": "c"}
    assert as_input({"type": "message", "id": "m", "status": None}) == {
        "type": "message",
        "id": "m",
    }


@pytest.mark.parametrize(
    "raw",
    [
        {"role": "user", "content": "hi", "status": "completed"},
        {"type": "shell_call_output", "output": [{"stdout": "hi"}]},
        {"type": "shell_call_output", "output": "hi"},
        {"type": "function_call_output", "output": [{"created_by": "the tool"}]},
    ],
)
def test_an_input_with_nothing_to_leave_out_is_the_item_itself(raw: JsonObject) -> None:
    assert as_input(raw) is raw


def test_a_copy_shares_nothing_with_what_it_was_made_of() -> None:
    given = deepcopy(MESSAGE)
    (copy,) = copies(iter([given]))
    copy["content"][0]["text"] = "Bye."
    assert given == MESSAGE


# --- The order of fields --------------------------------------------------------------------------


PARTS = {
    "output_text": ResponseOutputText,
    "refusal": ResponseOutputRefusal,
    "summary_text": response_reasoning_item.Summary,
    "reasoning_text": response_reasoning_item.Content,
    "search": response_function_web_search.ActionSearch,
    "open_page": response_function_web_search.ActionOpenPage,
}


def test_the_orders_of_fields_are_those_of_the_openai_package() -> None:
    for kind, order in raw_items._FIELDS.items():
        if kind.endswith("_output"):
            continue  # only a dict there
        model: Any = PARTS.get(kind) or raw_items._model(kind)
        fields = list(model.model_fields)
        assert [name for name in fields if name in order] == list(order), kind


def test_an_item_of_a_run_is_printed_as_the_openai_package_prints_it() -> None:
    recorded: JsonObject = {
        "content": [{"annotations": [], "logprobs": [], "text": "Hello.", "type": "output_text"}],
        "id": "msg_1",
        "provider_field": 1,
        "role": "assistant",
        "status": "completed",
        "type": "message",
    }
    typed = ResponseOutputMessage.construct(**deepcopy(recorded))
    assert json.dumps(in_written_order(recorded)) == json.dumps(
        typed.model_dump(mode="json", exclude_unset=True)
    )


def test_the_action_of_a_search_is_printed_as_the_openai_package_prints_it() -> None:
    action = {"queries": ["a"], "query": "a", "type": "search"}
    raw: JsonObject = {"action": action, "id": "ws", "type": "web_search_call"}
    assert json.dumps(in_written_order(raw)) == (
        '{"id": "ws", "action": {"type": "search", "queries": ["a"], "query": "a"}, '
        '"type": "web_search_call"}'
    )
    assert list(action) == ["queries", "query", "type"], "the run's own item is not changed"


def test_items_without_a_class_and_with_odd_fields_keep_their_order() -> None:
    for raw in (
        {"type": "memo", "b": 1, "a": [2]},
        {"type": ["x"], "content": "a"},
        {"content": [1]},
    ):
        assert json.dumps(in_written_order(raw)) == json.dumps(raw)


def test_messages_of_users_keep_the_order_in_which_they_were_written() -> None:
    raw: JsonObject = {"type": "message", "role": "user", "content": []}
    assert json.dumps(in_written_order(raw)) == json.dumps(raw)
