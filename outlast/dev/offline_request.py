"""A request of the Responses API, checked as strictly as the real one checks it, and made handy.

Owns: which requests are refused, with which error, and the records the rules read. Must not know:
HTTP, and what is answered.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard, cast

from outlast.loop.values import Json, JsonObject

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ROLES = {"user", "assistant", "system", "developer"}
# What a client may rely on and this model cannot do is refused, not ignored.
_UNSUPPORTED = ("previous_response_id", "conversation", "prompt", "background")


class InvalidRequestError(Exception):
    """A request that the real API would refuse as well, in its terms."""

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function that may be called."""

    name: str
    description: str
    parameters: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A message in the conversation; `at` is its position."""

    role: str
    text: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A function call in the conversation and its output; `at` is the call's position."""

    name: str
    arguments: JsonObject
    output: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One checked request.

    `messages` are those of the user and the assistant, `calls` the answered function calls, both
    oldest first.
    """

    model: str
    instructions: str
    messages: Sequence[Said]
    calls: Sequence[Call]
    tools: Sequence[Tool]
    parallel: bool
    stream: bool


def read_request(body: Json) -> Request:
    """Check the JSON body of a request and return what the rules need of it.

    Raises:
        InvalidRequestError: the body is not what the API takes.
    """
    if not _is_object(body):
        raise InvalidRequestError("The request body has to be a JSON object.")
    for name in _UNSUPPORTED:
        if body.get(name):
            raise InvalidRequestError(
                f"The offline model keeps nothing between requests: '{name}' is not supported. "
                "Send the whole conversation as 'input'.",
                param=name,
                code="unsupported_parameter",
            )
    text = body.get("text")
    form = text.get("format") if _is_object(text) else None
    if _is_object(form) and form.get("type", "text") != "text":
        raise InvalidRequestError(
            "The offline model writes plain text only; an output type needs a real model.",
            param="text.format",
            code="unsupported_value",
        )
    messages, calls = _read_input(_required(body, "input"))
    return Request(
        model=_string(_required(body, "model"), "model"),
        instructions=_string(body.get("instructions") or "", "instructions"),
        messages=messages,
        calls=calls,
        tools=_read_tools(body),
        parallel=body.get("parallel_tool_calls") is not False,
        stream=body.get("stream") is True,
    )


def _read_input(value: Json) -> tuple[list[Said], list[Call]]:
    if isinstance(value, str):
        return [Said(role="user", text=value, at=0)], []
    messages: list[Said] = []
    calls: dict[str, Call] = {}
    answered: set[str] = set()
    for at, item in enumerate(_list(value, "input")):
        where = f"input[{at}]"
        if not _is_object(item):
            raise InvalidRequestError(
                f"Invalid type for '{where}': expected an object.", param=where
            )
        kind = item.get("type", "message")
        if kind == "message":
            messages.append(_read_message(item, where, at))
        elif kind == "function_call":
            call_id = _string(_required(item, "call_id", where), f"{where}.call_id")
            calls[call_id] = _read_call(item, where, at)
        elif kind == "function_call_output":
            call_id = _string(_required(item, "call_id", where), f"{where}.call_id")
            if call_id not in calls:
                raise InvalidRequestError(
                    f"No tool call found for function call output with call_id {call_id}.",
                    param="input",
                )
            output = _text(_required(item, "output", where), f"{where}.output")
            calls[call_id] = replace(calls[call_id], output=output)
            answered.add(call_id)
    for call_id in calls:
        if call_id not in answered:
            raise InvalidRequestError(
                f"No tool output found for function call {call_id}.", param="input"
            )
    return messages, list(calls.values())


def _read_message(item: JsonObject, where: str, at: int) -> Said:
    role = item.get("role")
    if role not in _ROLES:
        raise InvalidRequestError(
            f"Invalid value: {role!r}. Supported values are: 'assistant', 'system', 'developer', "
            "and 'user'.",
            param=f"{where}.role",
            code="invalid_value",
        )
    text = _text(_required(item, "content", where), f"{where}.content")
    return Said(role=role, text=text, at=at)


def _read_call(item: JsonObject, where: str, at: int) -> Call:
    name = _string(_required(item, "name", where), f"{where}.name")
    arguments = _string(_required(item, "arguments", where), f"{where}.arguments")
    return Call(name=name, arguments=_object_or_empty(arguments), output="", at=at)


def _read_tools(body: JsonObject) -> list[Tool]:
    choice = body.get("tool_choice") or "auto"
    if choice == "none":
        return []
    if choice != "auto":
        raise InvalidRequestError(
            "The offline model calls a tool only where the user's words ask for it: 'tool_choice' "
            "has to be 'auto' or 'none'.",
            param="tool_choice",
            code="unsupported_value",
        )
    tools: list[Tool] = []
    for at, tool in enumerate(_list(body.get("tools") or [], "tools")):
        where = f"tools[{at}]"
        if not _is_object(tool):
            raise InvalidRequestError(
                f"Invalid type for '{where}': expected an object.", param=where
            )
        # Tools that the provider hosts are accepted and never used.
        if _required(tool, "type", where) == "function":
            tools.append(_read_function(tool, where))
    return tools


def _read_function(tool: JsonObject, where: str) -> Tool:
    name = _string(_required(tool, "name", where), f"{where}.name")
    if not _TOOL_NAME.fullmatch(name):
        raise InvalidRequestError(
            f"Invalid '{where}.name': string does not match pattern. Expected a string that "
            "matches the pattern '^[a-zA-Z0-9_-]+$' of at most 64 characters.",
            param=f"{where}.name",
            code="invalid_value",
        )
    parameters = tool.get("parameters")
    if parameters is None:
        parameters = cast("JsonObject", {"type": "object", "properties": {}})
    if not _is_object(parameters) or parameters.get("type") != "object":
        raise InvalidRequestError(
            f"Invalid schema for function '{name}': schema must be of type 'object'.",
            param=f"{where}.parameters",
            code="invalid_function_parameters",
        )
    if tool.get("strict") is True and (fault := _strict_fault(parameters, ())):
        raise InvalidRequestError(
            f"Invalid schema for function '{name}': {fault}",
            param=f"{where}.parameters",
            code="invalid_function_parameters",
        )
    description = _string(tool.get("description") or "", f"{where}.description")
    return Tool(name=name, description=description, parameters=parameters)


def _strict_fault(schema: Json, path: tuple[str, ...]) -> str | None:
    """Say where a schema breaks the rules of strict mode, or return None."""
    if isinstance(schema, list):
        parts = [(str(at), part) for at, part in enumerate(cast("list[Json]", schema))]
    elif _is_object(schema):
        parts = list(schema.items())
    else:
        return None
    if _is_object(schema) and schema.get("type") == "object":
        properties = cast("JsonObject", schema.get("properties") or {})
        if schema.get("additionalProperties") is not False:
            return f"In context={path}, 'additionalProperties' is required to be false."
        if set(schema.get("required") or ()) != set(properties):
            return f"In context={path}, 'required' has to hold every key in 'properties'."
    for name, part in parts:
        if fault := _strict_fault(part, (*path, name)):
            return fault
    return None


def _required(value: JsonObject, name: str, where: str = "") -> Json:
    if value.get(name) is None:
        param = f"{where}.{name}" if where else name
        raise InvalidRequestError(
            f"Missing required parameter: '{param}'.",
            param=param,
            code="missing_required_parameter",
        )
    return value[name]


def _string(value: Json, where: str) -> str:
    if not isinstance(value, str):
        raise InvalidRequestError(
            f"Invalid type for '{where}': expected a string.", param=where, code="invalid_type"
        )
    return value


def _list(value: Json, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidRequestError(
            f"Invalid type for '{where}': expected an array.", param=where, code="invalid_type"
        )
    return cast("list[Any]", value)


def _text(value: Json, where: str) -> str:
    """Join the text of a content: a string, or parts with a `text` or a `refusal`."""
    if isinstance(value, str):
        return value
    parts = _list(value, where)
    texts = [part.get("text") or part.get("refusal") or "" for part in parts if _is_object(part)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _object_or_empty(text: str) -> JsonObject:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if _is_object(value) else {}


def _is_object(value: Json) -> TypeGuard[JsonObject]:
    return isinstance(value, dict)
