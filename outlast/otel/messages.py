"""The messages of a model call, as the conventions write them: roles and parts.

A span may become large: long texts are cut, files and pictures are named without their bytes, and
of a long conversation the newest messages are kept.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from outlast.loop.values import Json, JsonObject

LONGEST_TEXT: Final = 20_000
LARGEST: Final = 200_000
"""The limit of an attribute with messages, in characters."""

_TEXTS: Final = {"input_text", "output_text", "text", "summary_text", "reasoning_text"}


def as_messages(items: Sequence[Mapping[str, Any]] | str | None) -> str | None:
    """Return Responses items as the JSON of messages, or None if there are none."""
    if items is None:
        return None
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    texts = [json.dumps(_message(item), default=str) for item in items]
    size, kept = 0, list[str]()
    for text in reversed(texts):
        size += len(text)
        if size > LARGEST and kept:
            break
        kept.append(text)
    return f"[{', '.join(reversed(kept))}]" if kept else None


def without_system(
    items: Sequence[Mapping[str, Any]] | str | None,
) -> tuple[str | None, Sequence[Mapping[str, Any]] | str | None]:
    """Return the instructions as the JSON of parts, and the other items."""
    if not items or isinstance(items, str) or items[0].get("role") != "system":
        return None, items
    return json.dumps(list(_parts(items[0].get("content")))), items[1:]


def short(value: object) -> str:
    """Return a value as text of limited length."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return _cut(text, LARGEST)


def _message(item: Mapping[str, Any]) -> JsonObject:
    kind = str(item.get("type", "message"))
    if kind.endswith("_call_output") or kind == "function_call_output":
        part: JsonObject = {
            "type": "tool_call_response",
            "id": str(item.get("call_id", "")),
            "response": _plain(item.get("output")),
        }
        return {"role": "tool", "parts": [part]}
    if kind == "function_call":
        part = {
            "type": "tool_call",
            "id": str(item.get("call_id", "")),
            "name": str(item.get("name", "")),
            "arguments": _arguments(item.get("arguments")),
        }
        return _assistant([part], "tool_call")
    if kind == "reasoning":
        return _assistant([{**one, "type": "reasoning"} for one in _parts(item.get("summary"))])
    if "content" in item:
        role = str(item.get("role", "assistant"))
        parts = list(_parts(item["content"]))
        if role != "assistant":
            return {"role": role, "parts": parts}
        return _assistant(parts, "length" if item.get("status") == "incomplete" else "stop")
    return _assistant([{"type": kind}])


def _assistant(parts: Sequence[JsonObject], finish_reason: str = "stop") -> JsonObject:
    return {"role": "assistant", "parts": [*parts], "finish_reason": finish_reason}


def _parts(content: object) -> Iterable[JsonObject]:
    if isinstance(content, str):
        yield {"type": "text", "content": _cut(content, LONGEST_TEXT)}
        return
    for part in cast("list[Any]", content) if isinstance(content, list) else []:
        if not isinstance(part, Mapping):
            continue
        kind = str(cast("Mapping[str, Any]", part).get("type", ""))
        text = cast("Mapping[str, Any]", part).get("text")
        if kind in _TEXTS and isinstance(text, str):
            yield {"type": "text", "content": _cut(text, LONGEST_TEXT)}
        elif kind == "refusal":
            refusal = str(cast("Mapping[str, Any]", part).get("refusal", ""))
            yield {"type": "text", "content": _cut(refusal, LONGEST_TEXT)}
        else:
            yield {"type": kind or "other"}  # a picture or a file: its bytes are no text


def _arguments(arguments: object) -> Json:
    if not isinstance(arguments, str):
        return _plain(arguments)
    try:
        parsed = json.loads(arguments)
    except ValueError:
        return _cut(arguments, LONGEST_TEXT)
    return parsed if len(arguments) <= LONGEST_TEXT else _cut(arguments, LONGEST_TEXT)


def _plain(value: object) -> str:
    if isinstance(value, list):
        texts = [str(one.get("content", one["type"])) for one in _parts(cast("object", value))]
        return _cut("\n".join(texts), LONGEST_TEXT)
    return _cut(value if isinstance(value, str) else json.dumps(value, default=str), LONGEST_TEXT)


def _cut(text: str, length: int) -> str:
    more = len(text) - length
    return text if more <= 0 else f"{text[:length]}… ({more:,} more characters)"
