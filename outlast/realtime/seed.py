"""The transcript of a run as items of a realtime session.

A new connection gets the whole conversation so far; a connection that is open gets what happened
elsewhere. Each item has an id made from its place in the run, so that an item that is sent again is
the same item, and the provider refuses the copy.
"""

import json
from collections.abc import Iterable, Sequence
from typing import cast

from outlast.agents.json_values import as_object, as_objects
from outlast.loop.aside import Aside, parts_aside, read_without
from outlast.loop.items import Item, text_of
from outlast.loop.values import Json, JsonObject
from outlast.realtime.openai.messages import message_item, started_call
from outlast.realtime.port.item_ids import output_item_id, transcript_item_id
from outlast.realtime.port.items import RealtimeItem, RealtimeToolCallItem


def session_items(
    run_id: str, items: Sequence[Item], start: int = 0, aside: Sequence[Aside] = ()
) -> list[JsonObject]:
    """Return items of a transcript in the format of `conversation.item.create`.

    Items that a realtime session does not have, such as reasoning, are left out.

    Args:
        run_id: the run.
        items: the items.
        start: the index of the first one in the transcript.
        aside: what the model does not read: a note stands in its place.
    """
    gone = {at: one for at, one in parts_aside(aside).items() if isinstance(at, int)}
    read = read_without(enumerate(items, start), gone)
    found = (session_item(item.raw, new_id(run_id, item.raw, at)) for at, item in read)
    return [raw for raw in found if raw is not None]


def new_id(run_id: str, raw: JsonObject, index: int) -> str:
    """Return the id of an item of a transcript in a provider's session."""
    if raw.get("type") == "function_call_output":
        return output_item_id(str(raw.get("call_id")))
    return transcript_item_id(run_id, index)


def session_item(raw: JsonObject, item_id: str) -> JsonObject | None:
    """Return a Responses item as an item of a realtime session, or None if it has no such form."""
    match raw.get("type", "message"):
        case "function_call":
            names = ("type", "call_id", "name", "arguments")
            return {"id": item_id, **{name: raw.get(name) for name in names}}
        case "function_call_output":
            output = output_text(raw.get("output"))
            return {
                "id": item_id,
                "type": raw["type"],
                "call_id": raw.get("call_id"),
                "output": output,
            }
        case "message":
            content = _content(raw)
            role = "system" if raw.get("role") == "developer" else raw.get("role")
            message: JsonObject = {"id": item_id, "type": "message", "role": role}
            return message | {"content": content} if content else None
        case _:
            return None


def _content(raw: JsonObject) -> list[JsonObject]:
    if raw.get("role") == "assistant":
        text = text_of(raw)
        return [{"type": "output_text", "text": text}] if text else []
    content: Json = raw.get("content")
    if isinstance(content, str):
        return [{"type": "input_text", "text": content}]
    found: list[JsonObject] = []
    for part in cast("list[Json]", content) if isinstance(content, list) else ():
        fields = as_object(part) or {}
        if fields.get("type") == "input_image" and isinstance(fields.get("image_url"), str):
            found.append({"type": "input_image", "image_url": fields["image_url"]})
        elif isinstance(fields.get("text"), str):
            found.append({"type": "input_text", "text": fields["text"]})
    return found


def output_text(output: Json) -> str:
    """Return a tool's output as a realtime model reads it: text only."""
    if isinstance(output, str):
        return output
    parts = as_objects(output)
    if parts and all("text" in part for part in parts):
        return "\n".join(str(part["text"]) for part in parts)
    return json.dumps(output, ensure_ascii=False)


def history_of(run_id: str, items: Iterable[Item]) -> tuple[RealtimeItem, ...]:
    """Return a transcript as the history of a session; an output belongs to its call."""
    found: dict[str, RealtimeItem] = {}
    for at, item in enumerate(items):
        raw, item_id = item.raw, transcript_item_id(run_id, at)
        if raw.get("type") == "function_call_output":
            call = found.get(f"call {raw.get('call_id')}")
            if isinstance(call, RealtimeToolCallItem):
                done = {"output": output_text(raw.get("output")), "status": "completed"}
                found[f"call {call.call_id}"] = call.model_copy(update=done)
            continue
        entry = _history_item(raw, item_id)
        if entry is not None:
            key = f"call {entry.call_id}" if isinstance(entry, RealtimeToolCallItem) else item_id
            found[key] = entry
    return tuple(found.values())


def _history_item(raw: JsonObject, item_id: str) -> RealtimeItem | None:
    item = session_item(raw, item_id)
    if item is None:
        return None
    if item["type"] == "function_call":
        return started_call(item)[0]
    return message_item(item, status="completed")
