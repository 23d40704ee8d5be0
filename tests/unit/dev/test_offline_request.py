"""Which requests the offline model takes, and how it refuses the others."""

from typing import Any

import pytest

from outlast.dev.offline_request import Call, InvalidRequestError, Said, read_request

CALL = {"type": "function_call", "call_id": "c1", "name": "look_up", "arguments": '{"a": 1}'}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "found"}


def function(**changes: Any) -> dict[str, Any]:
    return {"type": "function", "name": "f", "parameters": {"type": "object"}, **changes}


def test_a_text_is_one_message_of_the_user():
    request = read_request({"model": "m", "input": "Hello"})
    assert request.messages == [Said(role="user", text="Hello", at=0)]
    assert (request.model, request.instructions, request.tools) == ("m", "", [])
    assert request.parallel
    assert not request.stream


def test_a_conversation_is_read():
    parts = [{"type": "output_text", "text": "one"}, {"type": "refusal", "refusal": "two"}, "junk"]
    request = read_request(
        {
            "model": "m",
            "instructions": "Be kind.",
            "stream": True,
            "parallel_tool_calls": False,
            "input": [
                {"role": "user", "content": "Hello"},
                {"type": "reasoning", "id": "r", "summary": []},
                {"type": "message", "role": "assistant", "content": parts},
                CALL,
                {**OUTPUT, "output": [{"type": "input_text", "text": "found"}]},
            ],
        }
    )
    assert request.messages == [
        Said(role="user", text="Hello", at=0),
        Said(role="assistant", text="one\ntwo", at=2),
    ]
    assert request.calls == [Call(name="look_up", arguments={"a": 1}, output="found", at=3)]
    assert request.instructions == "Be kind."
    assert request.stream
    assert not request.parallel


@pytest.mark.parametrize("arguments", ["{", "[]", ""])
def test_arguments_that_are_no_object_count_as_none(arguments: str):
    request = read_request({"model": "m", "input": [{**CALL, "arguments": arguments}, OUTPUT]})
    assert request.calls[0].arguments == {}


def test_tools_of_the_provider_are_passed_over():
    tools = [{"type": "web_search"}, function(description="Does it.")]
    request = read_request({"model": "m", "input": "x", "tools": tools})
    assert [(tool.name, tool.description) for tool in request.tools] == [("f", "Does it.")]


def test_a_tool_without_parameters_takes_none():
    tools = [{"type": "function", "name": "f"}]
    request = read_request({"model": "m", "input": "x", "tools": tools})
    assert request.tools[0].parameters == {"type": "object", "properties": {}}


def test_tools_may_be_forbidden_for_one_request():
    body = {"model": "m", "input": "x", "tools": [function()], "tool_choice": "none"}
    assert read_request(body).tools == []


def strict(parameters: Any) -> dict[str, Any]:
    return {"tools": [function(strict=True, parameters=parameters)]}


REFUSED: list[tuple[Any, str | None, str | None, str]] = [
    ([], None, None, "has to be a JSON object"),
    ({"input": "x"}, "model", "missing_required_parameter", "Missing required parameter: 'model'"),
    ({"model": "m"}, "input", "missing_required_parameter", "Missing required parameter: 'input'"),
    ({"model": 1, "input": "x"}, "model", "invalid_type", "expected a string"),
    ({"model": "m", "input": 1}, "input", "invalid_type", "expected an array"),
    ({"model": "m", "input": ["x"]}, "input[0]", None, "expected an object"),
    ({"model": "m", "input": [{"role": "me", "content": ""}]}, "input[0].role", "invalid_value",
     "Invalid value: 'me'"),
    ({"model": "m", "input": [{"role": "user"}]}, "input[0].content", "missing_required_parameter",
     "input[0].content"),
    ({"model": "m", "input": [OUTPUT]}, "input", None, "No tool call found for function call"),
    ({"model": "m", "input": [CALL]}, "input", None, "No tool output found for function call c1"),
    ({"tools": [1]}, "tools[0]", None, "expected an object"),
    ({"tools": [{}]}, "tools[0].type", "missing_required_parameter", "tools[0].type"),
    ({"tools": [function(name="a b")]}, "tools[0].name", "invalid_value", "does not match"),
    ({"tools": [function(parameters=[])]}, "tools[0].parameters", "invalid_function_parameters",
     "must be of type 'object'"),
    (strict({"type": "object"}), "tools[0].parameters", "invalid_function_parameters",
     "'additionalProperties' is required to be false"),
    (strict({"type": "object", "additionalProperties": False, "properties": {"a": {}}}),
     "tools[0].parameters", "invalid_function_parameters", "'required' has to hold every key"),
    (strict({"type": "object", "additionalProperties": False, "required": ["a"],
             "properties": {"a": {"anyOf": [{"type": "object"}, {"type": "null"}]}}}),
     "tools[0].parameters", "invalid_function_parameters", "('properties', 'a', 'anyOf', '0')"),
    ({"tool_choice": "required"}, "tool_choice", "unsupported_value", "'auto' or 'none'"),
    ({"previous_response_id": "resp_1"}, "previous_response_id", "unsupported_parameter",
     "Send the whole conversation"),
    ({"text": {"format": {"type": "json_schema"}}}, "text.format", "unsupported_value",
     "plain text only"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "param", "code", "words"), REFUSED)
def test_what_the_api_would_refuse_is_refused(
    body: Any, param: str | None, code: str | None, words: str
):
    if "model" not in body and "input" not in body and body:
        body = {"model": "m", "input": "x", **body}
    with pytest.raises(InvalidRequestError) as caught:
        read_request(body)
    assert (caught.value.param, caught.value.code) == (param, code)
    assert words in caught.value.message


def test_a_strict_schema_that_fits_is_taken():
    inner: dict[str, Any] = {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }
    schema: dict[str, Any] = {**inner, "properties": {"a": inner}, "required": ["a"]}
    request = read_request({"model": "m", "input": "x", **strict(schema)})
    assert request.tools[0].parameters == schema


def test_a_plain_text_format_is_taken():
    body = {"model": "m", "input": "x", "text": {"format": {"type": "text"}}}
    assert read_request(body).messages[0].text == "x"
