"""The offline model's answers in the shapes of the Responses API: objects and stream events.

Owns: those shapes. Must not know: HTTP, the clock, randomness, and how an answer is found.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence

from outlast.contract.reply_events import reply_events
from outlast.dev.offline_request import InvalidRequestError, Request
from outlast.dev.offline_rules import CallTool, Reply
from outlast.loop.values import Json, JsonObject

_CHARACTERS_PER_TOKEN = 4
_CHUNK = re.compile(r"\S+\s*|\s+")


def response_object(
    body: JsonObject,
    request: Request,
    replies: Sequence[Reply],
    *,
    new_id: Callable[[str], str],
    created_at: int,
) -> JsonObject:
    """Return a complete `response` object.

    Args:
        body: the request as it came; its settings are echoed.
        request: the same, checked.
        replies: the answer.
        new_id: makes an id that begins with the given prefix.
        created_at: seconds since 1970.
    """
    output = [_output_item(reply, new_id) for reply in replies]
    spoken = [reply.arguments if isinstance(reply, CallTool) else reply.text for reply in replies]
    asked = [body.get("instructions"), body.get("input"), body.get("tools")]
    input_tokens, output_tokens = _tokens(asked), _tokens(spoken)
    return {
        "id": new_id("resp_"),
        "object": "response",
        "created_at": created_at,
        "completed_at": created_at,
        "status": "completed",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "max_tool_calls": body.get("max_tool_calls"),
        "metadata": body.get("metadata") or {},
        "model": request.model,
        "output": output,
        "parallel_tool_calls": request.parallel,
        "previous_response_id": None,
        "prompt_cache_key": body.get("prompt_cache_key"),
        "reasoning": {"effort": None, "summary": None},
        "safety_identifier": body.get("safety_identifier"),
        "service_tier": "default",
        "store": body.get("store") is not False,
        "temperature": body.get("temperature", 1.0),
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": body.get("tools") or [],
        "top_logprobs": 0,
        "top_p": body.get("top_p", 1.0),
        "truncation": body.get("truncation") or "disabled",
        "usage": {
            "input_tokens": input_tokens,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": input_tokens + output_tokens,
        },
        "user": body.get("user"),
    }


def stream_events(response: JsonObject) -> Iterator[JsonObject]:
    """Tell a complete response as the events of a stream, numbered, a word or so at a time."""
    for number, event in enumerate(reply_events(response, _CHUNK.findall)):
        yield {"type": event["type"], "sequence_number": number, **event}


def error_object(error: InvalidRequestError) -> JsonObject:
    """Return the body of a refusal."""
    return {
        "error": {
            "message": error.message,
            "type": "invalid_request_error",
            "param": error.param,
            "code": error.code,
        }
    }


def _output_item(reply: Reply, new_id: Callable[[str], str]) -> JsonObject:
    if isinstance(reply, CallTool):
        return {
            "id": new_id("fc_"),
            "type": "function_call",
            "status": "completed",
            "call_id": new_id("call_"),
            "name": reply.name,
            "arguments": json.dumps(reply.arguments, ensure_ascii=False),
        }
    return {
        "id": new_id("msg_"),
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}],
    }


def _tokens(value: Json) -> int:
    """Estimate tokens from the length, the same for the same value."""
    return -(-len(json.dumps(value, ensure_ascii=False)) // _CHARACTERS_PER_TOKEN)
