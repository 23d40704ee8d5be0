"""Answers of the Chat Completions API, as the tests of LiteLLM use them."""

from outlast.loop.values import JsonObject

USAGE: JsonObject = {
    "prompt_tokens": 30,
    "completion_tokens": 7,
    "total_tokens": 37,
    "prompt_tokens_details": {"cached_tokens": 20},
}
CALL: JsonObject = {
    "index": 0,
    "id": "call_1",
    "type": "function",
    "function": {"name": "look", "arguments": '{"at": 1}'},
}


def completion(message: JsonObject, finish_reason: str = "stop") -> JsonObject:
    choice = {
        "index": 0,
        "message": {"role": "assistant", **message},
        "finish_reason": finish_reason,
    }
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": USAGE,
    }


def chunks(*deltas: JsonObject, finish_reason: str = "stop") -> list[JsonObject]:
    """Return the chunks of a whole stream, with the usage at its end."""
    choices: list[JsonObject] = [
        {"index": 0, "delta": delta, "finish_reason": None} for delta in deltas
    ]
    choices.append({"index": 0, "delta": {}, "finish_reason": finish_reason})
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return [
        *({**head, "choices": [choice]} for choice in choices),
        {**head, "choices": [], "usage": USAGE},
    ]
