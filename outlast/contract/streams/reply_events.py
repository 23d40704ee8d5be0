"""A recorded reply, as a response object and as the events of a Responses stream.

The events have no `sequence_number`; the sender adds it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, cast

from outlast.loop.values import JsonObject, Usage

Split: TypeAlias = Callable[[str], Sequence[str]]
"""Cuts a text into deltas. An empty text has no deltas."""

_TEXT_OF_PART = {
    "output_text": ("response.output_text", "text"),
    "refusal": ("response.refusal", "refusal"),
    "reasoning_text": ("response.reasoning_text", "text"),
    "summary_text": ("response.reasoning_summary_text", "text"),
}
"""By the type of a part: the prefix of its events, and the field of its text."""

_TEXT_OF_ITEM = {
    "function_call": ("response.function_call_arguments", "arguments"),
    "custom_tool_call": ("response.custom_tool_call_input", "input"),
    "mcp_call": ("response.mcp_call_arguments", "arguments"),
    "code_interpreter_call": ("response.code_interpreter_call_code", "code"),
}
"""The same for items that consist of one text."""

_COMMAND = ("response.shell_call_command", "command")
"""The same for each command of a shell call."""

_NAMES_OF_TEXTS = {
    f"{prefix}.done": (f"{prefix}.delta", name)
    for prefix, name in (*_TEXT_OF_PART.values(), *_TEXT_OF_ITEM.values(), _COMMAND)
}

TYPES_OF_DELTAS = frozenset(delta_type for delta_type, _ in _NAMES_OF_TEXTS.values())
"""The types of deltas that can be rebuilt from a recorded item."""

_PARTS_OF_ITEM = (
    ("summary", "summary_index", "response.reasoning_summary_part"),
    ("content", "content_index", "response.content_part"),
)
"""For items with parts: their field, the name of their index, and the prefix of their events."""


def whole_texts(event: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield the delta type and the text of each text that an event completes."""
    if (named := _NAMES_OF_TEXTS.get(str(event.get("type")))) is not None:
        delta_type, name = named
        yield delta_type, str(event.get(name) or "")


def whole(text: str) -> list[str]:
    """Return a text as one delta."""
    return [text] if text else []


def response_object(
    output: Sequence[JsonObject],
    usage: Usage,
    *,
    response_id: str | None = None,
    model: str = "",
    created_at: float = 0,
) -> JsonObject:
    """Return a response object with these items and usage; `created_at` in seconds since 1970."""
    return {
        "id": response_id or "",
        "object": "response",
        "created_at": created_at,
        "model": model,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "output": list(output),
        "usage": usage_object(usage),
    }


def usage_object(usage: Usage) -> JsonObject:
    """Return a usage as responses have it."""
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens,
    }


def reply_events(response: JsonObject, split: Split = whole) -> Iterator[JsonObject]:
    """Yield the stream events of a complete response, from `response.created` on."""
    begun: JsonObject = {**response, "status": "in_progress", "output": [], "usage": None}
    if "completed_at" in begun:
        begun["completed_at"] = None
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(cast("Sequence[JsonObject]", response["output"])):
        yield from item_events(item, index, split)
    yield {"type": "response.completed", "response": response}


def item_events(item: JsonObject, index: int, split: Split = whole) -> Iterator[JsonObject]:
    """Yield the stream events of one item of a reply, whose texts `split` cuts into deltas.

    Without an id of the item, its events have one made from its index.
    """
    item = {"id": f"item_{index}", **item}
    place: JsonObject = {"item_id": item["id"], "output_index": index}
    text = _TEXT_OF_ITEM.get(str(item.get("type")))
    begun = {**item, "status": "in_progress"}
    if text is not None:
        begun[text[1]] = ""
    for field, _, _ in _PARTS_OF_ITEM:
        if isinstance(item.get(field), list):
            begun[field] = []
    commands = _commands(item)
    if commands:
        begun["action"] = {**item["action"], "commands": list[str]()}
    yield {"type": "response.output_item.added", "output_index": index, "item": begun}
    for at, command in enumerate(commands):
        of_command: JsonObject = {"output_index": index, "command_index": at}
        yield {"type": f"{_COMMAND[0]}.added", **of_command, "command": ""}
        yield from _text(*_COMMAND, command, split, of_command)
    if text is not None:
        for event in _text(*text, str(item.get(text[1]) or ""), split, place):
            is_whole = "delta" not in event and "name" in item
            yield {**event, "name": item["name"]} if is_whole else event
    for field, number, part_prefix in _PARTS_OF_ITEM:
        parts = item.get(field)
        if isinstance(parts, list):
            for at, part in enumerate(cast("list[Any]", parts)):
                if isinstance(part, dict):
                    part_place = {**place, number: at}
                    yield from _part(part_prefix, cast("JsonObject", part), split, part_place)
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _commands(item: JsonObject) -> list[str]:
    action = item.get("action")
    if item.get("type") != "shell_call" or not isinstance(action, dict):
        return []
    commands = cast("JsonObject", action).get("commands")
    listed = cast("list[Any]", commands) if isinstance(commands, list) else []
    return [str(command) for command in listed]


def _part(
    part_prefix: str, part: JsonObject, split: Split, place: JsonObject
) -> Iterator[JsonObject]:
    found = _TEXT_OF_PART.get(str(part.get("type")))
    begun: JsonObject = {**part, found[1]: ""} if found else part
    yield {"type": f"{part_prefix}.added", **place, "part": begun}
    if found:
        prefix, name = found
        yield from _text(prefix, name, str(part.get(name) or ""), split, place)
    yield {"type": f"{part_prefix}.done", **place, "part": part}


def _text(
    prefix: str, name: str, text: str, split: Split, place: JsonObject
) -> Iterator[JsonObject]:
    extra: JsonObject = {"logprobs": []} if prefix == "response.output_text" else {}
    for delta in split(text):
        yield {"type": f"{prefix}.delta", **place, "delta": delta, **extra}
    yield {"type": f"{prefix}.done", **place, name: text, **extra}
