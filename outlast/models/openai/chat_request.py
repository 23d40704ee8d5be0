"""Converts model requests to bodies for `/chat/completions`, without I/O."""

import json
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

from outlast.agents.config.model_settings import MCPToolChoice, ModelSettings
from outlast.agents.items.raw_items import TEXT_TYPES
from outlast.agents.json_values import as_object, as_objects, as_text
from outlast.agents.tools.programs import PROGRAMS
from outlast.loop.call_forms import (
    FORM_OF_OUTPUT,
    FORMS,
    FUNCTION,
    MCP_APPROVAL,
    arguments_of,
    name_of,
)
from outlast.loop.phrases import as_text as output_text
from outlast.loop.values import JsonObject
from outlast.models.openai.responses import PROVIDER_DATA, has_extra_tools, short_id, with_settings
from outlast.ports.model import ModelRequest, OutputSpec, ToolSpec


class UnsupportedItemError(ValueError):
    """A part of the request has no equivalent in Chat Completions.

    Attributes:
        param: the item or the part of it, as a provider would name it; empty for anything else.
    """

    def __init__(self, message: str, param: str = "") -> None:
        super().__init__(message)
        self.param = param


def chat_body(
    request: ModelRequest,
    model: str,
    *,
    limit_field: str = "max_tokens",
    rich_outputs: bool = False,
    refused: Collection[str] = (),
) -> JsonObject:
    """Return the body of a request to `/chat/completions`.

    `extra_args` and then `extra_body` are merged into the body. `truncation`, `include` and
    `context_management` have no equivalent and are left out. Of `reasoning`, only the effort is
    sent.

    Raises:
        UnsupportedItemError: the request needs a feature of the Responses API.
    """
    _refuse_server_state(request)
    _refuse_hosted_tools(request)
    for tool in request.tools:
        check_spec(tool)
    settings = request.settings
    body: dict[str, Any] = {
        "model": model,
        "messages": _with_ends(
            chat_messages(
                request.instructions,
                request.input,
                model=model,
                rich_outputs=rich_outputs,
                refused=refused,
            )
        ),
        "tools": [tool_entry(tool) for tool in request.tools] or None,
        "response_format": response_format(request.output),
        limit_field: settings.max_tokens,
        "reasoning_effort": (settings.reasoning or {}).get("effort"),
        "logprobs": None if settings.top_logprobs is None else True,
    }
    if request.tools or has_extra_tools(settings):
        # Without tools, the API refuses both fields.
        body["tool_choice"] = tool_choice(settings)
        body["parallel_tool_calls"] = settings.parallel_tool_calls
    return with_settings(body, settings, "frequency_penalty", "presence_penalty", "verbosity")


def chat_messages(
    instructions: str | None,
    items: Iterable[JsonObject],
    *,
    model: str = "",
    rich_outputs: bool = False,
    refused: Collection[str] = (),
) -> list[JsonObject]:
    """Return the messages for instructions and Responses items, oldest first.

    A model's text and calls up to the next other item become one assistant message, so that
    parallel calls stay together; outputs stand directly behind their calls. Other calls that ran
    here become calls of functions. What the model cannot read is left out: reasoning, and what its
    provider did by itself for another model. The API accepts only text as output of tools; some
    compatible servers accept `rich_outputs`. The fields in `refused` are not given back.
    """
    messages: list[JsonObject] = []
    if instructions and instructions.strip():
        messages.append({"role": "system", "content": instructions})
    for position, item in enumerate(items):
        kind = item.get("type") or ("message" if "role" in item else None)
        add = _ADDERS.get(kind) if isinstance(kind, str) else None
        if add is None:
            raise UnsupportedItemError(
                f"input item {position} is a {kind!r}, which Chat Completions does not have."
                " Use the Responses API, or an input filter that leaves it out.",
                f"input[{position}]",
            )
        try:
            add(messages, item if rich_outputs else _with_text_output(item))
            _give_back(messages, item, model, refused)
        except KeyError as error:
            raise UnsupportedItemError(
                f"input item {position} has no {error}.", f"input[{position}]"
            ) from None
        except UnsupportedItemError as error:
            raise UnsupportedItemError(
                f"input item {position}: {error}", f"input[{position}]{error.param}"
            ) from None
    return messages


def _with_ends(messages: list[JsonObject]) -> list[JsonObject]:
    """Return messages that begin with no call and end with no answer.

    Some servers refuse a call without a question, such as where a limit or a filter cut, and many
    refuse to go on from an answer, such as the summary that a handoff begins with.
    """
    first = next((at for at, one in enumerate(messages) if one["role"] != "system"), None)
    if first is None:
        return messages
    last = next(one for one in reversed(messages) if one["role"] != "system")
    cut = [_CUT] if messages[first].get("tool_calls") else []
    go_on = [_GO_ON] if last["role"] == "assistant" else []
    return [*messages[:first], *cut, *messages[first:], *go_on]


def _refuse_hosted_tools(request: ModelRequest) -> None:
    if request.hosted_tools:
        names = ", ".join(tool.name for tool in request.hosted_tools)
        raise UnsupportedItemError(
            f"the tools {names} are not functions; Chat Completions supports functions only."
            " Use the Responses API, or take them out of the agent's tools."
        )


def check_spec(tool: ToolSpec) -> None:
    """Refuse a tool with options that only the Responses API has."""
    if tool.deferred or tool.namespace or tool.allowed_callers:
        raise UnsupportedItemError(
            f"the tool {tool.name!r} has defer_loading=True, a tool_namespace() or allowed_callers,"
            " which are only supported with OpenAI Responses models. Use the Responses API, or leave"
            " them out."
        )


def _refuse_server_state(request: ModelRequest) -> None:
    for name in ("previous_response_id", "conversation_id", "prompt"):
        if getattr(request, name) is not None:
            raise UnsupportedItemError(
                f"`{name}` needs a server that keeps state; Chat Completions keeps none."
                " Use the Responses API, or leave it unset."
            )


def _add_message(messages: list[JsonObject], item: JsonObject) -> None:
    role = item["role"]
    if role == "assistant":
        _add_answer(messages, item)
    elif role == "user":
        messages.append({"role": role, "content": _content(item["content"])})
    else:
        # Many servers know no other role for instructions; OpenAI's read it as `developer`.
        messages.append({"role": "system", "content": _instructions(item["content"])})


def _instructions(content: object) -> str:
    """Return instructions as a text, with a note in the place of anything else."""
    parts = as_objects(content) or ()
    if all(_kind(part) in TEXT_TYPES for part in parts):
        return _plain_text(content)
    return "\n".join(
        str(part.get("text", "")) if _kind(part) in TEXT_TYPES else f"({_kind(part)} left out)"
        for part in parts
    )


def _add_answer(messages: list[JsonObject], item: JsonObject) -> None:
    content = item["content"]
    refusals = [
        str(part.get("refusal")) for part in as_objects(content) or () if _kind(part) == "refusal"
    ]
    text = _plain_text(content)
    if not text and not refusals:
        return
    last = messages[-1] if messages else None
    if last is not None and last.get("tool_calls"):
        # The outputs must directly follow their calls, without a message in between.
        if text:
            last["content"] = f"{last['content']}\n{text}" if last["content"] else text
    else:
        last = {"role": "assistant", "content": text or None}
        messages.append(last)
    if refusals:
        last["refusal"] = "\n".join(refusals)


def _add_call(messages: list[JsonObject], item: JsonObject) -> None:
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": None})
    messages[-1].setdefault("tool_calls", []).append(
        {
            "id": _sent_id(item["call_id"]),
            "type": "function",
            # An empty string is not valid JSON, which some servers require.
            "function": {"name": item["name"], "arguments": item["arguments"] or "{}"},
        }
    )


def _add_output(messages: list[JsonObject], item: JsonObject) -> None:
    content, call_id = _content(item["output"]), _sent_id(item["call_id"])
    output = {"role": "tool", "tool_call_id": call_id, "content": content}
    places = range(len(messages) - 1, -1, -1)
    place = next((at for at in places if _calls(messages[at], call_id)), len(messages) - 1) + 1
    while place < len(messages) and messages[place]["role"] == "tool":
        place += 1
    messages.insert(place, output)


def _calls(message: JsonObject, call_id: str) -> bool:
    return any(call["id"] == call_id for call in message.get("tool_calls") or ())


def _sent_id(call_id: object) -> str:
    """Return an id that is short enough for OpenAI; other servers make longer ones."""
    text = str(call_id)
    return text if len(text) <= _LONGEST_ID else short_id(text)


def _add_other_call(messages: list[JsonObject], item: JsonObject) -> None:
    """Add a call of a shell, an editor, a computer or a custom tool as a call of a function."""
    written = arguments_of(item)
    if FORMS[item["type"]].text:
        written = json.dumps({FORMS[item["type"]].text: written})
    _add_call(messages, {"call_id": item["call_id"], "name": name_of(item), "arguments": written})


def _add_other_output(messages: list[JsonObject], item: JsonObject) -> None:
    output = item["output"]
    is_image = FORMS[FORM_OF_OUTPUT[item["type"]]].image_only
    text = _NO_TEXT if is_image else output_text(output)
    _add_output(messages, {"call_id": item["call_id"], "output": text})


_LONGEST_ID: Final = 40

_CUT: Final = {"role": "user", "content": "(The earlier part of this conversation is left out.)"}
"""Stands for what the model cannot read of a conversation's beginning."""

_GO_ON: Final = {"role": "user", "content": "(Go on.)"}
"""Ends a conversation whose last words are the model's own."""

_NO_TEXT = "[tool output omitted]"
"""Replaces a tool output without text."""


def _with_text_output(item: JsonObject) -> JsonObject:
    parts = as_objects(item.get("output")) if item.get("type") == "function_call_output" else None
    if not parts or all(_kind(part) in TEXT_TYPES for part in parts):
        return item
    texts = [part for part in parts if _kind(part) in TEXT_TYPES]
    return {**item, "output": texts or _NO_TEXT}


def _give_back(
    messages: list[JsonObject], item: JsonObject, model: str, refused: Collection[str]
) -> None:
    """Add the provider data that this model's server expects back; see `given_back`."""
    kept = as_object(item.get(PROVIDER_DATA)) or {}
    message = messages[-1] if messages else {}
    if not kept or kept.get("model") != model or message.get("role") != "assistant":
        return
    fields = as_object(kept.get("message")) or {}
    message.update({name: value for name, value in fields.items() if name not in refused})
    if calls := message.get("tool_calls"):
        calls[-1].update(as_object(kept.get("call")) or {})


def _add_cut(messages: list[JsonObject], item: JsonObject) -> None:
    """Add a note where another provider's summary is, which only its own models can read."""
    del item
    messages.append(_CUT)


def _add_nothing(messages: list[JsonObject], item: JsonObject) -> None:
    pass


_OTHER_CALLS: Final = FORMS.keys() - {FUNCTION, MCP_APPROVAL}

_UNREADABLE: Final = frozenset({
    "reasoning", "file_search_call", "web_search_call", "image_generation_call",
    "code_interpreter_call", "mcp_list_tools", "mcp_call", MCP_APPROVAL, FORMS[MCP_APPROVAL].output,
    "tool_search_call", "tool_search_output", "program", "program_output",
})  # fmt: skip
"""What models of the Responses API think, and what its provider does by itself."""

_ADDERS: dict[str, Callable[[list[JsonObject], JsonObject], None]] = {
    "message": _add_message,
    "function_call": _add_call,
    "function_call_output": _add_output,
    **dict.fromkeys(_OTHER_CALLS, _add_other_call),
    **dict.fromkeys((FORMS[form].output for form in _OTHER_CALLS), _add_other_output),
    **dict.fromkeys(_UNREADABLE, _add_nothing),
    "compaction": _add_cut,
}


def _content(content: object) -> str | list[JsonObject]:
    parts = as_objects(content)
    if parts is None or all(_kind(part) in TEXT_TYPES for part in parts):
        return _plain_text(content)
    found: list[JsonObject] = []
    for at, part in enumerate(parts):
        try:
            found.append(content_part(part))
        except UnsupportedItemError as error:
            raise UnsupportedItemError(str(error), f".content[{at}]") from None
    return found


def _plain_text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = as_objects(content)
    if parts is None:
        raise UnsupportedItemError("the content of an item is neither a string nor a list of parts")
    for part in parts:
        if _kind(part) not in TEXT_TYPES and _kind(part) != "refusal":
            raise UnsupportedItemError(
                f"a message that is not the user's holds a part of type {_kind(part)!r};"
                " Chat Completions accepts only text there"
            )
    return "\n".join(str(part.get("text", "")) for part in parts if _kind(part) in TEXT_TYPES)


def _kind(part: JsonObject) -> str | None:
    return as_text(part.get("type"))


def content_part(part: JsonObject) -> JsonObject:
    """Return a part of a message's content in the API's format."""
    kind = _kind(part)
    if kind in TEXT_TYPES:
        return {"type": "text", "text": part.get("text", "")}
    if kind == "input_image":
        return _image(part)
    if kind == "input_file":
        return _file(part)
    if kind in {"image_url", "file"} and as_object(part.get(kind)) is not None:
        return part  # the API's own format
    if kind == "input_audio" and as_object(part.get("input_audio")) is not None:
        return {"type": "input_audio", "input_audio": part["input_audio"]}
    raise UnsupportedItemError(
        f"a part of type {kind!r} has no counterpart in Chat Completions; use the Responses API"
    )


def _image(part: JsonObject) -> JsonObject:
    url = as_text(part.get("image_url"))
    if url is None:
        raise UnsupportedItemError(
            "Chat Completions takes images by `image_url` only (a data: URL will do), not by file"
        )
    image: JsonObject = {"url": url}
    if part.get("detail") is not None:
        image["detail"] = part["detail"]
    return {"type": "image_url", "image_url": image}


def _file(part: JsonObject) -> JsonObject:
    file = {
        name: part[name] for name in ("file_id", "file_data", "filename") if as_text(part.get(name))
    }
    if not file.keys() & {"file_id", "file_data"}:
        raise UnsupportedItemError(
            "Chat Completions takes files by `file_data` or `file_id` only, not by URL"
        )
    return {"type": "file", "file": file}


def tool_entry(tool: ToolSpec) -> JsonObject:
    """Return a function's entry in a request."""
    function: JsonObject = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }
    if tool.strict:
        # False is the default, and some servers do not know the field.
        function["strict"] = True
    return {"type": "function", "function": function}


def tool_choice(settings: ModelSettings) -> str | JsonObject | None:
    """Return the tool choice of a request in the API's format."""
    choice = settings.tool_choice
    if isinstance(choice, MCPToolChoice):
        raise UnsupportedItemError(
            "tool_choice names a tool of an MCP server, and Chat Completions supports functions only."
            " Use the Responses API, or leave it unset."
        )
    if choice is None or choice in {"auto", "required", "none"}:
        return choice
    if choice == PROGRAMS:
        raise UnsupportedItemError(f"Chat Completions has no tool_choice {choice!r}.")
    return {"type": "function", "function": {"name": choice}}


def response_format(output: OutputSpec | None) -> JsonObject | None:
    """Return the format of the answer in the API's format."""
    if output is None:
        return None
    schema = {"name": output.name, "schema": output.schema, "strict": output.strict}
    return {"type": "json_schema", "json_schema": schema}
