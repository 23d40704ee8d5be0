"""Calls of every form say the same to the loop, and are answered in their own way."""

import base64
import json
import zlib
from typing import Any

import pytest

from outlast.loop.call_forms import (
    BLANK_SCREEN,
    FORMS,
    MAY_CALL,
    MCP_APPROVAL,
    arguments_of,
    call_item,
    form_of,
    is_call,
    name_of,
    output_item,
    same_call,
)
from outlast.loop.items import call_id_of
from outlast.loop.values import JsonObject

CALLS: dict[str, tuple[JsonObject, str, str]] = {
    "function_call": ({"name": "f", "arguments": '{"a": 1}'}, "f", '{"a": 1}'),
    "custom_tool_call": ({"name": "sql", "input": "SELECT 1"}, "sql", "SELECT 1"),
    "shell_call": (
        {"action": {"commands": ["ls"]}},
        "shell",
        '{"action":{"commands":["ls"]}}',
    ),
    "local_shell_call": (
        {"action": {"command": ["ls"]}},
        "local_shell",
        '{"action":{"command":["ls"]}}',
    ),
    "apply_patch_call": (
        {"operation": {"type": "delete_file", "path": "a"}},
        "apply_patch",
        '{"operation":{"type":"delete_file","path":"a"}}',
    ),
    "computer_call": (
        {"actions": [{"type": "screenshot"}], "pending_safety_checks": []},
        "computer",
        '{"actions":[{"type":"screenshot"}],"pending_safety_checks":[]}',
    ),
    "mcp_approval_request": (
        {"server_label": "crm", "name": "delete", "arguments": "{}"},
        "crm.delete",
        "{}",
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_call_is_read_and_written_again(form: str) -> None:
    said, name, arguments = CALLS[form]
    ids = {"id": "c1"} if form == MCP_APPROVAL else {"call_id": "c1"}
    raw: JsonObject = {"type": form, "id": "x", "status": "completed", **said, **ids}
    assert is_call(raw)
    assert (form_of(raw), name_of(raw), arguments_of(raw)) == (form, name, arguments)
    again = call_item(form, call_id="c1", name=name, arguments=arguments)
    assert again == {"type": form, **said, **ids}
    assert same_call(raw, again)


def test_what_a_call_leaves_open_is_not_in_its_arguments() -> None:
    raw: JsonObject = {"type": "computer_call", "call_id": "c", "action": None, "actions": [1]}
    assert arguments_of(raw) == '{"actions":[1]}'
    assert arguments_of({**raw, "action": {"type": "wait"}, "actions": None}) == (
        '{"action":{"type":"wait"}}'
    )


@pytest.mark.parametrize("raw", [{"type": "message"}, {"type": "shell_call_output"}, {}])
def test_other_items_are_no_calls(raw: JsonObject) -> None:
    assert not is_call(raw)
    assert form_of(raw) == "function_call"


def test_calls_of_two_forms_are_never_the_same() -> None:
    one = call_item("function_call", call_id="c", name="f", arguments="x")
    other = call_item("custom_tool_call", call_id="c", name="f", arguments="x")
    assert not same_call(one, other)
    assert not same_call(one, {**one, "call_id": "d"})


@pytest.mark.parametrize("output", ["text", "", None, 3, {"a": [1]}, [{"type": "input_text"}]])
@pytest.mark.parametrize("form", ["function_call", "custom_tool_call"])
def test_the_output_of_a_function_is_carried_as_it_is(output: Any, form: str) -> None:
    raw = output_item("c1", output, form)
    assert raw == {"type": f"{form}_output", "call_id": "c1", "output": output}
    assert call_id_of(raw) == "c1"


@pytest.mark.parametrize("form", ["shell_call", "apply_patch_call", "computer_call"])
def test_what_says_several_things_is_the_whole_of_the_item(form: str) -> None:
    said = {"output": [{"stdout": "a"}], "max_output_length": 9}
    assert output_item("c1", said, form) == {"type": f"{form}_output", "call_id": "c1", **said}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_can_be_told_in_words_why_there_is_no_output(form: str) -> None:
    raw = output_item("c1", "A person said no.", form)
    if form == MCP_APPROVAL:
        assert (raw["approve"], raw["reason"]) == (False, "A person said no.")
        return
    assert raw["type"] == f"{form}_output"
    if form == "computer_call":
        assert raw["output"] == {"type": "computer_screenshot", "image_url": BLANK_SCREEN}
    else:
        assert "A person said no." in json.dumps(raw["output"])


def test_the_blank_screen_is_a_picture() -> None:
    data = base64.b64decode(BLANK_SCREEN.removeprefix("data:image/png;base64,"), validate=True)
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    at = data.index(b"IDAT")
    length = int.from_bytes(data[at - 4 : at])
    assert zlib.decompress(data[at + 4 : at + 4 + length]) == b"\0\0"  # a filter and a pixel


FAILED: dict[str, JsonObject] = {
    "function_call": {"output": "It broke."},
    "custom_tool_call": {"output": "It broke."},
    "local_shell_call": {"output": "It broke."},
    "apply_patch_call": {"status": "failed", "output": "It broke."},
    "shell_call": {
        "output": [
            {
                "stdout": "",
                "stderr": "It broke.",
                "outcome": {"type": "exit", "exit_code": 1},
            }
        ]
    },
    "computer_call": {"output": {"type": "computer_screenshot", "image_url": BLANK_SCREEN}},
    "mcp_approval_request": {"approve": False, "reason": "It broke."},
}


@pytest.mark.parametrize("form", FORMS)
def test_a_text_stands_where_the_provider_looks_for_it(form: str) -> None:
    assert FORMS[form].fields("It broke.") == FAILED[form]


def test_a_request_of_an_mcp_server_is_answered_by_yes_or_no() -> None:
    head = {"type": "mcp_approval_response", "approval_request_id": "r1"}
    yes, no = (output_item("r1", given, MCP_APPROVAL) for given in (MAY_CALL, "Not today."))
    assert yes == {**head, "approve": True}
    assert no == {**head, "approve": False, "reason": "Not today."}
    assert call_id_of(yes) == "r1"


def test_the_spelling_of_json_is_no_difference_and_that_of_a_text_is() -> None:
    one = call_item("function_call", call_id="c", name="f", arguments='{"a":1,"b":2}')
    assert same_call(one, {**one, "arguments": '{ "b": 2, "a": 1 }'})
    assert not same_call(one, {**one, "arguments": '{"a":1,"b":"2"}'})
    text = call_item("custom_tool_call", call_id="c", name="f", arguments='{"a":1}')
    assert not same_call(text, {**text, "input": '{ "a": 1 }'})
