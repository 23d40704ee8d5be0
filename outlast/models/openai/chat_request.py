"""Converts model requests to bodies for `/chat/completions`, without I/O."""

from collections.abc import Callable, Collection, Iterable
from typing import Any

from outlast.agents.config.model_settings import MCPToolChoice, ModelSettings
from outlast.agents.items.raw_items import TEXT_TYPES
from outlast.agents.json_values import as_object, as_objects, as_text
from outlast.agents.tools.programs import PROGRAMS
from outlast.loop.values import JsonObject
from outlast.models.openai.responses import PROVIDER_DATA, has_extra_tools, with_settings
from outlast.ports.model import ModelRequest, OutputSpec, ToolSpec


class UnsupportedItemError(ValueError):
    """A part of the request has no equivalent in Chat Completions."""


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
        "messages": chat_messages(
            request.instructions,
            request.input,
            model=model,
            rich_outputs=rich_outputs,
            refused=refused,
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
    parallel calls stay together. Reasoning items are left out: the API does not accept them.
    The API accepts only text as output of tools; some compatible servers accept `rich_outputs`.
    The fields in `refused` are not given back.
    """
    messages: list[JsonObject] = []
    if instructions:
        messages.append({"role": "system", "content": instructions})
    for position, item in enumerate(items):
        kind = item.get("type") or ("message" if "role" in item else None)
        add = _ADDERS.get(kind) if isinstance(kind, str) else None
        if add is None:
            raise UnsupportedItemError(
                f"input item {position} is a {kind!r}, which Chat Completions does not have."
                " Use the Responses API, or an input filter that leaves it out."
            )
        try:
            add(messages, item if rich_outputs else _with_text_output(item))
            _give_back(messages, item, model, refused)
        except KeyError as error:
            raise UnsupportedItemError(f"input item {position} has no {error}.") from None
        except UnsupportedItemError as error:
            raise UnsupportedItemError(f"input item {position}: {error}") from None
    return messages


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
        messages.append({"role": role, "content": _plain_text(item["content"])})


def _add_answer(messages: list[JsonObject], item: JsonObject) -> None:
    content = item["content"]
    refusals = [
        str(part.get("refusal")) for part in as_objects(content) or () if _kind(part) == "refusal"
    ]
    text = _plain_text(content)
    last = messages[-1] if messages else None
    if last is not None and last.get("tool_calls"):
        # The outputs must directly follow their calls, without a message in between.
        if text:
            last["content"] = f"{last['content']}\n{text}" if last["content"] else text
    else:
        last = {"role": "assistant", "content": text or (None if refusals else "")}
        messages.append(last)
    if refusals:
        last["refusal"] = "\n".join(refusals)


def _add_call(messages: list[JsonObject], item: JsonObject) -> None:
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": None})
    messages[-1].setdefault("tool_calls", []).append(
        {
            "id": item["call_id"],
            "type": "function",
            # An empty string is not valid JSON, which some servers require.
            "function": {"name": item["name"], "arguments": item["arguments"] or "{}"},
        }
    )


def _add_output(messages: list[JsonObject], item: JsonObject) -> None:
    content = _content(item["output"])
    messages.append({"role": "tool", "tool_call_id": item["call_id"], "content": content})


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


def _add_nothing(messages: list[JsonObject], item: JsonObject) -> None:
    pass


_ADDERS: dict[str, Callable[[list[JsonObject], JsonObject], None]] = {
    "message": _add_message,
    "function_call": _add_call,
    "function_call_output": _add_output,
    "reasoning": _add_nothing,
}


def _content(content: object) -> str | list[JsonObject]:
    parts = as_objects(content)
    if parts is None or all(_kind(part) in TEXT_TYPES for part in parts):
        return _plain_text(content)
    return [content_part(part) for part in parts]


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
