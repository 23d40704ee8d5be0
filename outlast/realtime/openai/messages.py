"""Converts messages and items between this room and OpenAI's Realtime API."""

from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, cast, get_args

from openai.types.realtime import realtime_server_event
from openai.types.realtime.realtime_response_usage import RealtimeResponseUsage
from pydantic import BaseModel, TypeAdapter

from outlast.agents.callables import shown
from outlast.agents.errors import UserError
from outlast.agents.json_values import as_object, as_text
from outlast.agents.usage import Usage
from outlast.loop.values import InputTokensDetails, JsonObject
from outlast.realtime.port.item_ids import output_item_id
from outlast.realtime.port.items import RealtimeMessageItem, RealtimeToolCallItem
from outlast.realtime.port.model_events import (
    RealtimeModelInputTokensDetails,
    RealtimeModelOutputTokensDetails,
    RealtimeModelToolCallEvent,
    RealtimeModelUsageEvent,
)
from outlast.realtime.port.model_inputs import (
    RealtimeModelSendRawMessage,
    RealtimeModelSendToolOutput,
    RealtimeModelUserInput,
)

_DETAILS = frozenset({"auto", "low", "high"})

_CONTAINERS = {b"RIFF": "a WAV file", b"OggS": "an Ogg file", b"fLaC": "a FLAC file"}
"""The first bytes of audio files, which are no samples."""

_CONTENT = {
    "assistant": {
        "audio": ("audio", ("audio", "transcript")),
        "output_audio": ("audio", ("audio", "transcript")),
        "text": ("text", ("text",)),
        "output_text": ("text", ("text",)),
    },
    "user": {
        "input_text": ("input_text", ("text",)),
        "input_audio": ("input_audio", ("audio", "transcript")),
        "input_image": ("input_image", ("image_url", "detail")),
    },
    "system": {"input_text": ("input_text", ("text",))},
}
"""For each role, the provider's types of content, with the type and the fields here."""

_MESSAGE: TypeAdapter[RealtimeMessageItem] = TypeAdapter(RealtimeMessageItem)
_INPUT_DETAILS = TypeAdapter(RealtimeModelInputTokensDetails)
_OUTPUT_DETAILS = TypeAdapter(RealtimeModelOutputTokensDetails)

T = TypeVar("T")


@cache
def event_records() -> Mapping[str, type[BaseModel]]:
    """Return the records of the `openai` package for the provider's events, by their type."""
    union = get_args(realtime_server_event.RealtimeServerEvent)[0]
    return {get_args(one.model_fields["type"].annotation)[0]: one for one in get_args(union)}


def raw_message(event: RealtimeModelSendRawMessage) -> JsonObject:
    """Return the provider's form of a raw message; a `UserError` if it cannot be sent."""
    message = cast("JsonObject", event.message)
    kind, rest = as_text(message.get("type")), as_object(message.get("other_data", {}))
    if kind is None or rest is None:
        raise UserError(
            "A raw message to a realtime model is a dict with the text `type`, and a dict of its"
            f" other fields at `other_data`, not {shown(message)}."
        )
    return {"type": kind, **rest}


def user_message(user_input: RealtimeModelUserInput) -> JsonObject:
    """Return the message that adds the user's input; a `UserError` if it is no text or message."""
    if isinstance(user_input, str):
        content: list[JsonObject] = [{"type": "input_text", "text": user_input}]
    else:
        parts: object = (as_object(user_input) or {}).get("content")
        if not isinstance(parts, list) or not parts:
            raise UserError(
                "The user's input is a text, or a message such as {'type': 'message', 'role':"
                " 'user', 'content': [{'type': 'input_text', 'text': 'Hello'}]}, not"
                f" {shown(user_input)}."
            )
        content = [_user_content(part) for part in cast("list[object]", parts)]
    return _create({"type": "message", "role": "user", "content": content})


def audio_message(audio: object) -> JsonObject:
    """Return the message that adds the user's audio; a `UserError` for a file, not samples."""
    if not isinstance(audio, bytes | bytearray | memoryview):
        raise UserError(
            f"Audio for a realtime model is bytes, not {type(audio).__name__}. Base64 is added here."
        )
    data = bytes(cast("bytes", audio))
    container = _CONTAINERS.get(data[:4])
    if container is not None:
        raise UserError(
            f"The audio is {container}, but realtime models take samples without a header: decode"
            " it to the session's input_audio_format first, such as 24 kHz 16-bit mono PCM."
        )
    return {"type": "input_audio_buffer.append", "audio": b64encode(data).decode("ascii")}


def tool_output_message(event: RealtimeModelSendToolOutput) -> JsonObject:
    """Return the message that adds a tool's output to the conversation."""
    output = {"type": "function_call_output", "output": event.output}
    call_id = event.tool_call.call_id
    return _create({**output, "id": output_item_id(call_id), "call_id": call_id})


def finished_call(event: RealtimeModelSendToolOutput) -> RealtimeToolCallItem:
    """Return the item of a tool call that has an output."""
    call = event.tool_call
    return RealtimeToolCallItem(
        item_id=call.id or "",
        previous_item_id=call.previous_item_id,
        call_id=call.call_id,
        status="completed",
        arguments=call.arguments,
        name=call.name,
        output=event.output,
    )


def truncate_message(item_id: str, content_index: int, audio_end_ms: int) -> JsonObject:
    """Return the message that cuts off the model's audio where the user interrupted it."""
    return {
        "type": "conversation.item.truncate",
        "item_id": item_id,
        "content_index": content_index,
        "audio_end_ms": audio_end_ms,
    }


def started_call(item: JsonObject) -> tuple[RealtimeToolCallItem, RealtimeModelToolCallEvent]:
    """Return a tool call of the provider as an item without an output, and as an event."""
    item_id, call_id = as_text(item.get("id")) or "", as_text(item.get("call_id")) or ""
    name, arguments = as_text(item.get("name")) or "", as_text(item.get("arguments")) or ""
    record = RealtimeToolCallItem(
        item_id=item_id, call_id=call_id, status="in_progress", arguments=arguments, name=name
    )
    return record, RealtimeModelToolCallEvent(
        name=name, call_id=call_id, arguments=arguments, id=item_id
    )


def message_item(
    item: JsonObject, *, status: str, previous_item_id: str | None = None
) -> RealtimeMessageItem:
    """Return a message of the provider as an item. Unknown kinds of content are left out.

    `status` is for a message without one. A malformed one raises a `ValidationError`.
    """
    role = as_text(item.get("role")) or "assistant"
    own_status = item.get("status")
    parts: object = item.get("content")
    content = [
        converted
        for part in cast("list[object]", parts if isinstance(parts, list) else [])
        if (converted := _item_content(role, as_object(part) or {}))
    ]
    return _MESSAGE.validate_python(
        {
            "item_id": item.get("id") or "",
            "previous_item_id": previous_item_id,
            "type": "message",
            "role": role,
            "content": content,
            "status": own_status
            if own_status in ("in_progress", "completed", "incomplete")
            else status,
        }
    )


def usage_event(usage: object) -> RealtimeModelUsageEvent:
    """Return the usage of a response; a malformed one raises a `ValidationError`."""
    raw = RealtimeResponseUsage.model_validate(usage)
    inputs = _details(_INPUT_DETAILS, raw.input_token_details)
    input_tokens, output_tokens = raw.input_tokens or 0, raw.output_tokens or 0
    total = raw.total_tokens if raw.total_tokens is not None else input_tokens + output_tokens
    cached = (inputs.cached_tokens if inputs else None) or 0
    return RealtimeModelUsageEvent(
        usage=Usage(
            requests=1,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            total_tokens=total,
            input_tokens_details=InputTokensDetails(cached_tokens=cached),
        ),
        input_tokens_details=inputs,
        output_tokens_details=_details(_OUTPUT_DETAILS, raw.output_token_details),
    )


def _details(adapter: TypeAdapter[T], record: BaseModel | None) -> T | None:
    return None if record is None else adapter.validate_python(record.model_dump())


def _create(item: JsonObject) -> JsonObject:
    return {"type": "conversation.item.create", "item": item}


def _user_content(part: object) -> JsonObject:
    fields: JsonObject = as_object(part) or {}
    kind = fields.get("type")
    if kind == "input_text" and isinstance(fields.get("text"), str):
        return {"type": kind, "text": fields["text"]}
    if kind == "input_image" and as_text(fields.get("image_url")):
        image = {"type": kind, "image_url": fields["image_url"]}
        return image | ({"detail": fields["detail"]} if fields.get("detail") in _DETAILS else {})
    raise UserError(
        "The content of a message to a realtime model is {'type': 'input_text', 'text': ...} or"
        f" {{'type': 'input_image', 'image_url': ...}}, not {shown(part)}."
    )


def _item_content(role: str, part: JsonObject) -> dict[str, Any] | None:
    kind, names = _CONTENT.get(role, {}).get(str(part.get("type")), ("", ()))
    if not kind:
        return None
    return {"type": kind, **{name: part[name] for name in names if part.get(name) is not None}}
