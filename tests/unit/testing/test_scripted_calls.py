"""Calls that are no functions, as scripts write them."""

import pytest
from openai.types.responses import ResponseOutputItem
from pydantic import TypeAdapter

from outlast.loop.call_forms import FORMS, arguments_of, is_call, name_of
from outlast.loop.values import JsonObject
from outlast.testing import (
    computer_call,
    custom_call,
    local_shell_call,
    patch_call,
    shell_call,
)

CALLS = [
    (custom_call("sql", "c1", "SELECT"), "sql", "SELECT"),
    (
        shell_call("c1", "ls", timeout_ms=5),
        "shell",
        '{"action":{"commands":["ls"],"timeout_ms":5,"max_output_length":null}}',
    ),
    (
        local_shell_call("c1", "ls", "-l"),
        "local_shell",
        '{"action":{"type":"exec","command":["ls","-l"],"env":{}}}',
    ),
    (
        patch_call("c1", "update_file", "a", "-x"),
        "apply_patch",
        '{"operation":{"type":"update_file","path":"a","diff":"-x"}}',
    ),
    (
        computer_call("c1", {"type": "wait"}, checks=[{"id": "s1"}]),
        "computer",
        '{"actions":[{"type":"wait"}],"pending_safety_checks":[{"id":"s1"}]}',
    ),
]


@pytest.mark.parametrize(("raw", "name", "arguments"), CALLS, ids=[call[1] for call in CALLS])
def test_a_call_says_what_it_was_written_with(raw: JsonObject, name: str, arguments: str) -> None:
    assert is_call(raw)
    assert (name_of(raw), arguments_of(raw), raw["call_id"]) == (name, arguments, "c1")


@pytest.mark.parametrize("raw", [call[0] for call in CALLS], ids=[call[1] for call in CALLS])
def test_a_call_is_one_that_the_api_knows(raw: JsonObject) -> None:
    read = TypeAdapter[ResponseOutputItem](ResponseOutputItem).validate_python(raw)
    assert read.type == raw["type"]


def test_there_is_one_for_every_form_but_functions_and_hosted_servers() -> None:
    assert {str(call[0]["type"]) for call in CALLS} == FORMS.keys() - {
        "function_call",
        "mcp_approval_request",
    }
